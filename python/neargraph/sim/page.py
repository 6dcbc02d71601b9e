"""Parts of the report: tables, pictures, bars, and links to the glossary.

The invariant: text from outside is escaped here. Every glossary word has a tooltip with its meaning
and a link to the glossary.
"""

import base64
import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from .glossary import MEANINGS

STYLE = """
:root { color-scheme: light dark; --ink: #1d2329; --paper: #fff; --soft: #5c6670; --line: #d3d9df;
        --bar: #3b6ea5; --tlc: #a9c3de; --card: #f3f6f9; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #dfe4e8; --paper: #171b1f; --soft: #98a3ad; --line: #39424a; --bar: #6fa3da;
          --tlc: #3d5f82; --card: #20262c; }
}
* { box-sizing: border-box; }
body { font: 16px/1.45 system-ui, sans-serif; max-width: 66rem; margin: 1rem auto; padding: 0 1rem;
       color: var(--ink); background: var(--paper); }
h1 { font-size: 1.3rem; margin: .4rem 0 .8rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .6rem; }
.cards { display: grid; gap: .8rem; grid-template-columns: repeat(auto-fit, minmax(17rem, 1fr)); }
.card { background: var(--card); border-radius: .4rem; padding: .6rem .9rem; }
.card h3 { margin: 0 0 .3rem; font-size: 1rem; } .card p { margin: .3rem 0; font-size: .95rem; }
.two { display: grid; gap: 0 2rem; grid-template-columns: repeat(auto-fit, minmax(19rem, 1fr)); }
.soft { color: var(--soft); font-size: .9rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .86rem; font-variant-numeric: tabular-nums; }
th, td { padding: .22rem .6rem; border-bottom: 1px solid var(--line); text-align: right;
         vertical-align: middle; }
td { white-space: nowrap; } .text { text-align: left; }
.two td.text { white-space: normal; overflow-wrap: anywhere; }
.chain { width: 100%; } .chain td.bars { width: 38%; min-width: 7rem; }
.bar { height: .75rem; min-width: 2px; background: var(--bar); border-radius: 0 2px 2px 0; }
.tlc { height: .3rem; background: var(--tlc); }
a.term { color: inherit; text-decoration: underline dotted var(--soft);
         text-underline-offset: 3px; }
img { max-width: 100%; height: auto; background: #fff; border-radius: .3rem; }
.big img { min-width: 38rem; }
.made p { margin: .1rem 0; } dt { font-weight: 600; margin-top: .5rem; } dd { margin: 0 0 0 1rem; }
@media (max-width: 40rem) {
  .chain .more { display: none; } body { padding: 0 .6rem; } .chain td { white-space: normal; }
  .chain th, .chain td { padding: .2rem .3rem; } .chain td.bars { min-width: 3.5rem; }
}
@media print {
  body { color: #000; background: #fff; } .wide { overflow: visible; } .big img { min-width: 0; }
  table { font-size: .6rem; } img, tr, .card { break-inside: avoid; } h2 { break-after: avoid; }
}
"""

_TERM = re.compile(
    r"(?<![\w-])("
    + "|".join(map(re.escape, sorted(MEANINGS, key=len, reverse=True)))
    + r")(?![\w-])"
)
# Columns of text, aligned to the left; the others are numbers, aligned to the right.
_WORDS = {"platform", "graph", "bound by", "constant"}


def explained(text: str, known: set[str] | None = None) -> str:
    """Returns text as HTML, with tooltips and links for glossary words.

    Args:
        known: Words that are already explained. The words of the text are added.

    >>> explained("CC & co")[:47]
    '<a class="term" href="#CC" title="CPU-centric, '
    >>> explained("CC & co", {"CC"})
    'CC &amp; co'
    """
    told = set() if known is None else known

    def term(match: re.Match[str]) -> str:
        word = match[1]
        if word in told:
            return word
        told.add(word)
        title = escape(MEANINGS[word])
        return f'<a class="term" href="#{anchor(word)}" title="{title}">{word}</a>'

    return _TERM.sub(term, escape(text))


def anchor(word: str) -> str:
    """Returns the HTML id of a word in the glossary.

    >>> anchor("queue depth")
    'queue-depth'
    """
    return word.replace(" ", "-")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table of plain text. Glossary words in heads and in text columns are explained."""
    kinds = [' class="text"' if name in _WORDS else "" for name in head]

    def line(cells: Sequence[str], tag: str) -> str:
        both = zip(kinds, cells, strict=True)
        inside = (
            f"<{tag}{kind}>{explained(cell) if kind or tag == 'th' else escape(cell)}</{tag}>"
            for kind, cell in both
        )
        return f"<tr>{''.join(inside)}</tr>"

    body = "".join(line(row, "td") for row in rows)
    return f'<div class="wide"><table>{line(head, "th")}{body}</table></div>'


def glossary(words: Iterable[str]) -> str:
    """Returns the glossary entries of some words, the targets of the links."""
    entries = (
        f'<dt id="{anchor(word)}">{word}</dt><dd>{escape(MEANINGS[word])}</dd>' for word in words
    )
    return f"<dl>{''.join(entries)}</dl>"


def words_of(body: str) -> list[str]:
    """Returns the glossary words on a page, in the order of the glossary."""
    shown = set(re.findall(r'class="term" href="#([^"]*)"', body))
    return [word for word in MEANINGS if anchor(word) in shown]


def bar(share: float, kind: str = "bar") -> str:
    """Returns a bar whose length is a share of the column.

    >>> bar(0.5)
    '<div class="bar" style="width:50.0%"></div>'
    """
    return f'<div class="{kind}" style="width:{100 * min(1.0, max(0.0, share)):.1f}%"></div>'


def card(title: str, sentences: Iterable[str]) -> str:
    """A question and its answer."""
    known: set[str] = set()
    said = "".join(f"<p>{explained(sentence, known)}</p>" for sentence in sentences)
    return f'<div class="card"><h3>{escape(title)}</h3>{said}</div>'


def picture(data: bytes, alt: str, is_big: bool = True) -> str:
    """Returns a PNG, embedded in the page."""
    text = base64.b64encode(data).decode()
    kind = "wide big" if is_big else "wide"
    return f'<p class="{kind}"><img alt="{escape(alt)}" src="data:image/png;base64,{text}"></p>'


def exact(value: Any) -> str:
    """Returns a constant as text, not rounded.

    >>> exact(800e6), exact(None), exact(True)
    ('800,000,000.0', 'no limit', 'True')
    """
    if value is None:
        return "no limit"
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{value:,}" if is_number else str(value)


def whole_page(title: str, body: str) -> str:
    """Returns a complete HTML page without scripts or outside resources."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n"
        f"<body>{body}</body></html>\n"
    )
