#!/usr/bin/env bash
# Makes .venv, installs the locked Python packages and builds the extension into it.
# Names whatever is missing together with the package that brings it.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=.venv
python=${PYTHON:-python3}

missing() { printf 'setup: %s\n  %s\n' "$1" "$2" >&2; exit 1; }

command -v "$python" >/dev/null ||
    missing "no $python found" "Debian/Ubuntu: sudo apt-get install python3 python3-venv"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    missing "$("$python" --version) is too old, 3.10 or newer is needed" \
        "name another with PYTHON=python3.12 make ..."
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
    missing "the venv module of $python is missing" \
        "Debian/Ubuntu: sudo apt-get install python3-venv"
command -v cc >/dev/null ||
    missing "no C compiler found" "Debian/Ubuntu: sudo apt-get install build-essential"
command -v cargo >/dev/null ||
    missing "no Rust toolchain found" \
        "Rust >= 1.89: https://rustup.rs, or sudo apt-get install rustup && rustup default stable"
rust=$(rustc --version | cut -d' ' -f2)
[ "$(printf '%s\n1.89\n' "$rust" | sort -V | head -n1)" = 1.89 ] ||
    missing "rustc $rust is too old, 1.89 or newer is needed" "rustup update stable"

if [ ! -x $venv/bin/python ] || ! $venv/bin/python -m pip --version >/dev/null 2>&1; then
    "$python" -m venv --clear $venv
fi
wanted=$(cat requirements.lock pyproject.toml | sha256sum | cut -d' ' -f1)
if [ "$(cat $venv/.locked 2>/dev/null)" != "$wanted" ]; then
    echo "setup: installing the Python packages of requirements.lock (about 5 GB with torch)" >&2
    $venv/bin/python -m pip install --disable-pip-version-check --no-deps --progress-bar on \
        --require-hashes --only-binary :all: -r requirements.lock
    echo "$wanted" >$venv/.locked
fi
echo "setup: building the extension" >&2
arguments=--locked
# CI tests the library that a wheel has, and compiles it once.
[ -z "${NEARGRAPH_WHEEL:-}" ] || arguments=$(tools/wheel.sh --arguments)
# pip drives maturin because `maturin develop` needs a newer pip than some systems ship.
PATH=$PWD/$venv/bin:$PATH MATURIN_PEP517_ARGS=$arguments $venv/bin/python -m pip install \
    --disable-pip-version-check --quiet --no-deps --no-build-isolation --editable .
