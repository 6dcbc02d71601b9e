"""The demo: a real graph imported, trained on from disk and from memory, and compared.

`python -m neargraph.demo`, or `make demo`. Everything is written under `demo-out`.
"""
