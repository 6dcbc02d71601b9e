"""Benchmarks of serving: request streams, the server under load, and the server beside ours.

`served` starts the programs, `streams` writes what is asked where it has locality, `peer` is the
server that a user would write today. Each of the others is a command.
"""
