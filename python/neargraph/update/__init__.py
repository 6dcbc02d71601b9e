"""Writing to a store: transactions, the conversion of rows, events from files.

Only the compiled core defines what a commit is and when it is durable.
"""
