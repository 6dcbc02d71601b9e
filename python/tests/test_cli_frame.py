"""What all commands have in common: help, completion, verbosity, progress, errors as JSON."""

import json
import os
import re
import shlex
import subprocess
import sys

import pytest
import typer
from test_cli_commands import run

import neargraph as ng
from neargraph.cli import app, main, progress
from neargraph.cli.app import _warning_line
from neargraph.cli.commands import COMMANDS, GROUPS
from neargraph.cli.progress import Lines, bars
from neargraph.cli.settings import settings
from neargraph.cli.show import console, pairs_table
from neargraph.datasets import plan_generated
from neargraph.importers import ImportOptions, run_import

ROOT = typer.main.get_command(app)
OWN = [entry for entry in COMMANDS if not entry.passes_on]


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "g.ng"
    run_import(plan_generated(800, 4000, 16, 4), path, ImportOptions(split_sizes=(60, 20, 20)))
    return path


def shown(*words, capsys):
    """The help of a command."""
    with pytest.raises(SystemExit):
        main([*words, "--help"])
    return capsys.readouterr().out


def tree():
    """(words, command) of every command, those inside another one among them."""
    for entry in OWN:
        command = ROOT.commands[entry.name]
        inner = getattr(command, "commands", None)
        if inner is None:
            yield (entry.name,), command, entry
        for name in inner or ():
            yield (entry.name, name), inner[name], entry


def test_the_list_has_every_command_once_under_its_heading(capsys):
    text = shown(capsys=capsys)
    for group in GROUPS:
        assert f"\n{group}:\n" in text
    for entry in COMMANDS:
        assert len(re.findall(rf"^  {entry.name} +\S.*$", text, re.M)) == 1
        assert entry.group in GROUPS
    assert max(map(len, text.splitlines())) <= 100


def test_the_list_and_completion_import_no_command_and_neither_numpy_nor_torch():
    program = (
        "import sys\n"
        "from neargraph.cli import main\n"
        "try:\n"
        "    main(['--help'])\n"
        "except SystemExit:\n"
        "    pass\n"
        "loaded = [m for m in sys.modules if m.startswith('neargraph.cli.')]\n"
        "print(sorted(loaded), [m for m in ('torch', 'numpy', 'rich') if m in sys.modules])\n"
    )
    wanted = "['neargraph.cli.app', 'neargraph.cli.commands', 'neargraph.cli.errors', "
    wanted += "'neargraph.cli.frame', 'neargraph.cli.settings'] []"
    for more in (
        {},
        {"_NEARGRAPH_COMPLETE": "complete_bash", "COMP_WORDS": "neargraph ", "COMP_CWORD": "1"},
    ):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | more,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.splitlines()[-1] == wanted


@pytest.mark.parametrize("entry", OWN, ids=lambda entry: entry.name)
def test_help_begins_with_the_sentence_of_the_list_and_ends_with_examples(entry, capsys):
    text = shown(entry.name, capsys=capsys)
    assert entry.summary in " ".join(text.split())
    heading = "Examples" if len(entry.examples) > 1 else "Example"
    assert text.endswith(f"{heading}:\n" + "".join(f"  {line}\n" for line in entry.examples))


@pytest.mark.parametrize(("words", "command", "entry"), list(tree()), ids=lambda of: str(of)[:30])
def test_every_option_has_help_and_a_default_or_says_what_happens_without(words, command, entry):
    assert command.help.rstrip().splitlines()[0].rstrip().endswith(".")
    for param in command.params:
        assert param.help, (words, param.name)
        text = re.sub(r"  \[default: .*\]$", "", param.help)
        assert text.endswith("."), (words, param.name, text)
        assert not re.search(r"\b(wants|so many|of everything)\b", text), text
    names = {name for param in command.params for name in param.opts}
    assert names >= {"--verbose", "-v", "--quiet", "-q", "--no-color", "--debug"}


@pytest.mark.parametrize("entry", OWN, ids=lambda entry: entry.name)
def test_every_example_is_a_valid_command_line(entry):
    for example in entry.examples:
        program, *words = shlex.split(example)
        assert program == "neargraph"
        command = ROOT
        while getattr(command, "commands", None):
            command = command.commands[words.pop(0)]
        command.make_context("example", words)


def test_choices_are_shown_completed_and_checked(capsys):
    text = shown("export", capsys=capsys)
    assert text.startswith("Usage: neargraph export [OPTIONS] STORE OUT\n")
    assert re.search(r"--format \W?graphbolt\|parquet\|pyg\|npz", text)
    code, out, err = run("export", "a.ng", "b", "--format", "dgl", capsys=capsys)
    assert (code, out) == (2, "")
    assert err == (
        "error: invalid value for '--format': 'dgl' is not one of 'graphbolt', 'parquet', 'pyg', "
        "'npz'; see neargraph export --help\n"
    )


def completed(words, folder):
    """What a shell is given for the last of these words."""
    given = {
        "_NEARGRAPH_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-m", "neargraph"],
        env=os.environ | given,
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_a_shell_completes_commands_options_choices_and_paths(tmp_path):
    for name in ("cora.ng", "arxiv.ng", "other", "sub"):
        (tmp_path / name).mkdir()
    (tmp_path / "sub/deep.ng").mkdir()
    (tmp_path / "sage.ngm").write_text("")
    assert completed(["neargraph", "in"], tmp_path) == ["info", "infer"]
    assert completed(["neargraph", "export", "x", "y", "--format", "p"], tmp_path) == [
        "parquet",
        "pyg",
    ]
    assert completed(["neargraph", "info", "--ti"], tmp_path) == ["--times"]
    assert completed(["neargraph", "info", ""], tmp_path) == ["arxiv.ng", "cora.ng"]
    assert completed(["neargraph", "info", "sub/"], tmp_path) == ["sub/deep.ng"]
    assert completed(["neargraph", "model", "s"], tmp_path) == ["sage.ngm"]
    # The shell completes other paths itself.
    assert completed(["neargraph", "info", "oth"], tmp_path) == []
    assert completed(["neargraph", "info", "none/"], tmp_path) == []


def test_the_script_of_completion_is_printed(monkeypatch, capsys):
    # Else the shell is that of the process above, which tests may not have.
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    code, out, _ = run("--show-completion", "bash", capsys=capsys)
    assert code == 0
    assert "_NEARGRAPH_COMPLETE=complete_bash" in out


@pytest.mark.parametrize("where", ["before", "after"])
def test_verbose_tells_back_end_reads_and_time_on_stderr(where, store, capsys):
    words = ["-v", "info", store] if where == "before" else ["info", store, "--verbose"]
    code, out, err = run(*words, capsys=capsys)
    assert code == 0
    first, second, third = err.splitlines()
    assert first.startswith(f"{store}: ")
    assert "memory budget" in first
    assert re.search(r"in \d+ reads, .* used; budget peak", second)
    assert re.fullmatch(r"time in total: \d+\.\d\d s", third)
    assert run("info", store, capsys=capsys)[1:] == (out, ""), "it is not kept"


@pytest.mark.parametrize("where", ["before", "after"])
def test_quiet_prints_no_notes(where, tmp_path, capsys):
    (tmp_path / "e.csv").write_text("src,dst\n0,1\n0,1\n")
    run("import", tmp_path / "e.csv", "--out", tmp_path / "a.ng", "--undirected", capsys=capsys)
    words = ["export", tmp_path / "a.ng", tmp_path / "out.pt", "--format", "pyg"]
    pytest.importorskip("torch_geometric")
    assert "note: [undirected-dropped]" in run(*words, capsys=capsys)[1]
    (tmp_path / "out.pt").unlink()
    code, out, _ = run(*(["-q", *words] if where == "before" else [*words, "-q"]), capsys=capsys)
    assert (code, "note:" in out, "Wrote" in out) == (0, False, True)


def test_a_warning_of_the_package_is_one_line_and_others_are_as_in_python():
    own, other = (
        _warning_line(RuntimeWarning("files\nare removed"), RuntimeWarning, file, 3)
        for file in (ng.__file__, "/none/torch.py")
    )
    assert own == "warning: files are removed\n"
    assert other.startswith("/none/torch.py:3: RuntimeWarning: files")


def test_verbose_and_quiet_exclude_each_other(store, capsys):
    code, _, err = run("-v", "info", store, "-q", capsys=capsys)
    assert code == 2
    assert "--verbose and --quiet exclude each other" in err


@pytest.mark.parametrize("how", ["before", "after", "environment"])
def test_no_color_prints_no_escape_codes(how, store, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" in run("info", store, capsys=capsys)[1]
    words = ["info", store]
    if how == "environment":
        monkeypatch.setenv("NO_COLOR", "1")
    else:
        words = ["--no-color", *words] if how == "before" else [*words, "--no-color"]
    assert "\x1b" not in run(*words, capsys=capsys)[1]


def test_progress_without_a_terminal_is_plain_lines_now_and_then(monkeypatch, capsys):
    monkeypatch.setattr(progress, "INTERVAL_SECONDS", 10.0)
    clock = iter([0.0, 4.0, 11.0, 12.0, 25.0, 26.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    with bars() as tell:
        assert isinstance(tell, Lines)
        for done in (1, 50, 60, 100):
            tell("edges", done, 200)
        tell("rows", 7, None, 0.5)
    assert capsys.readouterr().err == "edges: 25 % (50 of 200)\nedges: 50 % (100 of 200)\n"


@pytest.mark.parametrize("silence", ["quiet", "json"])
def test_progress_is_silent_where_it_is_asked_to_be(silence, monkeypatch, capsys):
    monkeypatch.setattr(progress, "INTERVAL_SECONDS", 0.0)
    monkeypatch.setattr(settings, silence, True)
    with bars() as tell:
        tell("edges", 1, 2)
    assert capsys.readouterr().err == ""


def error_of(*words, capsys):
    code, out, err = run(*words, capsys=capsys)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    found = json.loads(err)["error"]
    assert set(found) == {"type", "message", "advice", "remedies", "path"}
    return found


def test_an_error_is_a_line_of_json_with_the_parts_of_the_message(store, tmp_path, capsys):
    missing = tmp_path / "none.ng"
    found = error_of("info", missing, "--json", capsys=capsys)
    assert found["type"] == "StoreNotFound"
    assert found["path"] == str(missing)
    assert found["message"] == f"{missing}: no such store"
    assert found["advice"].startswith("check the path")
    assert found["advice"] not in found["message"]
    small = error_of("export", store, tmp_path / "o", "--memory", "1MB", "--json", capsys=capsys)
    assert small["type"] == "BudgetTooSmall"
    assert re.search(r"raise --memory to at least \d+", small["advice"])
    assert small["remedies"][0]["at_least_bytes"] > 1_000_000


def test_a_usage_error_is_a_line_of_json_too(capsys):
    for words in (["info"], ["info", "--jsn"], ["inf"], ["info", "a", "b"]):
        found = error_of(*words, "--json", capsys=capsys)
        assert found["type"] == "UsageError"
        assert found["advice"].startswith("see neargraph")
    assert "'info' or 'infer'" in error_of("inf", "--json", capsys=capsys)["message"]


def test_an_interrupt_is_said_and_ends_with_130(store, capsys, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(ng.Store, "info", interrupt)
    code, out, err = run("info", store, capsys=capsys)
    assert (code, out, err) == (130, "", "interrupted\n")
    code, out, err = run("info", store, "--json", capsys=capsys)
    assert (code, out) == (130, "")
    assert json.loads(err)["error"]["type"] == "Interrupted"


def test_without_a_command_the_help_is_printed_and_the_exit_code_is_2(capsys):
    code, out, err = run(capsys=capsys)
    assert (code, out) == (2, "")
    assert "Inspect stores:" in err


def test_the_choices_of_training_are_those_of_its_settings():
    pytest.importorskip("torch_geometric")
    from neargraph.cli.training_options import OPTIONS
    from neargraph.nn.models import MODELS
    from neargraph.train.config import _CHOICES
    from neargraph.train.sources import SAMPLERS

    assert OPTIONS["model"].choices == tuple(MODELS)
    assert OPTIONS["sampler"].choices == ("auto", *SAMPLERS)
    for name, choices in _CHOICES.items():
        assert OPTIONS[name].choices == choices, name


def test_brackets_are_printed_as_they_are(capsys):
    console().print(pairs_table("a [b]", [("note", "pip install 'neargraph[plot]'")]))
    out = capsys.readouterr().out
    assert "a [b]" in out
    assert "'neargraph[plot]'" in out
