"""Loaders: seeds in, mini-batches out.

`sampler` yields NumPy and needs no torch; `neighbor` is thin over it and yields PyG objects. This
module imports neither, so that `neargraph.loader.sampler` stays free of torch.
"""
