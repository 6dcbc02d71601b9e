"""`python -m neargraph`, the same as the `neargraph` command."""

from neargraph.cli import main

main()
