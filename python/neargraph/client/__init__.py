"""Clients of a server. What is asked is made in `requests.py`, once for both of them."""

from neargraph.client.asynchronous import AsyncClient, AsyncJob
from neargraph.client.blocking import Client, Job
from neargraph.client.results import Answer, JobState, NeighborLists, Snapshot
from neargraph.client.updates import Updates

__all__ = [
    "Answer",
    "AsyncClient",
    "AsyncJob",
    "Client",
    "Job",
    "JobState",
    "NeighborLists",
    "Snapshot",
    "Updates",
]
