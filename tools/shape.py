"""The shape of the code: lines, circles of modules, and four habits that hide mistakes.

    .venv/bin/python tools/shape.py [--root CHECKOUT] [--json]

It reads the sources of any checkout, so that two commits are counted by one rule. What it counts:

Lines of code: lines that hold code as rustfmt and `ruff format` lay it out (a checkout that is not
formatted is refused). Blanks, comments, docstrings and tests do not count: `#[cfg(test)]` items,
files that only such items name, and all that is not below `crates/*/src` or `python/neargraph`,
nor ng-testing. A string counts with all its lines.

Circles of modules: `circles.py` says what an edge is. For Python both figures are printed: with
imports in functions and under `if TYPE_CHECKING:`, and without.

Messages with words of a face: string literals below ng-python that hold a flag (`--unique`), a
keyword with its sign (`memory=`), or without it one that is no word otherwise (`batch_size`), a
command in backticks (`neargraph compact`, `compact`) or a name of the Python package
(`neargraph.open`). Words of the system (`dax=`) do not count.
ng-python, ng-rpc, ng-client, ng-server and python/neargraph are faces.

Wildcards over errors: arms `_`, `other`, or the like (also inside `Err(..)`) of a `match` in which
another arm names a variant of an error enum of this workspace. An arm that passes the value on as
it is (`other => other`, `Err(error) => return Err(error)`, `other => other.map_err(..)`) maps
nothing and is counted apart. Matches on foreign enums (`Errno`, `io::ErrorKind`) do not count.

Silence: `unwrap_or_default()` or `unwrap_or(&[])` behind a `.get(..)` or `.get_mut(..)` of the same
chain, whatever stands between and before. Beside it: assertions, by kind.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from circles import all_graphs, circles, python_graph
from rust_source import CLOSE, OPEN, Token, closing, lines_of_code, product_files, product_tokens

NOT_PRODUCT = {"ng-testing"}
FACES = {"ng-python", "ng-rpc", "ng-server", "ng-client"}
COMMANDS = "check|compact|compile|doctor|import|info|profile|reorganize|scrub|show|simulate|train"
KEYWORDS = "batch_size|world_size|num_neighbors|input_nodes|two_phase|busy_timeout|weight_attr"
FACE_WORD = re.compile(
    rf"""(?<![\w-])--[a-z][\w-]*
    |(?<![\w.<{{-])[a-z][a-z0-9_]*=(?!=)
    |`(?:neargraph|{COMMANDS}|update|verify)\b[^`]*`
    |\b(?:neargraph|ng)\.[a-z]\w*
    |\b(?:{KEYWORDS})\b(?![^{{}}]*\}})""",
    re.VERBOSE,
)
SYSTEM_WORDS = {"dax="}
ASSERTIONS = re.compile(r"(debug_)?assert(_eq|_ne)?$")


def crates_of(root: Path) -> list[Path]:
    """The crates of the product."""
    return sorted(c for c in (root / "crates").iterdir() if c.name not in NOT_PRODUCT)


def sources(crate: Path) -> Iterator[tuple[Path, list[Token]]]:
    """The product files of a crate and their tokens."""
    for path in sorted(product_files(crate).values()):
        yield path, product_tokens(path)


def python_lines(text: str) -> int:
    """Lines of code of a Python file."""
    documents = {
        (node.lineno, node.col_offset)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }
    skipped = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in skipped and token.start not in documents:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines)


def count_lines(root: Path) -> dict[str, int]:
    """Lines of code by crate and by part of the Python package, and their sums."""
    found: Counter[str] = Counter()
    for crate in crates_of(root):
        found[crate.name] = sum(lines_of_code(tokens) for _, tokens in sources(crate))
    package = root / "python" / "neargraph"
    for path in sorted(package.rglob("*.py")):
        part = path.relative_to(package).parts[0]
        name = "python/neargraph" if part.endswith(".py") else f"python/neargraph/{part}"
        found[name] += python_lines(path.read_text())
    every = sum(found.values())
    loading = found["ng-sample"] + found["python/neargraph/loader"]
    return dict(found) | {"ng-sample + python/neargraph/loader": loading, "all product code": every}


def face_words(tokens: list[Token]) -> Iterator[tuple[int, str]]:
    """Lines and texts of string literals that name a keyword, a flag or a command."""
    for token in tokens:
        if token.kind == "string":
            words = set(FACE_WORD.findall(token.literal)) - SYSTEM_WORDS
            if words:
                yield token.line, token.literal


def arms(tokens: list[Token], at: int, end: int) -> Iterator[tuple[list[Token], list[Token]]]:
    """Patterns and answers of the arms between the braces of a `match`."""
    while at < end:
        start = at
        while at < end and tokens[at].text != "=>":
            at = closing(tokens, at) + 1 if tokens[at].text in OPEN else at + 1
        if at == end:  # `$(..)*`, the arms of a macro
            return
        pattern, start = tokens[start:at], at + 1
        at = start
        if tokens[at].text == "{":
            at = closing(tokens, at) + 1
        else:
            while at < end and tokens[at].text != ",":
                at = closing(tokens, at) + 1 if tokens[at].text in OPEN else at + 1
        yield pattern, tokens[start:at]
        at += at < end and tokens[at].text == ","


def error_enums(root: Path) -> set[str]:
    """The enums of this workspace whose names end in Error, and their local names."""
    found = set()
    for crate in crates_of(root):
        for _, tokens in sources(crate):
            texts = [token.text for token in tokens]
            found |= {b for a, b in pairwise(texts) if a == "enum" and b.endswith("Error")}
    for crate in crates_of(root):
        for _, tokens in sources(crate):
            texts = [token.text for token in tokens]
            triples = zip(texts, texts[1:], texts[2:], strict=False)
            found |= {name for of, sign, name in triples if sign == "as" and of in found}
    return found


def wildcards(tokens: list[Token], enums: set[str]) -> Iterator[tuple[int, str, bool]]:
    """Line, text, and whether the arm passes its value on unchanged."""
    for at, token in enumerate(tokens):
        if token.text != "match" or token.kind != "name":
            continue
        brace = at + 1
        while tokens[brace].text != "{" or tokens[brace - 1].text == "unsafe":
            brace = closing(tokens, brace) + 1 if tokens[brace].text in OPEN else brace + 1
        found = list(arms(tokens, brace + 1, closing(tokens, brace)))
        own = _self_enum(tokens, at, enums)
        if not any(_names_variant(pattern, enums | own) for pattern, _ in found):
            continue
        for pattern, answer in found:
            texts = [t.text for t in pattern]
            texts = texts[: texts.index("if")] if "if" in texts else texts
            inner = texts[2:-1] if texts[:2] == ["Err", "("] else texts
            if len(inner) == 1 and re.fullmatch(r"_|[a-z]\w*", inner[0]):
                said = [t.text for t in answer if t.text not in {"return", "{", "}", ";"}]
                same = said in (inner, ["Err", "(", *inner, ")"])
                same |= said[:3] == [*inner, ".", "map_err"]
                yield pattern[0].line, "".join(texts), same and inner != ["_"]


def _names_variant(pattern: list[Token], enums: set[str]) -> bool:
    pairs = pairwise(pattern)
    return any(a.text in enums and b.text == "::" for a, b in pairs)


def _self_enum(tokens: list[Token], at: int, enums: set[str]) -> set[str]:
    """`Self`, inside an `impl` of an error enum."""
    depth = 0
    while at:
        at -= 1
        depth += (tokens[at].text == "}") - (tokens[at].text == "{")
        if depth < 0:
            depth, start = 0, at
            while start and tokens[start - 1].text not in {";", "}", "{"}:
                start -= 1
            head = [token.text for token in tokens[start:at]]
            if "impl" in head:
                return {"Self"} if enums & set(head[-1:]) else set()
    return set()


def silences(tokens: list[Token]) -> Iterator[int]:
    """Lines where an entry that is missing becomes emptiness."""
    for at, token in enumerate(tokens):
        texts = [t.text for t in tokens[at : at + 5]]
        empty = texts[0] == "unwrap_or" and texts[1:5] == ["(", "&", "[", "]"]
        becomes_empty = texts[0] == "unwrap_or_default" or empty
        if becomes_empty and {"get", "get_mut"} & set(_calls_before(tokens, at - 1)):
            yield token.line


def _calls_before(tokens: list[Token], dot: int) -> Iterator[str]:
    """The methods of a chain that ends before the dot at `dot`, from its end to its start."""
    at = dot - 1
    while at > 0:
        if tokens[at].text == "?":
            at -= 1
        elif tokens[at].text in CLOSE:
            depth = 0
            while True:
                text = tokens[at].text if tokens[at].kind == "mark" else ""
                depth += (text in CLOSE) - (text in OPEN)
                if not depth:
                    break
                at -= 1
            at -= 1
            if tokens[at].kind != "name" or tokens[at - 1].text != ".":
                return
            yield tokens[at].text
            at -= 2
        elif tokens[at].kind in {"name", "number"} and tokens[at - 1].text == ".":
            at -= 2
        else:
            return


def habits(root: Path) -> dict[str, Any]:
    """Messages, wildcards, silence and assertions, with the place of each."""
    enums = error_enums(root)
    found: dict[str, Any] = {"messages": [], "mapped": [], "passed_on": [], "silent": []}
    counts: Counter[str] = Counter()
    for crate in crates_of(root):
        for path, tokens in sources(crate):
            at = path.relative_to(root)
            if crate.name not in FACES:
                found["messages"] += [f"{at}:{n}: {text}" for n, text in face_words(tokens)]
            for line, pattern, same in wildcards(tokens, enums):
                found["passed_on" if same else "mapped"].append(f"{at}:{line}: {pattern}")
            found["silent"] += [f"{at}:{line}" for line in silences(tokens)]
            for token, mark in pairwise(tokens):
                if mark.text == "!" and ASSERTIONS.match(token.text):
                    counts[token.text] += 1
                counts["non_exhaustive"] += token.text == "non_exhaustive"
    return found | {"non_exhaustive": counts.pop("non_exhaustive"), "assertions": dict(counts)}


def shape(root: Path) -> dict[str, Any]:
    """All figures of a checkout."""
    graphs = all_graphs(root)
    graphs["neargraph at load"] = python_graph(root / "python" / "neargraph", at_load_alone=True)
    found = {name: circles(graph) for name, graph in graphs.items()}
    return {"lines": count_lines(root), "circles": found, **habits(root)}


def refuse_unformatted(root: Path) -> None:
    """Ends the command where the layout is not that of the formatters."""
    python = [sys.executable, "-m", "ruff", "format", "--check", "--quiet", "python/neargraph"]
    for command in (["cargo", "fmt", "--all", "--check", "--", "-l"], python):
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(
                f"{root} is not formatted; {' '.join(command)} says:\n{done.stdout}{done.stderr}"
            )


def report(found: dict[str, Any]) -> Iterator[str]:
    """The lines of the table."""
    yield "lines of code"
    yield from (f"  {count:7,}  {name}" for name, count in found["lines"].items())
    yield "largest circles of modules"
    for name, rings in found["circles"].items():
        yield f"  {len(rings[0]) if rings else 1:7}  {name}{', members:' if rings else ''}"
        yield from (f"             {member}" for member in (rings[0] if rings else []))
    for key, title in (
        ("messages", "messages below the faces that name a keyword, a flag or a command"),
        ("mapped", "error variants mapped by a wildcard"),
        ("passed_on", "wildcards over errors that pass the value on"),
    ):
        files = {place.split(":")[0] for place in found[key]}
        yield f"{title}: {len(found[key])} in {len(files)} files"
        yield from (f"  {place}" for place in found[key])
    yield f"#[non_exhaustive]: {found['non_exhaustive']}"
    yield f"get(..) that becomes emptiness: {len(found['silent'])}"
    yield f"assertions: {sum(found['assertions'].values())} {found['assertions']}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Counts the shape of the code.")
    here = Path(__file__).resolve().parent.parent
    parser.add_argument("--root", type=Path, default=here, help="A checkout. Default: this one.")
    parser.add_argument("--json", action="store_true", help="Print one JSON object.")
    options = parser.parse_args()
    root = options.root.resolve()
    refuse_unformatted(root)
    found = shape(root)
    print(json.dumps(found, indent=1) if options.json else "\n".join(report(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
