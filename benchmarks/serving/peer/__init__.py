"""The server that a user would write today, tuned in good faith: grpcio and PyG over mapped rows.

`server` is one run of it, `messages` what it says, `process` starts and ends it. `beside` sweeps
its workers, warms and measures it; a cold or single peer is never compared with.
"""
