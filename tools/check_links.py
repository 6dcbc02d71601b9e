"""Checks that links lead somewhere: between documents, to their headings, and from code to them.

Links to the project's own files on GitHub are checked as if they were relative; no other address is
asked. Invariant: a document that moves, or a heading that changes, is found with all that names it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "docs"))

from markdown_text import anchors, links
from places import ROOT, target_of

# A document, as code names it. Patterns such as docs/*.md are none.
_NAMED = re.compile(r"(?<![\w/.-])docs/[\w./-]*\w")
_GENERATED = re.compile(r"^<!-- generated: \w+ -->$", re.MULTILINE)
# A line of code; GitHub makes these anchors of every file.
_LINES = re.compile(r"L\d+(-L\d+)?")


def tracked() -> list[str]:
    """Tracked and new files."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [name for name in names.splitlines() if (ROOT / name).is_file()]


@cache
def anchors_of(path: str) -> frozenset[str] | None:
    """The anchors of a document; None where the site adds some that only it knows."""
    text = (ROOT / path).read_text()
    return None if _GENERATED.search(text) else frozenset(anchors(text))


def problem_of(source: str, target: str) -> str | None:
    """What is wrong with a link."""
    found = target_of(source, target)
    if found is None:
        return None
    path, anchor = found
    if path.startswith(("..", "/")):
        return f"{target} leads out of the repository"
    if not (ROOT / path).exists():
        return f"{target} leads to {path}, which is not there"
    if not anchor or _LINES.fullmatch(anchor):
        return None
    if not path.endswith(".md"):
        return f"{target} names a heading of {path}, which is not a document"
    known = anchors_of(path)
    if known is not None and anchor not in known:
        return f"{target} leads to the heading #{anchor}, which {path} does not have"
    return None


def problems_of_document(path: str, text: str) -> Iterator[str]:
    """Links of a document that lead nowhere."""
    for line, target in links(text):
        problem = problem_of(path, target)
        if problem is not None:
            yield f"{path}:{line}: {problem}"


def problems_of_code(path: str, text: str) -> Iterator[str]:
    """Documents that code names and that are not there."""
    for number, line in enumerate(text.split("\n"), 1):
        for at in _NAMED.finditer(line):
            if not (ROOT / at[0]).exists() and "://" not in line[: at.start()]:
                yield f"{path}:{number}: {at[0]} is not there"


def findings() -> tuple[int, list[str]]:
    """How many files were read, and what is wrong in them."""
    found: list[str] = []
    files = tracked()
    for path in files:
        try:
            text = (ROOT / path).read_text()
        except UnicodeDecodeError:
            continue
        if path.endswith(".md"):
            found += problems_of_document(path, text)
        elif "docs/" in text:
            found += problems_of_code(path, text)
    return len(files), found


def main() -> int:
    """Prints what is wrong."""
    count, found = findings()
    print("\n".join(found) if found else f"links: all lead somewhere, in {count} files")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
