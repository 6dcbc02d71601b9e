"""Checks `deploy/`: names of metrics in rules, panels and the page against what the server has.

`deploy/metrics.txt` lists what the server measures. Rules, the Grafana dashboard and the page of
the side port may name these metrics and their labels alone. The image is built from pinned ones and
runs as an ordinary user. promtool and systemd-analyze check the rest where they are installed; what
is not is said.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy"
PAGE = ROOT / "crates/ng-server/src/side/page"
SOURCE = ROOT / "crates/ng-server/src/telemetry/metrics.rs"
NAME = re.compile(r"(?<![\w:$])(?:neargraph|process)_[a-z0-9_]+(?![\w:]|\.\w)")
RECORDED = re.compile(r"\bneargraph:[a-z0-9_:]+")
SELECTOR = re.compile(r"((?:neargraph|process)_[a-z0-9_]+)\{([^{}]*)\}")
LABEL = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"')
# What Prometheus adds to each metric.
ADDED = {"instance", "job"}


@dataclass(frozen=True)
class Metric:
    """What the server measures under a name."""

    kind: str
    labels: frozenset[str]


def metrics() -> dict[str, Metric]:
    """The list of metrics."""
    lines = (DEPLOY / "metrics.txt").read_text().splitlines()
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    return {name: Metric(kind, frozenset(labels)) for name, kind, *labels in rows}


def base(name: str, known: dict[str, Metric]) -> tuple[str, bool]:
    """The metric that a series belongs to, and whether the series is one of a histogram."""
    for end in ("_bucket", "_sum", "_count"):
        stem = name.removesuffix(end)
        if stem != name and stem in known and known[stem].kind == "histogram":
            return stem, True
    return name, False


def texts() -> Iterator[tuple[str, str]]:
    """What names metrics: where, and the text."""
    for path in sorted((DEPLOY / "prometheus").glob("rules*.yml")):
        lines = path.read_text().splitlines()
        yield path.name, "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    for path in sorted((DEPLOY / "grafana/dashboards").glob("*.json")):
        board = json.loads(path.read_text())
        for panel in board["panels"]:
            for target in panel["targets"]:
                yield f"{path.name}: {panel['title']}", target["expr"]
        for variable in board["templating"]["list"]:
            yield f"{path.name}: ${variable['name']}", variable["definition"]
    for path in sorted(PAGE.glob("*.js")):
        yield path.name, path.read_text()


def problems_of_names(known: dict[str, Metric]) -> Iterator[str]:
    """Names and labels that the server does not have."""
    recorded = set(re.findall(r"record: (\S+)", (DEPLOY / "prometheus/rules.yml").read_text()))
    for where, text in texts():
        for name in sorted(set(NAME.findall(text))):
            metric, is_series = base(name, known)
            if metric not in known:
                yield f"{where}: the server has no metric {name}"
            elif known[metric].kind == "histogram" and not is_series and not where.endswith(".js"):
                yield f"{where}: {name} is a histogram: name its _bucket, _sum or _count"
        for name, inside in SELECTOR.findall(text):
            metric, is_series = base(name, known)
            has = known.get(metric, Metric("", frozenset())).labels | ADDED
            has = has | {"le"} if is_series else has
            for label in sorted(set(LABEL.findall(inside)) - has):
                yield f"{where}: {name} has no label {label}"
        for name in sorted(set(RECORDED.findall(text)) - recorded):
            yield f"{where}: no rule records {name}"


def problems_of_list(known: dict[str, Metric]) -> Iterator[str]:
    """Where the list differs from what the server describes."""
    kinds = {"c": "counter", "g": "gauge", "h": "histogram"}
    rows = re.findall(r"""\(\s*"(\w+)",\s*'([cgh])',""", SOURCE.read_text())
    described = {name: kinds[kind] for name, kind in rows}
    listed = {name: metric.kind for name, metric in known.items()}
    for name in sorted(described.keys() ^ listed.keys()):
        has, lacks = ("server", "list") if name in described else ("list", "server")
        yield f"metrics.txt: the {has} has {name}, the {lacks} has not"
    for name in sorted(described.keys() & listed.keys()):
        if described[name] != listed[name]:
            yield f"metrics.txt: {name} is a {described[name]}, not a {listed[name]}"


def problems_of_image(text: str, sent: str) -> Iterator[str]:
    """Where the image is not pinned, runs as root, or copies what .dockerignore keeps back."""
    images = re.findall(r"^ARG \w+_IMAGE=(\S+)$", text, re.M)
    for image in images:
        if not re.search(r":\d+\.\d+[\w.-]*$|@sha256:[0-9a-f]{64}$", image):
            yield f"Containerfile: {image} is pinned neither by version nor by digest"
    starts = re.findall(r"^FROM (\S+)", text, re.M)
    if len(images) != len(starts) or not all(start.startswith("${") for start in starts):
        yield f"Containerfile: FROM {starts} has to name arguments, so that a release can pin them"
    user = re.findall(r"^USER (\S+)$", text.rpartition("\nFROM ")[2], re.M)[-1:]
    if not user or not re.fullmatch(r"[1-9]\d*:[1-9]\d*", user[0]):
        yield f"Containerfile: the last user is {user}, not the numbers of an ordinary one"
    patterns = sent.splitlines()
    if "*" not in patterns:
        yield ".dockerignore: lets everything through"
    for source in re.findall(r"^COPY (?:--chmod=\S+ )?([\w/.]+) \S+$", text, re.M):
        if source != "." and f"!{source}" not in patterns:
            yield f".dockerignore: keeps back {source}, which the Containerfile copies"
    for name in [pattern[1:] for pattern in patterns if pattern.startswith("!")]:
        if not (ROOT / name).exists():
            yield f".dockerignore: there is no {name}"


def run(*command: str) -> Iterator[str]:
    """What a program says is wrong."""
    program = Path(shutil.which(command[0]) or command[0]).resolve()
    command = (str(program), *command[1:])
    done = subprocess.run(command, cwd=DEPLOY / "prometheus", capture_output=True, text=True)
    if done.returncode:
        yield f"{' '.join(command)}:\n{done.stdout}{done.stderr}"


def problems_of_tools() -> Iterator[str]:
    """What promtool and systemd-analyze find."""
    if shutil.which("promtool"):
        yield from run("promtool", "check", "config", "prometheus.yml")
        yield from run("promtool", "test", "rules", "rules_test.yml")
    else:
        print("not checked: promtool is not installed (Debian: prometheus)")
    if shutil.which("systemd-analyze"):
        with tempfile.TemporaryDirectory() as folder:
            # The program need not be installed where the unit is checked.
            unit = (DEPLOY / "systemd/neargraph.service").read_text()
            unit = unit.replace("/usr/local/bin/neargraph-server", "/bin/true")
            copy = Path(folder) / "neargraph.service"
            copy.write_text(unit)
            yield from run("systemd-analyze", "verify", str(copy))
    else:
        print("not checked: systemd-analyze is not installed")


def main() -> int:
    """Prints what is wrong."""
    known = metrics()
    image = ((DEPLOY / "Containerfile").read_text(), (ROOT / ".dockerignore").read_text())
    problems = [
        *problems_of_names(known),
        *problems_of_list(known),
        *problems_of_image(*image),
        *problems_of_tools(),
    ]
    for problem in problems:
        print(problem)
    if not problems:
        print(f"deploy: {len(known)} metrics, {len(list(texts()))} places that name them")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
