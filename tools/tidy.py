"""House rules that no linter checks: sizes, headers, crate directions, circles, where unsafe lives.

Exits with 1 and one line per finding. Each rule stands in CONTRIBUTING.md.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from circles import all_graphs, circles
from published import findings as published
from shape import habits

ROOT = Path(__file__).resolve().parent.parent
FILE_LINES_MAX = 1000
PYTHON_FUNCTION_LINES_MAX = 70
COLUMNS_MAX = 100
UNSAFE_CRATES = {"ng-io", "ng-simd", "ng-plugin-host", "ng-python"}
# Lower crates first: a crate may depend on those before it alone.
LAYERS = [
    "ng-types",
    "ng-plugin-abi",
    "ng-simd",
    "ng-io",
    "ng-store",
    "ng-import",
    "ng-sample",
    "ng-infer",
    "ng-engine",
    "ng-ssdsim",
    "ng-plugin-host",
    "ng-rpc",
    "ng-client",
    "ng-server",
    "ng-python",
]
DEV_ONLY = {"ng-testing"}
# Files that may import each other in one circle (`circles.py`).
CIRCLE_MAX = 4
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|todo!|unimplemented!|NotImplementedError)")
MACHINE_PATH = re.compile(r"(?<![\w.])/(work|root|home)/")
FILE_ACCESS = re.compile(r"\b(std::fs\b|File::(open|create)|OpenOptions::new)")


def tracked(*suffixes: str) -> list[Path]:
    """Tracked and new files with one of the suffixes."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    paths = (ROOT / name for name in names.splitlines())
    return [path for path in paths if path.suffix in suffixes and path.exists()]


def is_test(path: Path) -> bool:
    """Whether a file holds tests, benchmarks or tools rather than the product."""
    places = {"tests", "benches", "examples", "benchmarks", "tools", "fuzz", "fixtures"}
    return bool(places & set(path.parts))


def check_text(path: Path, text: str) -> Iterator[str]:
    """Rules for every source file."""
    lines = text.splitlines()
    if len(lines) > FILE_LINES_MAX:
        yield f"{len(lines)} lines, at most {FILE_LINES_MAX}"
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS_MAX and "http" not in line:
            yield f"line {number}: {len(line)} columns, at most {COLUMNS_MAX}"
        if path.name != "tidy.py" and UNFINISHED.search(line):
            yield f"line {number}: unfinished mark"
        if path.name != "tidy.py" and MACHINE_PATH.search(line):
            yield f"line {number}: a path of one machine"


def check_rust(path: Path, text: str) -> Iterator[str]:
    """Module header, where unsafe and file access may be."""
    crate = path.relative_to(ROOT).parts[1]
    if not text.startswith("//!"):
        yield "opens without a //! paragraph"
    is_root = path.name == "lib.rs" and not is_test(path)
    if is_root and crate not in UNSAFE_CRATES and "forbid(unsafe_code)" not in text:
        yield "crate root without #![forbid(unsafe_code)]"
    product = text.split("#[cfg(test)]")[0]
    if crate not in {"ng-io", "ng-testing"} and not is_test(path) and FILE_ACCESS.search(product):
        yield "touches files: only ng-io does"


def check_python(text: str) -> Iterator[str]:
    """Module docstring and function length."""
    tree = ast.parse(text)
    if tree.body and not ast.get_docstring(tree):
        yield "opens without a docstring"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > PYTHON_FUNCTION_LINES_MAX:
                yield f"line {node.lineno}: {node.name} has {length} lines"


def check_directions() -> Iterator[str]:
    """Dependencies between crates point downward."""
    command = ["cargo", "metadata", "--no-deps", "--format-version", "1", "--offline"]
    output = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for package in json.loads(output)["packages"]:
        name = package["name"]
        normal = {d["name"] for d in package["dependencies"] if d["kind"] is None}
        if name not in DEV_ONLY:
            yield from (f"{name}: {other} is for tests alone" for other in normal & DEV_ONLY)
        if name in LAYERS:
            upward = normal & set(LAYERS[LAYERS.index(name) :])
            yield from (f"{name}: depends upward on {other}" for other in upward)


def check_circles() -> Iterator[str]:
    """Modules import each other in small circles alone."""
    for name, graph in all_graphs(ROOT).items():
        for ring in circles(graph):
            if len(ring) > CIRCLE_MAX:
                members = ", ".join(ring)
                yield f"{name}: a circle of {len(ring)} modules, at most {CIRCLE_MAX}: {members}"


def check_tests() -> Iterator[str]:
    """Where the tests of a crate are one program, it has all of their files."""
    for program in ROOT.glob("crates/*/tests/main.rs"):
        named = program.read_text() + program.parent.with_name("Cargo.toml").read_text()
        for path in program.parent.glob("*.rs"):
            line = re.compile(rf'^(mod {path.stem};|name = "{path.stem}")$', re.MULTILINE)
            if path != program and not line.search(named):
                yield f"{path.relative_to(ROOT)}: never runs, {program.name} does not name it"


def check_errors() -> Iterator[str]:
    """Errors below the faces name nothing of a face, and their variants are mapped by name."""
    found = habits(ROOT)
    yield from (f"{place}: words of a face, see `Remedy`" for place in found["messages"])
    yield from (f"{place}: errors mapped by a wildcard" for place in found["mapped"])


def findings() -> Iterator[str]:
    """All findings, as `path: what`."""
    for path in tracked(".rs", ".py", ".sh"):
        text = path.read_text()
        found = list(check_text(path, text))
        if path.suffix == ".rs":
            found += check_rust(path, text)
        if path.suffix == ".py":
            found += check_python(text)
        yield from (f"{path.relative_to(ROOT)}: {what}" for what in found)
    yield from check_directions()
    yield from check_circles()
    yield from check_tests()
    yield from check_errors()
    yield from published(ROOT)


def main() -> int:
    found = list(findings())
    print("\n".join(found) if found else "tidy: clean")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
