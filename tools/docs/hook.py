"""What mkdocs calls while it builds the site: generated pages, patterns of the navigation, links.

Invariants: each public name has a place in the reference of Python, each page a place in the
navigation; what lacks one is a warning, which ends a strict build.
"""

from __future__ import annotations

import fnmatch
import logging
import posixpath
import re
from pathlib import Path
from typing import Any

from cli_reference import cli_reference
from markdown_text import plain_fences, prose, replace_links, without_setup
from mkdocs.structure.files import File, Files
from places import PAGES, RESULTS, ROOT, site_link
from public_names import missing_names
from results_list import results_list

log = logging.getLogger("mkdocs.neargraph")
_MARK = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)
_NAMED = re.compile(r"^::: (neargraph[\w.]*)", re.MULTILINE)
_GENERATED = {"cli": cli_reference, "results": results_list}
_documented: set[str] = set()


def on_files(files: Files, config: Any) -> Files:
    """Adds documents of the repository that lie outside docs/, and writes out the navigation."""
    _documented.clear()
    outside = {ROOT / path: page for path, page in PAGES.items()}
    for path in sorted((ROOT / RESULTS).glob("*")):
        if path.suffix in (".md", ".png"):
            outside[path] = f"{RESULTS}/{path.name}"
    for path, page in outside.items():
        files.append(File.generated(config, page, abs_src_path=str(path)))
    pages = [file.src_uri for file in files.documentation_pages()]
    named = {page for page in _named_pages(config.nav) if "*" not in page}
    config.nav = _expanded(config.nav, sorted(pages, key=_order), named)
    return files


def _named_pages(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    return [page for part in parts for page in _named_pages(part)]


def _order(page: str) -> tuple[bool, str]:
    """Results newest first, all other pages by name."""
    if page.startswith(RESULTS):
        return True, "".join(chr(255 - ord(letter)) for letter in page if ord(letter) < 256)
    return False, page


def _expanded(nav: Any, pages: list[str], named: set[str]) -> Any:
    """The navigation with the pages of each pattern; a section without a page is left out."""
    if isinstance(nav, dict):
        return {title: _expanded(part, pages, named) for title, part in nav.items()}
    if not isinstance(nav, list):
        return nav
    found: list[Any] = []
    for part in nav:
        if isinstance(part, str) and "*" in part:
            folder = posixpath.dirname(part)
            inside = [page for page in pages if posixpath.dirname(page) == folder]
            new = [page for page in fnmatch.filter(inside, part) if page not in named]
            named.update(new)
            found += new
        else:
            found.append(_expanded(part, pages, named))
    return [part for part in found if part not in ([], {})]


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """A page as the site has it."""
    name = page.file.src_uri
    if name == "index.md":
        page.meta["hide"] = ["navigation"]
    text = _MARK.sub(lambda at: _GENERATED[at[1]](), markdown)
    text = replace_links(plain_fences(without_setup(text)), lambda target: site_link(name, target))
    lines = "\n".join(line for _, line, is_prose in prose(text) if is_prose)
    _documented.update(_NAMED.findall(lines))
    return text


def on_post_build(config: Any) -> None:
    """Names what the reference of Python lacks, and what a page would load from elsewhere."""
    for name in missing_names(_documented):
        log.warning("docs/reference/api has no place for %s; add the line '::: %s'", name, name)
    for path in sorted(Path(config.site_dir).rglob("*.html")):
        for address in _outside(path.read_text()):
            log.warning("%s would load %s from elsewhere", path.name, address)


_LOADED = re.compile(
    r"<(?:script|img|iframe|source|video|audio|embed)\b[^>]*?\bsrc=[\"']?((?:https?:)?//[^\"'\s>]+)"
    r"|<link\b(?=[^>]*rel=[\"']?(?:stylesheet|icon|preload|preconnect|dns-prefetch|manifest))"
    r"[^>]*?\bhref=[\"']?((?:https?:)?//[^\"'\s>]+)"
)


def _outside(text: str) -> list[str]:
    return [at[1] or at[2] for at in _LOADED.finditer(text)]
