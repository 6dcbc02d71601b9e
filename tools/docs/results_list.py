"""The list of result files of the benchmarks, for the page that the site opens them from.

Invariant: topics stand by the date of their newest file, newest first, and each file is in the list
once.
"""

from __future__ import annotations

import re
from collections import defaultdict

from places import RESULTS, ROOT

_NAME = re.compile(r"(\d{4}-\d{2}-\d{2})-(.+)")
_DATE = re.compile(r"^\d{4}-\d{2}-\d{2}: |, \d{4}-\d{2}-\d{2}$")


def results_list() -> str:
    """A table of the topics: the newest file of each, and the older ones."""
    topics: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for path in (ROOT / RESULTS).glob("*.md"):
        at = _NAME.fullmatch(path.stem)
        if at is not None:
            title = path.read_text().split("\n", 1)[0].lstrip("# ")
            title = _DATE.sub("", title)
            topics[at[2]].append((at[1], path.name, title[:1].upper() + title[1:]))
    lines = ["| date | results | older |", "|---|---|---|"]
    newest_first = sorted(topics.values(), key=lambda files: (max(files)[0], files), reverse=True)
    for files in newest_first:
        (date, name, title), *older = sorted(files, reverse=True)
        before = ", ".join(f"[{day}]({RESULTS_LINK}{file})" for day, file, _ in older)
        lines.append(f"| {date} | [{title}]({RESULTS_LINK}{name}) | {before} |")
    return "\n".join(lines)


# The page lies in docs/benchmarks/results, the files in benchmarks/results.
RESULTS_LINK = "../../../benchmarks/results/"
