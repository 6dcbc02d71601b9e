"""Digests of batches over every way of making them, to compare before and after a change.

`stores` imports the graphs, `ways` is the table of what is made in which way and of what is
refused, `make` makes it through the public faces, and `digest` turns it into one short text.
"""
