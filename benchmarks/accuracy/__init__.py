"""Accuracy from disk beside PyG in memory: the same splits, settings and seeds on both sides."""
