"""The demo: trains on a graph several times larger than the budget, and serves the model.

`python -m neargraph.demo`, or `make demo`. The same model trains on the same batches from disk,
from memory and from memory-mapped rows. Everything is written under `demo-out`. What must not live
here: anything that a user of the package needs.
"""
