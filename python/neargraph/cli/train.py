"""`neargraph train G.ng`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from neargraph.exceptions import UnsupportedArgument
from neargraph.remedies import flag_words

from .options import BackendName, Memory, Recover, complete_stores, opened
from .settings import Json
from .show import print_report, size
from .training_line import training_line
from .training_options import OPTIONS, from_file, settings_of, with_options

_Config = Annotated[
    Path | None,
    typer.Option(
        help="YAML file with options by name. Options on the command line override those of "
        "the file."
    ),
]
_Store = Annotated[
    Path | None,
    typer.Argument(
        help="Store directory, NAME.ng. Default: the value of `store` in the --config file.",
        metavar="STORE",
        autocompletion=complete_stores,
    ),
]
_Resume = Annotated[
    Path | None,
    typer.Option(
        help="Resume the run in this folder. Of the other options, only --epochs, --memory and "
        "--backend may be given."
    ),
]
_Out = Annotated[Path | None, typer.Option(help="Folder to create for the run.")]
_Backend = Annotated[
    BackendName | None,
    typer.Option(
        help="I/O back end that reads the store; auto = the fastest that works here. Default: auto."
    ),
]
_FLAGS = frozenset(f"--{name.replace('_', '-')}" for name in OPTIONS)
_State = Annotated[
    Path | None,
    typer.Option(
        help="File to which the training state is saved after each epoch. If the file exists, "
        "training resumes from it."
    ),
]


@with_options
def train(
    store: _Store = None,
    config: _Config = None,
    resume: _Resume = None,
    out: _Out = None,
    memory: Memory = None,
    backend: _Backend = None,
    state: _State = None,
    recover: Recover = True,
    as_json: Json = False,
    *,
    given: Mapping[str, Any],
) -> None:
    """Train and test a model on a store.

    With --out, settings, metrics, parameters and a report are written to the folder of the run.
    """
    import neargraph

    neargraph.tune_process()
    if resume is not None:
        own = {"STORE": store, "--config": config, "--out": out, "--state": state}
        _refuse_beside("--resume", own | {"--no-recover": None if recover else True}, given)
        changed = {"epochs": given.get("epochs"), "memory": memory, "backend": backend}
        _resume_run(resume, changed, as_json)
        return
    from neargraph.train import TrainConfig, fit
    from neargraph.train.models import check_names

    written, opening = from_file(config) if config is not None else ({}, {})
    path = store or opening.get("store")
    if path is None:
        raise UnsupportedArgument(
            "no store given: name NAME.ng on the command line, or give the key `store` in --config"
        )
    settings = TrainConfig(**settings_of(written, given))
    check_names(settings)
    backend = backend or opening.get("backend") or "auto"
    folder = out or opening.get("out")
    budget = memory or opening.get("memory")
    if settings.save_steps and folder is None and state is None:
        raise UnsupportedArgument(
            f"save_steps={settings.save_steps} has no effect without a training state; give --out "
            "or --state, or leave out save_steps="
        )
    with (
        opened(path, budget, backend=backend, recover=recover) as handle,
        training_line(settings.epochs, as_json) as line,
    ):
        heard: dict[str, Any] = {"watch": line, "on_epoch": line.epoch}
        result = fit(handle, settings, state=state, out=folder, **heard)
        note = handle.core.backend_note
    more = {} if folder is None else {"run": str(folder)}
    report = {"store": str(path), **more, "config": settings.plain(), "backend": note}
    print_report(as_json, {**report, **result.plain()}, f"Trained on {path}", _rows(note, result))


def _refuse_beside(option: str, own: dict[str, Any], given: Mapping[str, Any]) -> None:
    named = [name for name, value in own.items() if value is not None]
    named += [f"--{name.replace('_', '-')}" for name in given if name != "epochs"]
    if named:
        raise UnsupportedArgument(
            f"{named[0]} has no effect with {option}, which keeps the settings of the run; leave "
            f"out {named[0]}, or start another run"
        )


def _resume_run(folder: Path, changed: dict[str, Any], as_json: bool) -> None:
    from neargraph.train import resume
    from neargraph.train.folder import RunFolder

    run = RunFolder.open(folder).changed(**changed)
    with training_line(run.config.epochs, as_json) as line:
        line.resumes(folder)
        result = resume(folder, **changed, watch=line, on_epoch=line.epoch)
    report = {"store": run.opening.store, "run": str(folder), "config": run.config.plain()}
    rows = _rows(run.opening.backend, result)
    print_report(as_json, {**report, **result.plain()}, f"Resumed {folder}", rows)


def _rows(note: str, result: Any) -> list[tuple[str, Any]]:
    stats = result.store_stats
    read, useful = stats.get("read_bytes", 0), stats.get("useful_bytes", 0)
    unknown = {name: count for name, count in result.missing_labels.items() if count}
    values = ", ".join(f"{value:.4f}" for value in result.values(result.metric))
    left_out = ", ".join(f"{name} {count:,}" for name, count in unknown.items())
    test = [(f"test {name}", f"{value:.4f}") for name, value in result.test.items()]
    return [
        ("back end", note),
        ("predicts", result.objective),
        ("parameters", result.num_parameters),
        ("steps", len(result.losses)),
        ("last loss", f"{result.losses[-1]:.4f}" if result.losses else "none"),
        (f"val {result.metric}", values or "not measured"),
        ("best epoch", result.best_epoch),
        *(test or [(f"test {result.metric}", "not measured")]),
        ("parameters tested", result.tested),
        *([("unlabelled nodes left out", left_out)] if left_out else []),
        ("seeds/s", f"{result.seeds_per_second:,.0f}"),
        ("read", f"{size(read)} for {size(useful)} of rows and lists in batches"),
        ("hit rate", f"{100 * stats.get('hit_rate', 0.0):.0f} %"),
        ("budget peak", f"{size(stats.get('budget_peak'))} of {size(stats.get('budget_limit'))}"),
        *(("note", flag_words(text, _FLAGS)) for text in result.notes),
    ]
