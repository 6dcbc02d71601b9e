"""Each block of code in docs/reference/ does what its page says (`docs_pages.py`)."""

import pytest
from docs_pages import REFERENCE, told


@pytest.mark.parametrize("page", REFERENCE)
def test_the_blocks_of_a_page_run_from_top_to_bottom(page, tmp_path):
    problem = told(page, tmp_path)
    assert problem is None, problem
