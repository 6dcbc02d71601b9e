"""Tasks: what is predicted, of which part of a graph, and what an error costs."""

from .base import Task
from .graph import GraphTask
from .link import LinkTask
from .node import NodeTask, Resident

__all__ = ["GraphTask", "LinkTask", "NodeTask", "Resident", "Task"]
