"""Clients of a server. Tables of methods define the requests once for both kinds of client."""

from neargraph.client.asynchronous import AsyncClient, AsyncJob
from neargraph.client.batches import ReceivedBatch
from neargraph.client.blocking import Client, Job
from neargraph.client.connection import Tls
from neargraph.client.modes import AsyncStream, Stream
from neargraph.client.reports import (
    ApplyResult,
    DeviceList,
    ServedGraph,
    ServedModel,
    ServerInfo,
    UpdateGraphResult,
)
from neargraph.client.results import Answer, BackupState, JobState, NeighborLists, Snapshot
from neargraph.client.updates import Updates

__all__ = [
    "Answer",
    "ApplyResult",
    "AsyncClient",
    "AsyncJob",
    "AsyncStream",
    "BackupState",
    "Client",
    "DeviceList",
    "Job",
    "JobState",
    "NeighborLists",
    "ReceivedBatch",
    "ServedGraph",
    "ServedModel",
    "ServerInfo",
    "Snapshot",
    "Stream",
    "Tls",
    "UpdateGraphResult",
    "Updates",
]
