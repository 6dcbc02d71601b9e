"""The systems that `training.py` compares, each run as a process of its own by `drive.py`.

A module here is imported in the virtual environment of its system, so it may import that system,
NumPy and what stands in this folder, and nothing else of the project unless it is the project's.
"""
