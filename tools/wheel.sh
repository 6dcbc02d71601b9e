#!/usr/bin/env bash
# Builds dist/neargraph-*.whl: abi3, manylinux2014, stripped. maturin compiles and links with the
# zig that tools/wheel.lock pins, so that the library runs on distributions since 2014.
# Further arguments go to maturin (docs/how-to/release.md). `tools/wheel.sh --arguments` installs
# zig and prints the arguments that decide what is compiled: tools/setup.sh builds the same library.
set -euo pipefail
cd "$(dirname "$0")/.."
arguments="--locked --zig --strip --compatibility manylinux2014"
[ -x .venv/bin/maturin ] || { echo "wheel: run make setup first" >&2; exit 1; }
.venv/bin/python -m pip install --disable-pip-version-check --quiet --no-deps --require-hashes \
    --only-binary :all: -r tools/wheel.lock >&2
if [ "${1:-}" = --arguments ]; then
    echo "$arguments"
    exit
fi
# shellcheck disable=SC2086 # one word each
PATH=$PWD/.venv/bin:$PATH .venv/bin/maturin build --release $arguments --out dist "$@"
