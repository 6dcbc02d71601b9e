"""S3: hostile clients harm nobody else.

A script does one kind of harm for as long as it is told to. `__main__` runs each against a server
that a victim asks at a modest rate, and compares the victim's latencies with those it has alone.
"""
