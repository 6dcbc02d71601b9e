"""Benchmarks of serving: request streams, the load that they make, and the server beside ours.

`streams` writes what is asked and when; `replay` asks it; `peer` is the server that a user would
write today. Nothing here knows the inside of the system under test.
"""
