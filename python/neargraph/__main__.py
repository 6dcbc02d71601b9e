"""`python -m neargraph`: the same as the command `neargraph`."""

from neargraph.cli import main

main()
