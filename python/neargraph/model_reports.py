"""Types of the dictionaries that models, engines and inference over all nodes return.

This module holds types only. Invariant: a key is listed here if and only if the compiled core or
the method that returns the dictionary sets it.
"""

from typing import Any, TypedDict


class ValueInfo(TypedDict):
    """One input or output of a model."""

    name: str
    dtype: str | None
    """None if it is not fixed, as in the text form."""
    shape: list[str] | None
    """Lengths of the dimensions. Counts that vary have names, such as "nodes"."""


class _WeightInfo(TypedDict):
    name: str
    dtype: str
    shape: list[int]
    bytes: int
    file: str | None


class WeightInfo(_WeightInfo, total=False):
    """One weight of a model. `file` is None if the weight is in the ONNX file."""

    elements: str | None
    """The elements as text, if they are few. Set only for a graph without a file."""


class NodeInfo(TypedDict):
    """One node of a graph."""

    name: str
    op: str
    device: str | None
    """The device whose kernel is preferred; None if no device has one."""


class _StepInfo(TypedDict):
    op: str
    device: str | None
    in_place: bool
    nodes: list[list[str]]
    shapes: list[str]


class StepInfo(_StepInfo, total=False):
    """One step of a plan, as `Dfg.explain` returns it.

    `device` is None if the step moves no element. `in_place` is whether the step reuses the memory
    of an input. `nodes` are the nodes of the graph that the step computes: pairs of name and
    operation. `shapes` are the shapes of its results.
    """

    seconds: float
    """Time of the step. Set only if the graph was run."""
    bytes: int
    """Bytes of its inputs and results. Set only if the graph was run."""


class ModelInfo(TypedDict):
    """A model, as `Dfg.info` returns it."""

    inputs: list[ValueInfo]
    outputs: list[ValueInfo]
    tensors: list[str]
    """The tensors that a batch of a store must have."""
    weights: list[WeightInfo]
    num_parameters: int
    num_nodes: int
    """Number of nodes of the graph."""
    nodes: list[NodeInfo]
    steps: list[StepInfo]
    """Empty if the model has problems."""
    opset: int | None
    domains: list[list[Any]]
    """Name and version of each operator domain."""
    functions: list[str]
    metadata: dict[str, Any]
    problems: list[str]
    """The reasons why the model cannot run; empty if it can."""


class EngineStats(TypedDict):
    """Counters of an engine, as `Engine.stats` returns them."""

    batches: int
    seeds: int
    """Nodes and graphs that requests asked for."""
    distinct_seeds: int
    """The same without repetitions within a request."""
    lists: int
    """Neighbour lists that were sampled from."""
    rows: int
    """Rows of nodes and edges that batches used."""
    rows_prepared: int
    """The part of `rows` that was prepared in memory."""
    rows_in_place: int
    """The part of `rows_prepared` that the model read without a copy."""
    sample_seconds: float
    """Sampling time, summed over the threads that sent requests."""
    gather_seconds: float
    """Time of reading and copying rows, summed over the threads that sent requests."""
    run_seconds: float
    """Time of the model, summed over the threads that sent requests."""


class PassPlan(TypedDict):
    """One pass of an inference over the nodes of a type."""

    node_type: str
    num_nodes: int
    tables: list[list[Any]]
    """Name and row width of each table that the pass computes."""
    scans: int
    """Number of scans over the lists of each block."""
    blocks: int
    """Number of node blocks. Each block reads the tables of its scans once."""
    block_rows: int
    """Nodes of a block."""
    scanned_bytes: int
    """Bytes of the tables that one block reads."""
    own_bytes: int
    """Bytes of the nodes' own rows, for all nodes together."""
    read_bytes: int
    """`blocks` * `scanned_bytes` + `own_bytes`."""
    write_bytes: int
    """Bytes of the tables that the pass writes."""
    memory_bytes: int
    chunk_rows: int
    """Sources whose rows are read together."""
    lists_bytes: int
    """Bytes of the lists of a block."""


class InferencePlan(TypedDict):
    """The passes of an inference, as `Inference.plan` returns them."""

    passes: list[PassPlan]
    """In the order in which they run."""
    hops: int
    """Number of hops of the model."""
    limit_bytes: int
    """The memory budget."""
