"""A stand-in for persistent memory; `__main__` says what is measured."""
