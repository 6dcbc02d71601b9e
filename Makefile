# Thin names over the real tools. Everything runs inside .venv, which `setup` makes.
SHELL := /bin/bash
PY := .venv/bin/python
export RUST_BACKTRACE ?= 1

.PHONY: help setup demo test test-rust test-python lint deny bench bench-graphs bench-training canaries test-rust-canaries reliability long-tier wheel wheel-test sdist docs docs-serve clean

help:
	@echo "make setup        install the locked packages and build the extension"
	@echo "make demo         train from disk beside memory and np.memmap, then serve: 2 minutes"
	@echo "make test         all tests"
	@echo "make lint         formatters, linters, type checks, house rules"
	@echo "make deny         licences, sources and advisories of all crates (builds cargo-deny once)"
	@echo "make docs         the documentation site, into site/"
	@echo "make docs-serve   the documentation site on http://127.0.0.1:8000/, built again on a change"
	@echo "make bench        the benchmarks, one JSON and one table each"
	@echo "make bench-graphs    the graphs and environments of bench-training: 10 GB each, minutes"
	@echo "make bench-training  training from disk beside PyG and GraphBolt, under a 2 GB cgroup"
	@echo "make canaries     plant known bugs and expect the tests to catch each"
	@echo "make reliability  the promises of reliability, measured into reliability.json"
	@echo "make wheel        dist/*.whl: manylinux, stripped, built with zig"
	@echo "make sdist        dist/*.tar.gz, and a check of its files"
	@echo "make wheel-test   install dist/*.whl and each extra into empty environments, and use them"
	@echo "make long-tier    the same tests at their long figures, about an hour"

setup:
	@tools/setup.sh

demo: setup
	@$(PY) -m neargraph.demo

test: setup test-rust test-python

test-rust:
	cargo test --locked --workspace

# Files of tests go to two processes, because most of them use one core.
test-python:
	$(PY) -m pytest --numprocesses 2 --dist loadfile

lint: setup
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	.venv/bin/ruff format --check python examples attacks benchmarks tools
	.venv/bin/ruff check python examples attacks benchmarks tools
	.venv/bin/mypy
	$(PY) tools/tidy.py
	$(PY) tools/check_deploy.py
	$(PY) tools/check_links.py

# The theme announces its successor on each run unless it is told not to.
docs: setup
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict

docs-serve: setup
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs serve

deny:
	tools/deny.sh

bench: setup
	$(PY) -m benchmarks

bench-graphs: setup
	$(PY) -m benchmarks.graphs planted_4m
	$(PY) -m benchmarks.venvs

bench-training: setup
	$(PY) -m benchmarks.training --cap 2GB
	$(PY) -m benchmarks.training --cap 2GB --mode train --label train

canaries:
	python3 tools/canaries.py

# Canaries run the binaries of the tests, so they come after them, beside the tests of Python.
test-rust-canaries: test-rust
	python3 tools/canaries.py

long-tier:
	tools/long_tier.sh

wheel:
	@tools/wheel.sh

sdist:
	@$(PY) tools/sdist.py

# The wheel has to be there: `make wheel`.
wheel-test:
	@$(PY) tools/wheel_test.py

reliability: setup
	$(PY) tools/reliability.py

clean:
	cargo clean
	rm -rf .venv demo-out .bench dist site
