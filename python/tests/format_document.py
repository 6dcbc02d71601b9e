"""What docs/reference/format.md says of itself: tables, code blocks, and the rules of readers."""

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs/reference"


def section(title: str, name: str = "format.md") -> str:
    """The text under a heading, up to the next heading of the same or a higher level."""
    text = (DOCS / name).read_text()
    start = re.search(rf"^(#+) {re.escape(title)}$", text, re.MULTILINE)
    assert start is not None, f"{name} has no heading {title!r}"
    rest = text[start.end() :]
    end = re.search(rf"^#{{1,{len(start[1])}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def rows(text: str, first: str) -> list[list[str]]:
    """The rows of the table whose first column is called `first`, without marks."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {first} |"))
    found = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        found.append([cell.strip().replace("`", "") for cell in line.strip("|").split("|")])
    return found


def blocks(text: str) -> list[str]:
    """The code blocks of a text."""
    return re.findall(r"^```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def plain(text: str) -> str:
    """A text in one line, for what a line break may cut."""
    return " ".join(text.replace("`", "").split())


def numbers(text: str) -> list[int]:
    """All decimal numbers of a text."""
    return [int(number) for number in re.findall(r"\d+", text)]


def hexadecimal(text: str) -> list[int]:
    """Words in hex, apart by spaces."""
    return [int(word, 16) for word in text.split()]


def rules(name: str) -> list[str]:
    """The numbers of the rules that readers check."""
    return re.findall(r"^- ([0-9c]+\.[0-9]+) ", (DOCS / name).read_text(), re.MULTILINE)
