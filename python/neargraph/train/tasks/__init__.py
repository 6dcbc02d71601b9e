"""Tasks: predictions for nodes, links and graphs, with their losses."""

from .base import Task
from .graph import GraphTask
from .link import LinkTask
from .node import NodeTask, Resident

__all__ = ["GraphTask", "LinkTask", "NodeTask", "Resident", "Task"]
