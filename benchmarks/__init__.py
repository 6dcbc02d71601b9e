"""Benchmarks; see README.md beside this file. `python -m benchmarks` runs all of them."""
