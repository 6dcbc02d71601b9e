"""Where a document lies in the repository, and where the site has it.

Invariant: a link that works in the repository works on the site. It leads to the page there, or to
the file in the project's repository where the site has no page of it.
"""

from __future__ import annotations

import posixpath
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROJECT = "https://github.com/neargraph/neargraph"
# Documents outside docs/ that are pages of the site.
PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/README.md": "benchmarks/commands.md",
}
RESULTS = "benchmarks/results"
_FOLDERS = {RESULTS: "benchmarks/results/index.md"}
_OWN = (
    *(f"{PROJECT}/{kind}/main/" for kind in ("blob", "tree", "raw")),
    "https://raw.githubusercontent.com/neargraph/neargraph/main/",
)


def site_page(path: str) -> str | None:
    """The page or file of the site that a path of the repository is; None if the site has none."""
    if path in PAGES:
        return PAGES[path]
    if path in _FOLDERS:
        return _FOLDERS[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/") if (ROOT / path).is_file() else None
    if posixpath.dirname(path) == RESULTS and path.endswith((".md", ".png")):
        return path
    return None


def repository_path(page: str) -> str:
    """The path in the repository of a page of the site."""
    back = {value: key for key, value in PAGES.items()}
    if page in back:
        return back[page]
    in_docs = f"docs/{page}"
    return in_docs if (ROOT / in_docs).exists() or not page.startswith(RESULTS) else page


def target_of(source: str, target: str) -> tuple[str, str] | None:
    """(path in the repository, anchor) that a link in `source` leads to; None if it leads away.

    A link to the project's own files on GitHub is taken as if it were relative.
    """
    for own in _OWN:
        if target.startswith(own):
            path, _, anchor = target.removeprefix(own).partition("#")
            return posixpath.normpath(path), anchor
    if "://" in target or target.startswith("mailto:"):
        return None
    path, _, anchor = target.partition("#")
    if not path:
        return source, anchor
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), path)), anchor


def site_link(page: str, target: str) -> str:
    """What a link of a page of the site becomes there."""
    found = target_of(repository_path(page), target)
    if found is None or target.startswith("#"):
        return target
    path, anchor = found
    end = f"#{anchor}" if anchor else ""
    here = site_page(path)
    if here is not None:
        return posixpath.relpath(here, posixpath.dirname(page) or ".") + end
    if (ROOT / path).exists():
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"{PROJECT}/{kind}/main/{path}{end}"
    return target
