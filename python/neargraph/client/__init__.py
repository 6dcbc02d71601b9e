"""Clients of a server. What they ask is written once for both, in tables of methods."""

from neargraph.client.asynchronous import AsyncClient, AsyncJob
from neargraph.client.batches import ReceivedBatch
from neargraph.client.blocking import Client, Job
from neargraph.client.connection import Tls
from neargraph.client.modes import AsyncStream, Stream
from neargraph.client.results import Answer, BackupState, JobState, NeighborLists, Snapshot
from neargraph.client.updates import Updates

__all__ = [
    "Answer",
    "AsyncClient",
    "AsyncJob",
    "AsyncStream",
    "BackupState",
    "Client",
    "Job",
    "JobState",
    "NeighborLists",
    "ReceivedBatch",
    "Snapshot",
    "Stream",
    "Tls",
    "Updates",
]
