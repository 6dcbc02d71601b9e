"""The folder of a run: complete, never overwritten, resumed to the last bit, measured again."""

import csv
import json
import re
import shutil

import pytest

import neargraph as ng
from neargraph.cli import main
from neargraph.cli.training_options import OPTIONS
from neargraph.datasets import plan_generated
from neargraph.importers import ImportOptions, run_import
from neargraph.remedies import flag_words

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
pytest.importorskip("torchmetrics")
pytest.importorskip("yaml")
from neargraph.train import TrainConfig, evaluate, fit, resume  # noqa: E402
from neargraph.train.curves import svg  # noqa: E402
from neargraph.train.folder import RunFolder  # noqa: E402
from neargraph.train.state import load_state  # noqa: E402

CONFIG = TrainConfig(
    fanouts=(5, 3),
    batch_size=128,
    hidden=16,
    epochs=4,
    lr=0.01,
    seed=5,
    save_steps=2,
    schedule="plateau",
    schedule_epochs=1,
    warmup_steps=3,
    clip=1.0,
    test_on="best",
    metrics=("accuracy", "f1-macro"),
)


class Stop(Exception):
    pass


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("folder") / "g.ng"
    options = ImportOptions(undirected=True, unique=True, split_sizes=(60, 20, 20))
    run_import(plan_generated(1500, 9000, 50, 6), path, options)
    return path


@pytest.fixture(scope="module")
def whole(path, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "whole"
    with ng.open(path, memory="64MB") as store:
        return out, fit(store, CONFIG, out=out)


def command(*arguments, capsys):
    with pytest.raises(SystemExit) as left:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return left.value.code or 0, out, err


def test_every_setting_is_an_option_and_every_option_a_setting():
    plain = TrainConfig().plain()
    assert {name: option.default for name, option in OPTIONS.items()} == plain


def test_a_folder_has_settings_versions_metrics_checkpoints_and_a_report(whole, path):
    out, result = whole
    names = {file.name for file in out.iterdir()}
    assert names >= {"config.yaml", "versions.json", "metrics.csv", "result.json", "report.html"}
    assert {f.name for f in (out / "states").iterdir()} == {"last.pt", "best.pt"}
    versions = json.loads((out / "versions.json").read_text())
    with ng.open(path, memory="64MB") as store:
        assert versions["store"]["fingerprint"] == store.fingerprint
    assert versions["torch"].split("+")[0] == torch.__version__.split("+")[0]
    rows = list(csv.DictReader((out / "metrics.csv").open()))
    assert [int(row["epoch"]) for row in rows] == [1, 2, 3, 4]
    assert [float(r["val_f1-macro"]) for r in rows] == result.values("f1-macro")
    assert json.loads((out / "result.json").read_text())["losses"] == result.losses
    assert not list(out.rglob(".*"))


def test_a_folder_says_what_was_left_to_the_run(whole):
    out, result = whole
    settings = (out / "config.yaml").read_text().splitlines()
    report = (out / "report.html").read_text()
    for name, found in (
        ("sampler", "neighbor"),
        ("objective", "single-label"),
        ("loss", "cross-entropy"),
        ("temporal", "off"),
    ):
        assert result.resolved[name] == found
        assert f"{name}: auto  # in this run: {found}" in settings
        assert f"<td>{name}</td><td>auto ({found})</td>" in report
    assert json.loads((out / "result.json").read_text())["resolved"] == result.resolved


def test_the_report_needs_nothing_from_outside(whole):
    text = (whole[0] / "report.html").read_text()
    assert "<svg" in text
    assert "prefers-color-scheme: dark" in text
    for outside in ("http:", "https:", "<script", "<link", "<img", "url("):
        assert outside not in text


def test_tensorboard_has_each_epoch_once(whole):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = events.EventAccumulator(str(whole[0] / "events"))
    found.Reload()
    assert [event.step for event in found.Scalars("val/accuracy")] == [1, 2, 3, 4]


@pytest.mark.parametrize("stop_at", [3, 9, 16])
def test_a_stopped_run_goes_on_to_the_same_last_bit(path, whole, tmp_path, stop_at):
    seen = 0

    def stop(phase, step, steps, value):
        nonlocal seen
        seen += phase.startswith("epoch")
        if seen == stop_at:
            raise Stop

    out = tmp_path / "run"
    with ng.open(path, memory="64MB") as store, pytest.raises(Stop):
        fit(store, CONFIG, out=out, progress=stop)
    assert not (out / "result.json").exists()
    result, wanted = resume(out), whole[1]
    assert 0 < result.resumed_at_step < len(result.losses)
    assert result.losses == wanted.losses
    assert result.test == wanted.test
    assert result.values("accuracy") == wanted.values("accuracy")
    assert [row["lr"] for row in result.history] == [row["lr"] for row in wanted.history]


def test_a_kill_between_the_two_checkpoints_leaves_no_stale_best_one(path, tmp_path, monkeypatch):
    """What follows from the last checkpoint is written again when the run goes on."""

    def kill(folder, trainer, is_best):
        raise Stop

    config = TrainConfig.of({**CONFIG.plain(), "epochs": 1})
    out = tmp_path / "run"
    with ng.open(path, memory="64MB") as store, monkeypatch.context() as patch:
        patch.setattr(RunFolder, "add_epoch", kill)
        with pytest.raises(Stop):
            fit(store, config, out=out)
    assert (out / "states" / "last.pt").exists()
    assert not (out / "metrics.csv").exists()
    result = resume(out)
    assert result.resumed_at_step == len(result.losses)
    assert load_state(out / "states" / "best.pt")["epoch"] == 1
    assert len((out / "metrics.csv").read_text().splitlines()) == 2


def test_a_folder_that_exists_is_refused_and_left_alone(path, whole, tmp_path):
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "mine.txt").write_text("mine")
    with ng.open(path, memory="64MB") as store:
        for out in (taken, whole[0]):
            before = {f: f.stat().st_mtime_ns for f in out.rglob("*")}
            with pytest.raises(ng.UnsupportedArgument, match="overwrites nothing"):
                fit(store, CONFIG, out=out)
            assert {f: f.stat().st_mtime_ns for f in out.rglob("*")} == before


def test_a_run_that_is_refused_leaves_no_folder(path, tmp_path):
    with ng.open(path, memory="64MB") as store, pytest.raises(ng.UnsupportedArgument):
        fit(store, TrainConfig(metrics=("mrr",)), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_two_writers_of_one_folder_are_refused(path, tmp_path):
    out, refused = tmp_path / "run", []

    def second(phase, step, steps, value):
        if not refused:
            with pytest.raises(ng.StoreBusy, match="another process executes") as caught:
                resume(out)
            refused.append(str(caught.value))

    with ng.open(path, memory="64MB") as store:
        result = fit(store, CONFIG, out=out, progress=second)
    assert refused
    assert json.loads((out / "result.json").read_text())["losses"] == result.losses


def test_a_run_that_has_ended_goes_on_with_more_epochs_alone(whole, tmp_path, path):
    out = tmp_path / "run"
    shutil.copytree(whole[0], out)
    with pytest.raises(ng.UnsupportedArgument, match="has ended"):
        resume(out)
    result = resume(out, epochs=5)
    assert result.losses[: len(whole[1].losses)] == whole[1].losses
    assert len(result.history) == 5


def test_evaluating_gives_what_the_run_has_tested(whole, capsys):
    out, result = whole
    found = evaluate(out)
    assert (found["state"], found["epoch"]) == ("best", result.best_epoch)
    assert found["metrics"] == result.test
    assert evaluate(out, "val")["metrics"]["accuracy"] == max(result.values("accuracy"))
    code, text, _ = command("evaluate", out, "--split", "test", "--json", capsys=capsys)
    assert (code, json.loads(text)["metrics"]) == (0, result.test)
    assert json.loads((out / "evaluation-test-best.json").read_text())["metrics"] == result.test


def test_evaluating_takes_the_parameters_that_the_run_has_tested(path, tmp_path):
    """Where no validation came, those are the last ones, whatever the settings asked for."""
    config = TrainConfig.of({**CONFIG.plain(), "epochs": 1, "val_every": 2, "test_on": "best"})
    with ng.open(path, memory="64MB") as store:
        result = fit(store, config, out=tmp_path / "run")
    assert result.tested == "last"
    found = evaluate(tmp_path / "run")
    assert (found["state"], found["metrics"]) == ("last", result.test)


@pytest.mark.parametrize(
    ("schedule", "changed", "is_free"),
    [("plateau", "val_every", False), ("cosine", "epochs", False), ("constant", "val_every", True)],
)
def test_what_the_schedule_counts_stays_as_it_was(schedule, changed, is_free):
    config = TrainConfig.of({**CONFIG.plain(), "schedule": schedule})
    saved = {**config.plain(), changed: 7}
    if is_free:
        config.same_run(saved)
        return
    with pytest.raises(ng.StateMismatch, match=f"{changed}=7"):
        config.same_run(saved)


def test_another_store_is_refused(whole, tmp_path):
    run_import(
        plan_generated(300, 900, 50, 6), tmp_path / "h.ng", ImportOptions(split_sizes="60,20,20")
    )
    with pytest.raises(ng.StateMismatch, match="another store"):
        evaluate(whole[0], store=tmp_path / "h.ng")
    refused = pytest.raises(ng.StateMismatch, match="another store")
    with ng.open(tmp_path / "h.ng", memory="64MB") as store, refused:
        fit(store, CONFIG, state=whole[0] / "states" / "last.pt")


def test_the_command_takes_its_settings_from_a_file_and_the_line_wins(path, tmp_path, capsys):
    file = tmp_path / "run.yaml"
    file.write_text(f"store: {path}\nmemory: 64MB\nepochs: 3\nfanouts: [5, 3]\nbatch-size: 128\n")
    out = tmp_path / "run"
    given = ("--config", file, "--epochs", 1, "--out", out, "--json")
    code, text, err = command("train", *given, capsys=capsys)
    assert (code, err) == (0, "")
    report = json.loads(text)
    assert (report["config"]["epochs"], report["config"]["fanouts"]) == (1, [5, 3])
    assert "fanouts: [5, 3]" in (out / "config.yaml").read_text()
    code, text, err = command("train", "--resume", out, "--epochs", 2, capsys=capsys)
    assert code == 0
    first, second = err.splitlines()
    assert first == f"resuming {out} at the beginning of epoch 2 of 2"
    assert second.startswith("epoch 2 of 2: loss ")


def test_a_rate_without_a_point_is_a_number(path, tmp_path, capsys):
    """YAML takes it for a text."""
    (tmp_path / "run.yaml").write_text(f"store: {path}\nlr: 1e-3\nepochs: 1\nfanouts: [2]\n")
    code, text, err = command("train", "--config", tmp_path / "run.yaml", "--json", capsys=capsys)
    assert (code, err) == (0, "")
    assert json.loads(text)["config"]["lr"] == 0.001


@pytest.mark.parametrize(
    ("lines", "arguments", "message"),
    [
        ("epoch: 3", [], "'epoch' is not an option of train"),
        ("epochs: many", [], "--epochs many is not valid: expected a whole number"),
        ("lr: fast", [], "--lr fast is not valid: expected a number"),
        ("fanouts: [a]", [], "--fanouts a is not valid: expected comma-separated whole numbers"),
        ("- 1", [], "not a mapping of names to values"),
        ("a: [", [], "not valid YAML"),
        ("epochs: 1", ["--model", "nothing"], "'nothing' is not one of 'sage'"),
    ],
)
def test_a_bad_file_of_settings_is_refused_in_one_line(
    path, tmp_path, capsys, lines, arguments, message
):
    (tmp_path / "run.yaml").write_text(lines)
    given = [path, "--config", tmp_path / "run.yaml", "--out", tmp_path / "run", *arguments]
    code, out, err = command("train", *given, capsys=capsys)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_resuming_takes_no_other_settings(whole, capsys):
    code, _, err = command("train", "--resume", whole[0], "--lr", 0.1, capsys=capsys)
    assert code == 2
    assert "--lr has no effect" in err
    code, _, err = command("evaluate", whole[0].parent, capsys=capsys)
    assert code == 2
    assert "not the directory of a run" in err


def test_training_ends_early_where_nothing_gets_better(path, tmp_path):
    config = TrainConfig(
        fanouts=(5, 3), batch_size=128, hidden=8, epochs=30, lr=1e-9, patience=2, dropout=0.0
    )
    with ng.open(path, memory="64MB") as store:
        result = fit(store, config, out=tmp_path / "run")
    assert result.stopped_early
    assert result.tested == "best"
    assert len(result.history) < 30
    last = len(result.history)
    assert last == result.best_epoch + 2
    said = f"stopped after epoch {last}: accuracy did not improve in 2 validations"
    assert said in result.notes
    assert said in (tmp_path / "run" / "report.html").read_text()


def test_a_run_without_a_validation_says_which_settings_that_makes_vain(path):
    config = TrainConfig(fanouts=(2,), hidden=8, epochs=1, val_every=2, patience=3)
    with ng.open(path, memory="64MB") as store:
        result = fit(store, config)
    said = "no validation: val_every=2 is larger than epochs=1, so patience=3 has no effect"
    assert said in result.notes


def fail(*_):
    raise Stop


def test_a_start_that_fails_before_its_first_checkpoint_leaves_the_name_free(path, tmp_path):
    out = tmp_path / "runs" / "1"
    config = TrainConfig(fanouts=(2,), hidden=8, epochs=1)
    with ng.open(path, memory="64MB") as store:
        with pytest.raises(Stop):
            fit(store, config, out=out, progress=fail)
        assert not (tmp_path / "runs").exists()

        def leave_a_file(*_):
            (out / "mine.txt").write_text("mine")
            raise Stop

        with pytest.raises(Stop):
            fit(store, config, out=out, progress=leave_a_file)
        assert [file.name for file in out.iterdir()] == ["mine.txt"]
        other = tmp_path / "runs" / "2"
        with pytest.raises(Stop):
            fit(store, config, out=other, on_epoch=fail)
    assert (other / "states" / "last.pt").exists()


def test_a_run_that_was_killed_before_its_first_checkpoint_begins_anew(path, tmp_path, monkeypatch):
    out, config = tmp_path / "run", TrainConfig(fanouts=(2,), hidden=8, epochs=1)
    with ng.open(path, memory="64MB") as store:
        with monkeypatch.context() as patch:
            patch.setattr(RunFolder, "_remove", lambda folder: None)
            with pytest.raises(Stop):
                fit(store, config, out=out, progress=fail)
        assert not (out / "states" / "last.pt").exists()
        with pytest.raises(ng.UnsupportedArgument, match="neargraph train --resume"):
            fit(store, config, out=out)
        whole = fit(store, config)
    assert resume(out).losses == whole.losses


def test_resuming_takes_another_memory_and_back_end_and_records_them(path, tmp_path, capsys):
    out, config = tmp_path / "run", TrainConfig(fanouts=(2,), hidden=8, epochs=1)
    with ng.open(path, memory="64MB") as store:
        fit(store, config, out=out)
        whole = fit(store, TrainConfig(fanouts=(2,), hidden=8, epochs=2))
    given = ("--resume", out, "--memory", "48MB", "--backend", "pread", "--epochs", 2, "--json")
    code, text, _ = command("train", *given, capsys=capsys)
    assert (code, json.loads(text)["losses"]) == (0, whole.losses)
    assert json.loads(text)["store_stats"]["budget_limit"] == 48_000_000
    settings = (out / "config.yaml").read_text()
    assert "memory: 48MB" in settings
    assert "backend: pread" in settings


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--holdout", "5,5"], "--holdout 5,5 applies only to the tasks 'link' and 'graph'"),
        (["--lr", 0], "--lr 0.0 is not valid: expected a rate above 0"),
        (["--fanouts", 0], "--fanouts 0 is not valid: expected counts"),
        (["--task", "link", "--loss", "bpr"], "--loss bpr compares a link with negatives of its"),
        (["--model", "temporal", "--task", "link", "--temporal", "off"], "use --temporal last or"),
        (["--sampler", "saint-node", "--coverage", 3], "edge ids (for --coverage 3)"),
        (["--val-after", 3, "--task", "link"], "--val-after is given without --test-after"),
        (["--objective", "multi-label"], "use --objective regression or --objective single-label"),
        (["--split-index", 3], "--split-index 3 is not a split of node type 'node'; use 0"),
        (["--save-steps", 3], "--save-steps 3 has no effect without a training state"),
        (["--out", "a", "--state", "b"], "leave out --state"),
        (["--task", "link", "--target", "a,b,c"], "name one type as --target, such as"),
    ],
)
def test_the_command_names_settings_by_its_options(path, capsys, arguments, message):
    code, _, err = command("train", path, *arguments, capsys=capsys)
    assert code == 2
    assert message in err
    # Names of Python have underscores or an equals sign; the path of the store may, too.
    assert not set("_=") & set(err.replace(str(path), ""))


def test_words_that_name_no_option_stay_as_they_are():
    options = frozenset(["--lr", "--batch-size", "--seed"])
    for text in (
        "/data/batch_size/g.ng: no",
        "`lr=3` stays",
        "the seed is 3",
        "a column 'batch_size'",
        "give --batch-size",
        "run=5, embedding_name",
    ):
        assert flag_words(text, options) == text
    assert flag_words("seed is 3; lr is 0", options) == "--seed is 3; --lr is 0"
    assert flag_words("lr=3.5. Or batch_size.", options) == "--lr 3.5. Or --batch-size."


def test_epochs_and_steps_have_whole_ticks():
    for count in (1, 2, 3, 7):
        text = svg([("loss", range(1, count + 1), [1.0] * count)], "epoch", "loss")
        ticks = re.findall(r'class="tick middle"[^>]*>([^<]*)<', text)[:-1]
        assert all(float(tick).is_integer() for tick in ticks)
        assert len(set(ticks)) == len(ticks) >= 2
