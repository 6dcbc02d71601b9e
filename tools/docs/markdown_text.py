"""What the tools of the documentation need of Markdown: fences, links, anchors, hidden setup.

What must not live here: where pages lie, which is `places.py`. Invariant: text inside a fence is
never taken for a link or a heading.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<ticks>`{3,}|~{3,})(?P<info>[^`\n]*)$")
_INLINE = re.compile(r"(?<!\\)(!?\[(?:[^\[\]]|\[[^\[\]]*\])*\])\(\s*<?([^)\s>]+)>?([^)]*)\)")
_REFERENCE = re.compile(r"^(\[[^\]]+\]:)\s+(\S+)(.*)$")
_CODE = re.compile(r"(`+)(.+?)\1")
_SETUP = re.compile(r"^<!-- setup\b.*?-->\n?", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")
_EXPLICIT = re.compile(r"\s*\{[^}]*#([\w-]+)[^}]*\}\s*$|<a (?:id|name)=\"([^\"]+)\"")


def prose(text: str) -> Iterator[tuple[int, str, bool]]:
    """(number, line, whether it is prose) of each line; fences and their contents are not."""
    ticks = ""
    for number, line in enumerate(text.split("\n"), 1):
        at = FENCE.match(line)
        if ticks:
            yield number, line, False
            if at and at["ticks"].startswith(ticks) and not at["info"].strip():
                ticks = ""
        elif at:
            ticks = at["ticks"]
            yield number, line, False
        else:
            yield number, line, True


def _hide_code(line: str) -> str:
    """The line with code between backticks blanked, so that places stay."""
    return _CODE.sub(lambda at: "\0" * len(at[0]), line)


def links(text: str) -> Iterator[tuple[int, str]]:
    """(line, target) of every link and image in the prose."""
    for number, line, is_prose in prose(text):
        if is_prose:
            hidden = _hide_code(line)
            for at in _INLINE.finditer(hidden):
                yield number, line[at.start(2) : at.end(2)]
            if at := _REFERENCE.match(hidden):
                yield number, at[2]


def replace_links(text: str, new: Callable[[str], str]) -> str:
    """The text with `new(target)` for the target of each link."""
    lines = []
    for _, line, is_prose in prose(text):
        found = []
        if is_prose:
            hidden = _hide_code(line)
            found = [at.span(2) for at in _INLINE.finditer(hidden)]
            if at := _REFERENCE.match(hidden):
                found.append(at.span(2))
        for start, end in reversed(found):
            line = line[:start] + new(line[start:end]) + line[end:]
        lines.append(line)
    return "\n".join(lines)


def slug(title: str) -> str:
    """The anchor that GitHub makes of a heading."""
    title = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", title)
    title = re.sub(r"</?\w[^>]*>", "", title).lower()
    return re.sub(r"[^\w\- ]", "", title).strip().replace(" ", "-")


def anchors(text: str) -> set[str]:
    """The anchors of a page."""
    found: set[str] = set()
    for _, line, is_prose in prose(text):
        at = _HEADING.match(line) if is_prose else None
        explicit = _EXPLICIT.search(line) if is_prose else None
        if explicit:
            found.add(explicit[1] or explicit[2])
        if at:
            name = base = slug(at[1])
            count = 0
            while name in found:
                count += 1
                name = f"{base}-{count}"
            found.add(name)
    return found


def without_setup(text: str) -> str:
    """The text without the hidden blocks that make data for the test of its code."""
    return _SETUP.sub("", text)


def plain_fences(text: str) -> str:
    """Fences as the site takes them: the language, and the name of a file as a title."""
    lines = []
    opened = ""
    for _, line, is_prose in prose(text):
        at = None if is_prose else FENCE.match(line)
        if at and opened and at["ticks"].startswith(opened) and not at["info"].strip():
            opened = ""
        elif at and not opened:
            opened = at["ticks"]
            language, *rest = at["info"].split() or [""]
            titles = [word[5:] for word in rest if word.startswith("file=")]
            title = f' title="{titles[0]}"' if titles else ""
            line = f"{at['indent']}{at['ticks']}{language}{title}"
        lines.append(line)
    return "\n".join(lines)
