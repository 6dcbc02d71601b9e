"""Every example of the help runs as it stands, one after the other, on a small store."""

import shlex

import pytest
from test_cli_commands import run

import neargraph as ng
from neargraph.cli.commands import COMMANDS, SERVE
from neargraph.datasets import plan_generated
from neargraph.importers import run_import

pytest.importorskip("torch_geometric")
pytest.importorskip("onnxscript")
pytest.importorskip("pyarrow")

# The examples of servers need one; `test_cli_frame` parses them.
LOCAL = [entry for entry in COMMANDS if entry.group != SERVE]
OTHERS = [entry for entry in LOCAL if entry.name != "import"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What examples name: a store, a file of events, and a model file."""
    torch = pytest.importorskip("torch")
    made = tmp_path_factory.mktemp("examples")
    run_import(plan_generated(800, 4000, 16, 4), made / "G.ng")
    (made / "events.csv").write_text("op,source,destination\nadd_edge,1,2\n")
    torch.manual_seed(0)
    with ng.open(made / "G.ng") as store:
        model = ng.nn.GraphSAGE(16, 8, 4).eval()
        ng.export(model, store, made / "sage.ngm", fanouts=[5, 5])
    return made


def succeeds(example, capsys):
    _, *words = shlex.split(example)
    code, out, err = run(*words, capsys=capsys)
    assert code == 0, (example, out, err)
    assert out, example


def test_the_examples_of_import_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edges.csv").write_text("src,dst\n" + "".join(f"{k},{k + 1}\n" for k in range(500)))
    for example in next(entry for entry in LOCAL if entry.name == "import").examples:
        succeeds(example, capsys)


@pytest.mark.parametrize("entry", OTHERS, ids=lambda entry: entry.name)
def test_the_examples_of_a_command_run_in_the_order_of_the_list(entry, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    for example in entry.examples:
        # Measuring this machine takes half a minute; `test_sim_host` does it.
        if "--host" not in example:
            succeeds(example, capsys)
