"""Sizes as users write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neargraph.units import format_bytes, parse_bytes


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("256MB", 256 * 10**6),
        ("1MiB", 2**20),
        ("1.5 GiB", 3 * 2**29),
        (" 7 kb ", 7000),
        ("12", 12),
        (4096, 4096),
    ],
)
def test_a_size_is_read_with_its_unit(text, count):
    assert parse_bytes(text) == count


@pytest.mark.parametrize("bad", ["", "MB", "12 parsecs", "-3MB", "1e9", 0, -1, "0MB", True, None])
def test_what_is_no_size_is_refused_with_the_text_in_the_message(bad):
    with pytest.raises(ValueError, match="size"):
        parse_bytes(bad)


@given(st.integers(1, 2**62))
def test_a_plain_count_is_itself(count):
    assert parse_bytes(str(count)) == count
    assert format_bytes(count).split()[1] in {"B", "kB", "MB", "GB", "TB"}
