"""Writing to a store: transactions, the conversion of rows, events from files.

What a commit is, and when it is durable, is decided in the compiled core alone.
"""
