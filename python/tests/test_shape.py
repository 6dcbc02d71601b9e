"""The tool that counts the shape of the code, on sources of a few lines."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "tools"))

from circles import circles, python_graph, rust_graph
from files_crossed import Function, entries, number, per_batch
from rust_source import lines_of_code, tokens_of, without_tests
from shape import count_lines, face_words, habits, python_lines, silences, wildcards

ROOT = Path(__file__).resolve().parent.parent.parent


def tokens(text):
    """The product tokens of a piece of Rust."""
    return without_tests(tokens_of(text))


def write(root, files):
    """Files below `root`, by path."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("//! Head.\n\nfn f() {} // trailing\n/// Doc.\n/* a\n /* b */\n c */\n", 1),
        ('let a = "// no comment";\nlet b = "/* none";\n', 2),
        ('let a = r#"\n// text "\n\n"#;\n', 4),
        ("let a = '\"'; // fn g()\nlet b = b'\\'';\nfn f<'a>(x: &'a str) {}\n", 3),
        ("fn f() {}\n#[cfg(test)]\nmod tests {\n    fn g() {}\n}\nfn h() {}\n", 2),
        ("#[cfg(test)]\nmod tests;\nfn h() {}\n", 1),
        ("struct S {\n    #[cfg(test)]\n    pub(crate) seen: u8,\n    kept: u8,\n}\n", 3),
        ("#[cfg(test)]\n#[inline]\npub fn f<A, B>(a: [u8; 2]) {\n}\nfn h() {}\n", 1),
        ("#![cfg(test)]\nfn f() {}\n", 0),
        ("#[cfg(not(test))]\nfn f() {}\n", 2),
    ],
)
def test_lines_of_rust_are_lines_with_code_outside_tests(text, wanted):
    assert lines_of_code(tokens(text)) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('"""Head.\n\nMore.\n"""\n\nX = 1  # why\n# alone\n', 1),
        ('def f():\n    """Doc."""\n    return "#"\n', 2),
        ('X = """\n# text\n\n"""\n', 4),
        ("class A:\n    '''Doc.'''\n\n    x = (\n        1,\n    )\n", 4),
    ],
)
def test_lines_of_python_are_lines_with_code_outside_docstrings(text, wanted):
    assert python_lines(text) == wanted


def test_files_that_only_tests_name_and_other_crates_do_not_count(tmp_path):
    write(
        tmp_path,
        {
            "crates/ng-sample/src/lib.rs": "mod a;\n#[cfg(test)]\nmod b;\n",
            "crates/ng-sample/src/a/mod.rs": "mod c;\n",
            "crates/ng-sample/src/a/c.rs": "fn f() {}\n",
            "crates/ng-sample/src/b.rs": "fn f() {}\n",
            "crates/ng-sample/tests/d.rs": "fn f() {}\n",
            "crates/ng-testing/src/lib.rs": "fn f() {}\n",
            "python/neargraph/__init__.py": "X = 1\n",
            "python/neargraph/loader/a.py": "X = 1\nY = 2\n",
        },
    )
    counted = count_lines(tmp_path)
    assert counted["ng-sample"] == 3
    assert counted["ng-sample + python/neargraph/loader"] == 5
    assert counted["all product code"] == 6


def test_a_circle_of_three_is_found_through_re_exports_and_tests_close_none(tmp_path):
    write(
        tmp_path,
        {
            "src/lib.rs": "mod a;\nmod b;\nmod c;\nmod d;\npub use b::{Inner, d::E as Far};\n",
            "src/a.rs": "use crate::{Far, Inner};\n",
            "src/b/mod.rs": "pub mod d;\nmod e;\npub use e::Inner;\n",
            "src/b/d.rs": "pub struct E;\n",
            "src/b/e.rs": "use crate::c as see;\npub struct Inner(see::C);\n",
            "src/c.rs": "pub struct C;\nfn f() -> super::a::A {}\n",
            "src/d.rs": "#[cfg(test)]\nmod tests { use crate::a::A; }\npub struct D;\n",
        },
    )
    graph = rust_graph(tmp_path)
    assert graph["a.rs"] == {"b/d.rs", "b/e.rs"}
    assert circles(graph) == [["a.rs", "b/e.rs", "c.rs"]]
    assert graph["d.rs"] == graph["lib.rs"] == graph["b/mod.rs"] == set()


def test_trees_globs_inline_modules_and_children_are_followed(tmp_path):
    write(
        tmp_path,
        {
            "src/lib.rs": "mod a;\nmod b;\nmod c;\n",
            "src/a.rs": "use crate::{b::{self, x::X as Y}, c::inline::*};\nfn f() { b::g(); }\n",
            "src/b/mod.rs": "mod x;\npub use x::*;\npub fn g() -> u8 { x::h() }\n",
            "src/b/x.rs": "pub struct X;\n",
            "src/c.rs": "pub mod inline { use super::Z; use crate::b::X; }\n",
        },
    )
    graph = rust_graph(tmp_path)
    assert graph["a.rs"] == {"b/mod.rs", "b/x.rs", "c.rs"}
    assert graph["b/mod.rs"] == {"b/x.rs"}
    assert graph["c.rs"] == {"b/x.rs"}


def test_circles_of_python_are_found_through_init_and_inside_functions(tmp_path):
    package = write(
        tmp_path / "pack",
        {
            "__init__.py": "from pack.a import A\n",
            "a.py": "from .sub import B\n\nA = B\n",
            "sub/__init__.py": "from pack.sub.b import B\n",
            "sub/b.py": "def f():\n    from pack import A\n    return A\n\nB = 1\n",
        },
    )
    graph = python_graph(package)
    assert circles(graph) == [["pack.a", "pack.sub.b"]]
    assert circles(python_graph(package, at_load_alone=True)) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('#[error("too small; raise memory= first")]', True),
        ('format!("sort it \\\n    with --unique")', True),
        ('"run `neargraph compact`"', True),
        ('"run `compact STORE`"', True),
        ('"see neargraph.open"', True),
        ("// memory= and --unique\n", False),
        ('"a == b, a-b, {name}={value}"', False),
        ('"batch_size must be at least 1"', True),
        ('"{batch_size} seeds"', False),
        ('"batch_sizes"', False),
        ('#[cfg(test)]\nmod t { const A: &str = "--unique"; }', False),
    ],
)
def test_messages_that_name_a_flag_a_keyword_or_a_command_are_found(text, found):
    assert bool(list(face_words(tokens(text)))) is found


def test_wildcards_over_errors_are_told_from_values_that_pass_on():
    text = """
        fn f() {
            match e { ReadError::A { x } => 1, _ => 2 }
            match e { Err(ReadError::A(_)) => { 1 } Err(error) => Err(error), Ok(_) => 3 }
            match unsafe { g() } { Errno::A => 1, _ => 2 }
            match e { ReadError::A if match b { _ => true } => 1, ReadError::B(_) => 2 }
        }
        impl ReadError { fn g(self) { match self { Self::A => 1, other => h(other) } } }
        macro_rules! m { ($($v:ident),*) => { match e { $(ReadError::$v => 1,)* } } }
    """
    found = [(pattern, same) for _, pattern, same in wildcards(tokens(text), {"ReadError"})]
    assert found == [("_", False), ("Err(error)", True), ("other", False)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("self.rows.get(a..b).unwrap_or_default()", 1),
        ("self.rows(x)?.get_mut(f(a.b)[0]).copied().unwrap_or_default()", 1),
        ("rows.get(0).unwrap_or(&[])", 1),
        ("rows.first(table.get(0)).unwrap_or_default()", 0),
        ("rows.get(0).unwrap_or(&other)", 0),
    ],
)
def test_entries_that_become_empty_in_silence_are_found(text, found):
    assert len(list(silences(tokens_of(text)))) == found


def test_the_tool_reads_the_whole_checkout():
    found = habits(ROOT)
    assert sum(found["assertions"].values()) > 0
    assert found["non_exhaustive"] == 0


def test_a_function_is_entered_as_often_as_its_sums_of_counters_say():
    # (counter 0 + counter 1) - counter 2, as LLVM encodes it.
    function = Function("a.rs", 1 << 2 | 2, [(0 << 2 | 1, 1 << 2 | 1), (0 << 2 | 3, 2 << 2 | 1)])
    assert entries(function, function.entry, (7, 5, 2)) == 10
    assert entries(function, 0, (7, 5, 2)) == 0
    assert number(bytes([0xE5, 0x8E, 0x26, 9]), 0) == (624485, 3)


def test_set_up_and_chance_are_no_work_of_a_batch():
    once = {"crates/a/src/a.rs 1": 1, "crates/a/src/b.rs 2": 16, "python/neargraph/c.py 3": 20}
    twice = {"crates/a/src/a.rs 1": 1, "crates/a/src/b.rs 2": 32, "python/neargraph/c.py 3": 21}
    assert per_batch(once, twice) == ["crates/a/src/b.rs"]
