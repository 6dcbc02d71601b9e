"""Circles of modules: which files of a crate, or of the Python package, import each other.

A module is a file. An edge leads from the file that uses a name to the file that defines it: names
are followed through every `pub use` and every `__init__.py`. So a facade that only passes names on
is in no circle, and nobody hides a circle behind one. `mod x;` and a re-export of a name that the
file does not use itself are no edges. What types infer (a method of a type that nobody names) is
not seen, nor are imports by a string (`importlib.import_module`).
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from rust_source import Token, closing, product_files, product_tokens

Graph = dict[str, set[str]]
Route = tuple[str, ...]
_ITEMS = {"fn", "struct", "enum", "trait", "type", "const", "static", "union", "mod"}


def circles(graph: Graph) -> list[list[str]]:
    """Strongly connected components of two or more nodes, the largest first (Tarjan, 1972)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        number[node] = low[node] = len(number)
        stack.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in number:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], number[other])
        if low[node] == number[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for node in sorted(graph):
        if node not in number:
            visit(node)
    return sorted(found, key=lambda members: (-len(members), members))


def _use_tree(tokens: list[Token], at: int, prefix: Route) -> Iterator[tuple[Route, str]]:
    """Paths and bound names of the tree at `at`; a glob is bound to `*`."""
    route = prefix
    while True:
        text = tokens[at].text
        if text == "{":
            end, at = closing(tokens, at), at + 1
            while at < end:
                yield from _use_tree(tokens, at, route)
                while at < end and tokens[at].text != ",":
                    at = closing(tokens, at) + 1 if tokens[at].text == "{" else at + 1
                at += 1
            return
        if text == "*":
            yield route, "*"
            return
        if text not in {"::", "self"} or not route:
            route = route if text == "::" else (*route, text)
        follows = tokens[at + 1].text
        if follows == "as":
            yield route, tokens[at + 2].text
            return
        if follows != "::" and text != "::":
            yield route, route[-1]
            return
        at += 1


class _Crate:
    """The modules of a crate, what they bind, and what they name."""

    def __init__(self, root: Path) -> None:
        self.files = product_files(root)
        self.bound: dict[Route, dict[str, Route]] = defaultdict(dict)
        self.globs: dict[Route, list[Route]] = defaultdict(list)
        self.defined: dict[Route, set[str]] = defaultdict(set)
        # By file: the scope of each path, the path, and the name of a re-export.
        self.named: dict[Route, list[tuple[Route, Route, str | None]]] = defaultdict(list)
        self.words: dict[Route, set[str]] = defaultdict(set)
        for module, path in list(self.files.items()):
            self._read(module, product_tokens(path))

    def _read(self, module: Route, tokens: list[Token]) -> None:
        scopes: list[tuple[Route, int]] = [(module, len(tokens))]
        at = 0
        while at < len(tokens):
            while at >= scopes[-1][1]:
                scopes.pop()
            scope, text = scopes[-1][0], tokens[at].text
            if tokens[at].kind != "name" or (at and tokens[at - 1].text in {".", "::"}):
                at += 1
                continue
            # Behind a type, `use<..>` names lifetimes.
            if text == "use" and tokens[at + 1].text != "<":
                is_public = tokens[at - 1].text in {"pub", ")"} if at else False
                for route, name in _use_tree(tokens, at + 1, ()):
                    self._bind(module, scope, route, name, is_public)
                while tokens[at].text != ";":
                    at += 1
            elif text in _ITEMS and tokens[at + 1].kind == "name":
                self.defined[scope].add(tokens[at + 1].text)
                if text == "mod" and tokens[at + 2].text == "{":
                    inner = (*scope, tokens[at + 1].text)
                    self.files[inner] = self.files[module]
                    scopes.append((inner, closing(tokens, at + 2)))
                at += 1
            elif tokens[at + 1 : at + 2] and tokens[at + 1].text == "::":
                self.words[module].add(text)
                route = [text]
                while tokens[at + 1].text == "::" and tokens[at + 2].kind == "name":
                    route.append(tokens[at + 2].text)
                    at += 2
                self.named[module].append((scope, tuple(route), None))
            else:
                self.words[module].add(text)
            at += 1

    def _bind(self, module: Route, scope: Route, route: Route, name: str, is_public: bool) -> None:
        if name == "*":
            self.globs[scope].append(route)
        elif route != (name,):
            self.bound[scope][name] = route
        self.named[module].append((scope, route, name if is_public else None))

    def resolve(self, scope: Route, route: Route, seen: frozenset = frozenset()) -> Route | None:
        """The module that `route` names or that defines what it names; None outside the crate."""
        if (scope, route) in seen:
            return None
        seen |= {(scope, route)}
        first, *rest = route
        at: Route | None
        if first in {"crate", "self", "super"}:
            at = {"crate": (), "self": scope, "super": scope[:-1]}[first]
            while rest and rest[0] == "super":
                at, rest = at[:-1], rest[1:]
        elif (*scope, first) in self.files or first in self.bound[scope]:
            at, rest = scope, list(route)
        else:
            return None
        while rest:
            name, rest = rest[0], rest[1:]
            if (*at, name) in self.files:
                at = (*at, name)
                continue
            target = self.bound[at].get(name)
            if target is not None:
                return self.resolve(at, (*target, *rest), seen)
            if name not in self.defined[at]:
                for glob in self.globs[at]:
                    through = self.resolve(at, (*glob, name, *rest), seen)
                    if through is not None:
                        return through
            return at
        return at

    def graph(self) -> Graph:
        root = self.files[()].parent
        shown = {module: str(path.relative_to(root)) for module, path in self.files.items()}
        edges: Graph = {name: set() for name in shown.values()}
        for module, named in self.named.items():
            for scope, route, reexport in named:
                if reexport is not None and reexport not in self.words[module]:
                    continue
                target = self.resolve(scope, route)
                if target is not None and shown[target] != shown[module]:
                    edges[shown[module]].add(shown[target])
        return edges


def rust_graph(crate: Path) -> Graph:
    """Who uses whom among the files of a crate, by path below `src`."""
    return _Crate(crate).graph()


class _Package:
    """The modules of a Python package, what they import, and which names they use."""

    def __init__(self, root: Path) -> None:
        self.paths: dict[str, Path] = {}
        for path in sorted(root.rglob("*.py")):
            parts = (root.name, *path.relative_to(root).with_suffix("").parts)
            self.paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
        self.trees = {name: ast.parse(path.read_text()) for name, path in self.paths.items()}
        self.bound: dict[str, dict[str, tuple[str, str | None]]] = {}
        # By module: the bound name, its target, and whether loading the module imports it.
        self.imports: dict[str, list[tuple[str, str, str | None, bool]]] = {}
        for name, tree in self.trees.items():
            found = list(self._imports(name, tree, True))
            self.imports[name] = found
            self.bound[name] = {bound: (module, of) for bound, module, of, _ in found}

    def _imports(
        self, module: str, node: ast.AST, at_load: bool
    ) -> Iterator[tuple[str, str, str | None, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                for alias in child.names:
                    bound = alias.asname or alias.name
                    yield bound, alias.name, None, at_load
            elif isinstance(child, ast.ImportFrom):
                source = child.module or ""
                if child.level:
                    is_package = self.paths[module].name == "__init__.py"
                    parts = module.split(".")
                    parts = parts[: len(parts) - child.level + is_package]
                    source = ".".join([*parts, source] if source else parts)
                for alias in child.names:
                    yield alias.asname or alias.name, source, alias.name, at_load
            else:
                guarded = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
                function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                yield from self._imports(module, child, at_load and not guarded and not function)

    def resolve(self, module: str, name: str | None) -> str | None:
        """The module that is meant or that defines `name`; None outside the package."""
        seen = set()
        while (module, name) not in seen:
            seen.add((module, name))
            if name is not None and f"{module}.{name}" in self.trees:
                return f"{module}.{name}"
            if module not in self.trees:
                return None
            if name is None or name not in self.bound[module]:
                return module
            target = self.bound[module][name]
            if target[0].split(".")[0] != module.split(".")[0]:
                return module
            module, name = target
        return module

    def graph(self, at_load_alone: bool) -> Graph:
        edges: Graph = {name: set() for name in self.trees}
        for module, imports in self.imports.items():
            tree = self.trees[module]
            is_facade = self.paths[module].name == "__init__.py"
            used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
            dotted = {ast.unparse(n) for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
            for bound, source, name, at_load in imports:
                is_passed_on = is_facade and bound.split(".")[0] not in used
                if is_passed_on or (at_load_alone and not at_load):
                    continue
                target = self.resolve(source, name)
                if target is None:
                    continue
                # Of a module that is bound, what counts is which of its names are used.
                names = {text[len(bound) + 1 :] for text in dotted if text.startswith(f"{bound}.")}
                is_module = name is None or target == f"{source}.{name}"
                ends = [self.resolve(target, text.split(".")[0]) for text in names]
                for end in ends if is_module and names else [target]:
                    if end is not None and end != module:
                        edges[module].add(end)
        return edges


def python_graph(package: Path, at_load_alone: bool = False) -> Graph:
    """Who imports whom in a package; `at_load_alone` leaves out imports that loading skips.

    Those are imports inside functions and under `if TYPE_CHECKING:`.
    """
    return _Package(package).graph(at_load_alone)


def all_graphs(root: Path) -> dict[str, Graph]:
    """The graph of each crate, and of the Python package."""
    graphs = {crate.name: rust_graph(crate) for crate in sorted((root / "crates").iterdir())}
    return graphs | {"neargraph": python_graph(root / "python" / "neargraph")}
