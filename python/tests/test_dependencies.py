"""X1: what neargraph depends on has a licence, a source and a hash that were chosen.

`make deny` asks more of the crates; this needs cargo and no network.
"""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
REGISTRY = "registry+https://github.com/rust-lang/crates.io-index"


def allowed_licences() -> set[str]:
    return listed("allow")


def listed(name: str) -> set[str]:
    """A list of deny.toml."""
    text = (ROOT / "deny.toml").read_text()
    (found,) = re.findall(rf"^{name} = \[(.*?)\]$", text, re.M | re.S)
    return set(re.findall(r'"([^"]+)"', found))


def is_allowed(expression: str, allowed: set[str]) -> bool:
    """Whether an SPDX expression can be met by the licences in `allowed`."""
    names = r"\(|\)|\bAND\b|\bOR\b|[\w.+-]+(?: WITH [\w.+-]+)?"
    words = {"AND": "and", "OR": "or", "(": "(", ")": ")"}
    found = re.findall(names, expression.replace("/", " OR "))
    return bool(eval(" ".join(words.get(word, str(word in allowed)) for word in found)))


def test_a_licence_expression_is_met_by_one_side_of_or_and_by_both_of_and():
    allowed = {"MIT", "Apache-2.0 WITH LLVM-exception"}
    assert is_allowed("MIT/GPL-3.0", allowed)
    assert is_allowed("(GPL-3.0 OR MIT) AND Apache-2.0 WITH LLVM-exception", allowed)
    assert not is_allowed("MIT AND Apache-2.0", allowed)


def licence_findings() -> tuple[int, list[str]]:
    command = ["cargo", "metadata", "--locked", "--offline", "--format-version", "1"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if said.returncode:
        command.remove("--offline")
        said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    crates, allowed = json.loads(said.stdout)["packages"], allowed_licences()
    return len(crates), [
        f"{crate['name']}: licence {crate['license']!r}"
        for crate in crates
        if not crate["license"] or not is_allowed(crate["license"], allowed)
    ]


def source_findings() -> tuple[int, list[str]]:
    """Crates of another registry, without a checksum, or of two versions; and doubles that are
    expected and not there."""
    findings, versions, expected = [], {}, listed("skip")
    tables = (ROOT / "Cargo.lock").read_text().split("[[package]]")[1:]
    for table in tables:
        crate = dict(re.findall(r'^(\w+) = "(.*)"$', table, re.M))
        named = f"{crate['name']}@{crate['version']}"
        if named in expected:
            expected.remove(named)
        else:
            versions.setdefault(crate["name"], []).append(crate["version"])
        is_ours = crate["name"].startswith("ng-") and "source" not in crate
        if not is_ours and crate.get("source") != REGISTRY:
            findings.append(f"{crate['name']}: source {crate.get('source')}")
        if not is_ours and not re.fullmatch("[0-9a-f]{64}", crate.get("checksum", "")):
            findings.append(f"{crate['name']}: no checksum")
    findings += [f"{name}: versions {found}" for name, found in versions.items() if len(found) > 1]
    findings += [f"{named}: not there, so deny.toml need not skip it" for named in sorted(expected)]
    return len(tables), findings


def lock_findings(text: str) -> tuple[int, list[str]]:
    """Packages of requirements.lock that are not held to one version and to hashes."""
    lines = [line for line in text.replace("\\\n", " ").splitlines() if not line.startswith("#")]
    whole = re.compile(r"[A-Za-z0-9._-]+==[^\s;*]+( ; [^\\]+?)?(\s+--hash=sha256:[0-9a-f]{64})+")
    return len(lines), [line[:80] for line in lines if not whole.fullmatch(line.strip())]


def test_a_package_without_a_hash_or_without_a_version_is_found():
    text = (
        "a==1 \\\n    --hash=sha256:" + "0" * 64 + "\nb==2\nc>=3 \\\n    --hash=sha256:" + "0" * 64
    )
    assert lock_findings(text) == (3, ["b==2", "c>=3      --hash=sha256:" + "0" * 56])


@pytest.mark.reliability
def test_every_dependency_has_a_licence_a_source_and_a_hash_that_were_chosen():
    if shutil.which("cargo") is None:
        pytest.skip("cargo is not installed")
    locks = [(ROOT / name).read_text() for name in ("requirements.lock", "tools/wheel.lock")]
    parts = [licence_findings(), source_findings(), *map(lock_findings, locks)]
    findings = [finding for _, found in parts for finding in found]
    figure = {"id": "X1", "tried": sum(n for n, _ in parts), "failed": len(findings), "seed": 0}
    print("figure:", json.dumps(figure))
    assert not findings


@pytest.mark.parametrize("script", ["setup.sh", "wheel.sh"])
def test_scripts_install_only_what_has_a_hash(script):
    assert "--require-hashes" in (ROOT / "tools" / script).read_text()
