"""The server that a user would write today, tuned in good faith: grpcio and PyG over mapped rows.

`server` is one run of it, `messages` what it says, `__main__` tunes, warms and measures it.
"""
