"""The demo: a graph several times larger than the budget, trained on from disk and then served.

`python -m neargraph.demo`, or `make demo`. The same model is fed the same batches from disk, from
memory and from memory-mapped rows. Everything is written under `demo-out`. What must not live here:
anything that a user of the package needs.
"""
