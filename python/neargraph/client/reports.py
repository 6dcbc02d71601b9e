"""Types of the dictionaries that a server returns.

This module holds types only. Invariant: a key is listed here if and only if the message of the
server (`proto/`) has a field of that name.
"""

from typing import Literal, TypedDict

Right = Literal["read", "write", "admin"]
"""The rights of a client: each one includes those before it."""


class SnapshotInfo(TypedDict):
    """A version of a graph."""

    commit: int
    """Number of the last commit in it, from 1."""
    fingerprint: int
    """Identifies the content. 0 in a result that repeats that of an earlier request."""


class ServedTensor(TypedDict):
    """One tensor of a node type."""

    name: str
    dtype: str
    shape: list[int]


class ServedNodeType(TypedDict):
    """One node type of a graph."""

    name: str
    num_nodes: int
    tensors: list[ServedTensor]


class ServedEdgeType(TypedDict):
    """One edge type of a graph."""

    name: str
    source: str
    destination: str
    num_edges: int
    has_reverse: bool


class ServedGraph(TypedDict):
    """One graph of a server, as `Client.graphs` lists it."""

    name: str
    path: str
    snapshot: SnapshotInfo | None
    node_types: list[ServedNodeType]
    edge_types: list[ServedEdgeType]
    read_only: bool
    read_only_because: str
    """The reason; empty if the graph can be changed."""
    bytes_on_disk: int
    pinned_commits: list[int]
    problem: str
    """Why the graph is not available; empty if it is. With a problem, the other values are
    unknown."""


class ServedModel(TypedDict):
    """One version of a model, as `Client.models` lists it."""

    name: str
    version: int
    graph: str
    sha256: str
    node_type: str
    aliases: list[str]
    ready: float
    """The part of the rows and lists to prepare that is in memory, 0 to 1."""
    ready_problem: str
    """Why not everything was prepared; empty if it was."""
    groups: bool
    """Whether the server computes requests together."""
    output: str
    devices: list[str]


class DeviceInfo(TypedDict):
    """One device that computes models."""

    name: str
    priority: int
    """The device with the highest priority that has an operation computes it."""
    plugin: str
    """Name of the plug-in that provides the device; empty for built-in devices."""
    operations: list[str]


class DeviceList(TypedDict):
    """The devices of a server, as `Client.devices` returns them."""

    devices: list[DeviceInfo]
    bundle: str
    left_out: list[str]
    """Registered plug-ins that could not be loaded at the start, with the reason."""


class ServerInfo(TypedDict):
    """A server, as `Client.server_info` returns it."""

    version: str
    uptime_seconds: float
    addresses: list[str]
    """The addresses that the server listens on."""
    side_address: str
    """The HTTP address of metrics, health checks and the REST interface."""
    right: Right
    """The right of this client."""
    read_only: bool
    scheduler: str
    """The parts of the scheduler that are switched on, such as "GRSC"."""
    limits: dict[str, int]
    """Limits by name, in the units of their names."""


class ChangeResult(TypedDict):
    """The result of one change. A value that does not apply to the change is None."""

    node: int | None
    """Id of the added node."""
    edge: int | None
    """Id of the added edge, if the edge type has ids."""
    deleted: int | None
    """Number of deleted edges."""


class ApplyResult(TypedDict):
    """The commit of `Client.apply`."""

    snapshot: SnapshotInfo
    results: list[ChangeResult]
    """One result for each change, in order."""
    repeated: bool
    """Whether this result repeats that of an earlier request with the same key."""


class UpdateGraphResult(TypedDict):
    """The commit of `Client.update_graph`."""

    snapshot: SnapshotInfo
    num_nodes: int
    """Number of nodes that were sent."""
    num_edges: int
    """Number of edges that were sent."""
    num_rows: int
    """Number of rows that were replaced."""
    first_nodes: list[int]
    """For each node type, the id of its first new node. The others follow it."""
    notes: list[str]
    """Remarks about the columns, such as dropped or doubled edges."""
    repeated: bool
    """Whether this result repeats that of an earlier request with the same key."""
