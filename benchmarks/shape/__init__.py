"""A graph of a published shape, made and used by one command; see `__main__.py`."""
