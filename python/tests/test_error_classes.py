"""Every error of the Rust crates becomes a class of `neargraph.exceptions`, chosen by hand."""

import re
from pathlib import Path

import pytest

from neargraph import exceptions

CRATES = Path(__file__).resolve().parents[2] / "crates"
ERRORS = CRATES / "ng-python" / "src" / "errors.rs"
# The enums that reach Python, by the name that errors.rs gives them.
ENUMS = {
    "OpenError": "ng-store/src/error.rs",
    "ReadError": "ng-store/src/error.rs",
    "BuildError": "ng-store/src/error.rs",
    "UpdateError": "ng-store/src/write/error.rs",
    "SealedError": "ng-store/src/sealed/error.rs",
    "DirectError": "ng-store/src/direct/error.rs",
    "SampleError": "ng-sample/src/error.rs",
    "CompiledError": "ng-sample/src/compiled/error.rs",
    "ReorganizeError": "ng-sample/src/reorganize/mod.rs",
    "ImportError": "ng-import/src/error.rs",
    "DeviceError": "ng-io/src/error.rs",
    "StagingError": "ng-io/src/staging_dir.rs",
}
# What a class function may also give: a class that it asks another function for.
CONSTANTS = {"DEFECT": "NeargraphError", "STOPPED": "NeargraphError", "NoMemory": "BudgetTooSmall"}


def variants(enum: str) -> list[str]:
    name = "ReadError" if enum == "DeviceError" else enum
    text = (CRATES / ENUMS[enum]).read_text()
    body = re.search(rf"enum {name} {{\n(.*?)^}}", text, re.M | re.S)[1]
    return re.findall(r"^    ([A-Z]\w+)", body, re.M)


def classes() -> dict[tuple[str, str], str]:
    """The class of each variant, as the arms of errors.rs say; "" where an inner error decides."""
    found = {}
    arms = re.findall(r"((?:\w+::\w+[^=;]*?))=>\s*(\{[^}]*\}|[^,]*)", ERRORS.read_text())
    for patterns, outcome in arms:
        named = re.search(r'Named\("(\w+)"\)', outcome)
        chosen = named[1] if named else next((c for n, c in CONSTANTS.items() if n in outcome), "")
        if "TooSmall(" in outcome:
            chosen = "BudgetTooSmall"
        for enum, variant in re.findall(r"(\w+Error)::(\w+)", patterns):
            found[enum, variant] = chosen
    return found


def test_no_arm_is_a_wildcard_and_no_enum_can_grow_unseen():
    assert not re.search(r"\b_ =>", ERRORS.read_text())
    open_enums = [p for p in CRATES.glob("*/src/**/*.rs") if "#[non_exhaustive]" in p.read_text()]
    assert open_enums == []


@pytest.mark.parametrize("enum", ENUMS)
def test_every_variant_has_a_class(enum):
    found, names = classes(), variants(enum)
    assert len(names) > 3
    for variant in names:
        assert (enum, variant) in found, f"{enum}::{variant}"
        chosen = found[enum, variant] or "NeargraphError"
        assert issubclass(getattr(exceptions, chosen), exceptions.NeargraphError)


def test_classes_that_callers_rely_on():
    found = classes()
    for enum in ("ReadError", "SampleError"):
        assert found[enum, "NoMemory"] == "BudgetTooSmall"
        assert found[enum, "Budget"] == "BudgetTooSmall"
    for enum, variant, wanted in (
        ("OpenError", "BudgetTooSmall", "BudgetTooSmall"),
        ("ImportError", "BudgetTooSmall", "BudgetTooSmall"),
        ("ReorganizeError", "Memory", "BudgetTooSmall"),
        ("DirectError", "Budget", "BudgetTooSmall"),
        ("OpenError", "Truncated", "StoreDamaged"),
        ("CompiledError", "Damaged", "StoreDamaged"),
        ("SealedError", "Write", "IoFailed"),
        ("SealedError", "Version", "CompiledOutdated"),
        ("DirectError", "Scratch", "IoFailed"),
        ("UpdateError", "Poisoned", "StorePoisoned"),
        ("ImportError", "Line", "ImportFailed"),
        ("ImportError", "Scratch", "IoFailed"),
    ):
        assert found[enum, variant] == wanted, (enum, variant)


def test_the_core_knows_no_names_of_options_for_memory():
    """Each face names the budget in its own words, so that no message advises what is not there."""
    below = [CRATES / name for name in ("ng-types", "ng-io", "ng-store", "ng-sample", "ng-import")]
    for path in (p for crate in below for p in (crate / "src").glob("**/*.rs")):
        for line in path.read_text().splitlines():
            if not line.lstrip().startswith("//"):
                assert "memory=" not in line, f"{path}: {line}"
                assert "--memory" not in line, f"{path}: {line}"
