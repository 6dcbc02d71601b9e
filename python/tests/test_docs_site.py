"""The tools of the documentation site: links, the navigation, and pages made from the code.

What must not live here: the build of the site itself, which `make docs` does and a warning ends.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools/docs"))

import check_links
import hook
import typer
from cli_reference import cli_reference
from markdown_text import anchors, plain_fences, replace_links, slug, without_setup
from places import PROJECT, site_link
from public_names import missing_names
from results_list import results_list

from neargraph.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
# Not written out, because the check of links reads this file, too.
NONE = "none.md"
DEAD = {
    "a file": (f"[a](docs/{NONE})", f"leads to docs/{NONE}, which is not there"),
    "a heading": ("[a](docs/glossary.md#none)", "the heading #none, which docs/glossary.md"),
    "a heading of the page": ("[a](#none)", "the heading #none, which README.md"),
    "an image": ("![a](none.png)", "none.png, which is not there"),
    "a reference": (f"[a]: docs/{NONE}", f"docs/{NONE}, which is not there"),
    "a page on GitHub": (f"[a]({PROJECT}/blob/main/docs/{NONE})", f"docs/{NONE}, which is not"),
    "a heading on GitHub": (f"[a]({PROJECT}/blob/main/docs/glossary.md#none)", "heading #none"),
    "a folder above": ("[a](../none.md)", "out of the repository"),
    "a heading of code": ("[a](Makefile#help)", "which is not a document"),
}


@pytest.mark.parametrize("name", DEAD)
def test_a_link_that_leads_nowhere_is_found(name):
    text, problem = DEAD[name]
    (found,) = check_links.problems_of_document("README.md", f"# Title\n\n{text}\n")
    assert found.startswith("README.md:3: ")
    assert problem in found


def test_links_that_lead_somewhere_are_no_problem():
    text = (
        "# One\n[a](docs/reference/limits.md#stores) [b](docs/decisions) [c](#one)\n"
        f"[d](Makefile#L3-L5) [e](https://example.org/{NONE}) [f]({PROJECT}/tree/main/docs)\n"
        f"`[h](docs/{NONE})` [i](docs/reference/cli.md#what-the-site-knows)\n"
        f"```text\n[j](docs/{NONE})\n```\n"
    )
    assert list(check_links.problems_of_document("README.md", text)) == [
        "README.md:2: #one leads to the heading #one, which README.md does not have"
    ]


def test_a_document_that_code_names_and_that_is_not_there_is_found():
    text = f'"""By docs/{NONE}."""\n# docs/reference/format.md, docs/*.md\nx = "https://a/docs/b"\n'
    (found,) = check_links.problems_of_code("a.py", text)
    assert found == f"a.py:1: docs/{NONE} is not there"


def test_anchors_are_those_of_github():
    text = "# A `b_c`: d, e?\n## A [link](x.md) - here\n## Same\n## Same\n```\n# No\n```\n"
    assert anchors(text) == {"a-b_c-d-e", "a-link---here", "same", "same-1"}
    assert slug("Bundles: `Program()`") == "bundles-program"


def test_a_link_of_a_page_leads_to_the_same_place_on_the_site():
    assert (
        site_link("index.md", "docs/reference/format.md#3-files") == "reference/format.md#3-files"
    )
    assert site_link("index.md", f"{PROJECT}/blob/main/docs/glossary.md") == "glossary.md"
    assert site_link("reference/models.md", "../how-to/training.md") == "../how-to/training.md"
    assert site_link("reference/models.md", "../../README.md") == "../index.md"
    assert site_link("benchmarks/results/2026-11-23-gpu.md", "x.png") == "x.png"
    code = f"{PROJECT}/blob/main/examples/train_cora.py"
    assert site_link("tutorials/quickstart.md", "../../examples/train_cora.py") == code
    assert site_link("reference/format.md", "../../crates") == f"{PROJECT}/tree/main/crates"
    for kept in ("#here", "https://example.org/", "mailto:a@b.c"):
        assert site_link("glossary.md", kept) == kept


def test_code_is_left_alone_where_links_are_replaced():
    text = "[a](x) `[b](x)`\n```\n[c](x)\n```\n![d](x 'title')\n"
    replaced = "[a](y) `[b](x)`\n```\n[c](x)\n```\n![d](y 'title')\n"
    assert replace_links(text, lambda target: "y") == replaced


def test_fences_lose_the_words_for_the_test_of_code():
    hidden = "<!-- setup sh\nls\n-->\n"
    text = f"```python no-run gpu\nx\n```\n\n```toml file=a.toml\n```text\n```\n{hidden}"
    site = '```python\nx\n```\n\n```toml title="a.toml"\n```text\n```\n'
    assert without_setup(plain_fences(text)) == site


def test_a_pattern_of_the_navigation_takes_the_pages_that_no_line_names():
    nav = [{"A": ["a/1.md", "a/*.md"]}, {"Empty": ["b/*.md"]}, "*.md"]
    pages = ["a/1.md", "a/2.md", "a/3.md", "a/c/4.md", "faq.md"]
    expanded = hook._expanded(nav, pages, {"a/1.md"})
    assert expanded == [{"A": ["a/1.md", "a/2.md", "a/3.md"]}, {"Empty": []}, "faq.md"]


@pytest.mark.parametrize(
    ("text", "outside"),
    [
        ('<script src="https://a/b.js"></script>', ["https://a/b.js"]),
        ('<link rel="stylesheet" href="//a/b.css">', ["//a/b.css"]),
        ('<link href="https://a/f" rel="preconnect" crossorigin>', ["https://a/f"]),
        ('<img alt="x" src="https://a/b.png">', ["https://a/b.png"]),
        ('<link rel="canonical" href="https://a/"><a href="https://a/"><img src="a.png">', []),
    ],
)
def test_what_a_page_would_load_from_elsewhere_is_found(text, outside):
    assert hook._outside(text) == outside


def test_a_public_name_without_a_place_in_the_reference_is_found():
    missing = missing_names(set())
    assert {"neargraph.Store", "neargraph.from_pyg", "neargraph.NodeOutOfRange"} <= set(missing)
    home = {"neargraph.importers.from_pyg", "neargraph.Store", "neargraph.exceptions"}
    assert {"neargraph.Store", "neargraph.from_pyg"}.isdisjoint(missing_names(home))
    assert not any("NodeOutOfRange" in name for name in missing_names(home))


def test_every_command_and_option_is_in_the_reference():
    text = cli_reference()

    def check(command, path):
        (section,) = [s for s in text.split("\n## ") if s.lstrip("# ").startswith(f"`{path}`\n")]
        for param in command.params:
            names = (
                param.opts
                if param.param_type_name == "option"
                else [(param.metavar or param.name).upper()]
            )
            assert all(f"`{name}`" in section for name in names), (path, names)
        for name, below in getattr(command, "commands", {}).items():
            check(below, f"{path} {name}")

    check(typer.main.get_command(app), "neargraph")
    assert "--listen" in text.split("## `neargraph serve`")[1].split("\n## ")[0]


def test_results_stand_newest_first_and_once():
    rows = results_list().splitlines()[2:]
    dates = [row.split(" | ")[0] for row in rows]
    assert dates == sorted(dates, reverse=True)
    files = {path.name for path in (ROOT / "benchmarks/results").glob("*.md")}
    assert all(sum(row.count(name) for row in rows) == 1 for name in files)
    (engine,) = [row for row in rows if "-engine.md" in row]
    assert engine.index("2026-11-26-engine.md") < engine.index("2026-11-25-engine.md")
