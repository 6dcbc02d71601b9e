"""Rust source as tokens, without comments and without tests.

What lives here: a lexer that is exact about strings, characters, lifetimes and nested comments, and
the removal of `#[cfg(test)]` items. What must not: what the tokens mean. The invariant: a token
knows the lines that it covers, so that lines of code are the lines that tokens cover.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<comment>//[^\n]*)
    |(?P<block>/\*)
    |(?P<string>[bc]?r(?P<hashes>\#*)".*?"(?P=hashes)|[bc]?"(?:\\.|[^"\\])*")
    |(?P<char>b?'(?:\\(?:x[0-9a-fA-F]{2}|u\{[^}]*\}|.)|[^\\'\n])')
    |(?P<lifetime>'[A-Za-z_]\w*)
    |(?P<number>\d\w*(?:\.\d\w*)?)
    |(?P<name>(?:r\#)?[A-Za-z_]\w*)
    |(?P<mark>::|=>|->|==|!=|>=|<=|&&|\|\||\.\.=|\.\.\.|\.\.|.)""",
    re.DOTALL | re.VERBOSE,
)
_BLOCK_END = re.compile(r"/\*|\*/")
OPEN, CLOSE = {"(", "[", "{"}, {")", "]", "}"}


class Token(NamedTuple):
    """A piece of code and the lines that it covers."""

    kind: str
    text: str
    line: int
    last_line: int

    @property
    def literal(self) -> str:
        """What a string says, with continued lines joined."""
        text = self.text[self.text.index('"') + 1 : self.text.rindex('"')]
        if "r" in self.text[: self.text.index('"')]:
            return text
        return re.sub(r"\\\n\s*", "", text).replace('\\"', '"')


def tokens_of(text: str) -> list[Token]:
    """All tokens without comments."""
    found, at, line = [], 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        assert match is not None, "the last pattern takes any character"
        kind, end = match.lastgroup, match.end()
        kind = "string" if kind == "hashes" else kind
        if kind == "block":
            depth = 1
            while depth:
                edge = _BLOCK_END.search(text, end)
                if edge is None:
                    raise ValueError(f"line {line}: a comment does not end")
                depth += 1 if edge.group() == "/*" else -1
                end = edge.end()
        breaks = text.count("\n", at, end)
        if kind not in {"space", "comment", "block"}:
            found.append(Token(str(kind), text[at:end], line, line + breaks))
        at, line = end, line + breaks
    return found


def closing(tokens: list[Token], at: int) -> int:
    """Where the bracket that opens at `at` closes."""
    depth = 0
    for index in range(at, len(tokens)):
        token = tokens[index]
        if token.kind == "mark":
            depth += (token.text in OPEN) - (token.text in CLOSE)
            if not depth:
                return index
    raise ValueError(f"line {tokens[at].line}: {tokens[at].text} does not close")


def _is_test(attribute: list[Token]) -> bool:
    text = "".join(token.text for token in attribute)
    return text == "[cfg(test)]" or text.startswith("[cfg(all(test,")


def _item_end(tokens: list[Token], at: int) -> int:
    """The index after an item, a field, an arm or a statement that starts at `at`."""
    while tokens[at].text == "#":
        at = closing(tokens, at + 1) + 1
    # A field ends at a comma; an item has commas in its generic parameters.
    name = at + (tokens[at].text == "pub")
    name = closing(tokens, name) + 1 if tokens[name].text == "(" else name
    is_field = tokens[name + 1].text == ":"
    while at < len(tokens):
        text = tokens[at].text
        if tokens[at].kind == "mark":
            if text in CLOSE:
                return at
            if text == ";" or (text == "," and is_field):
                return at + 1
            if text in OPEN:
                at = closing(tokens, at)
                if text == "{":
                    return at + 1
        at += 1
    return at


def without_tests(tokens: list[Token]) -> list[Token]:
    """The tokens outside items that only tests compile."""
    kept: list[Token] = []
    at = 0
    while at < len(tokens):
        if tokens[at].text == "#" and at + 1 < len(tokens):
            bracket = at + 1 + (tokens[at + 1].text == "!")
            if tokens[bracket].text == "[":
                end = closing(tokens, bracket) + 1
                if _is_test(tokens[bracket:end]):
                    if bracket > at + 1:
                        return []
                    at = _item_end(tokens, end)
                    continue
                kept += tokens[at:end]
                at = end
                continue
        kept.append(tokens[at])
        at += 1
    return kept


@cache
def product_tokens(path: Path) -> list[Token]:
    """The tokens of a file without comments and tests."""
    try:
        return without_tests(tokens_of(path.read_text()))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def lines_of_code(tokens: list[Token]) -> int:
    """How many lines hold code."""
    return len({line for token in tokens for line in range(token.line, token.last_line + 1)})


def product_files(crate: Path) -> dict[tuple[str, ...], Path]:
    """The files of a crate that the product compiles, by path of their module."""
    found: dict[tuple[str, ...], Path] = {}
    waiting = [((), crate / "src" / "lib.rs")]
    while waiting:
        module, path = waiting.pop()
        found[module] = path
        folder = path.parent if path.name in {"lib.rs", "mod.rs"} else path.with_suffix("")
        texts = [token.text for token in product_tokens(path)]
        for at, text in enumerate(texts):
            if text == "mod" and texts[at + 2 : at + 3] == [";"]:
                name = texts[at + 1]
                flat = folder / f"{name}.rs"
                waiting.append(
                    ((*module, name), flat if flat.exists() else folder / name / "mod.rs")
                )
    return found
