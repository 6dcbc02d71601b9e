"""The types of what loaders report: how they read, and how long their stages worked and waited.

What must not live here: code. The keys are those of the compiled core.
"""

from typing import Literal, TypedDict

RowWay = Literal[
    "auto", "on_demand", "window", "scan", "distribute", "naive-uring", "naive-uring+sieve"
]
"""The ways of reading rows, with the two baselines of benchmarks."""
StageName = Literal["load", "sample", "read", "gather"]
"""The stages that run in threads of the store."""


class ReadingPlan(TypedDict):
    """How look-ahead reads rows, and what it expects.

    Attributes:
        reading: The way of reading.
        window: Number of batches to look ahead.
        phases: 2 if batches are sampled ahead and the memory of the topology then holds rows;
            else 1.
        sampled_first: With two phases, the maximum number of batches to sample ahead; else None.
        hot_rows: Rows that stay in memory all the time.
        slots: Rows that memory has room for, including hot rows.
        slot_bytes: Bytes of these rows.
        reads_per_batch: Expected requests to the disk per batch.
        read_bytes_per_batch: Expected bytes read per batch.
        write_bytes_per_batch: Expected bytes written per batch, to temporary files.
        device_s_per_batch: Expected time of the disk per batch, in seconds.
    """

    reading: RowWay
    window: int
    phases: Literal[1, 2]
    sampled_first: int | None
    hot_rows: int
    slots: int
    slot_bytes: int
    reads_per_batch: float
    read_bytes_per_batch: float
    write_bytes_per_batch: float
    device_s_per_batch: float


class ReplayPlan(TypedDict):
    """The memory of a replay of compiled epochs.

    Attributes:
        reading: ``"compiled"``.
        epochs: Number of compiled epochs, which take turns.
        hot_bytes: Hot rows, and the maps from nodes to them.
        whole_bytes: Tensors that are in memory as a whole.
        record_bytes: One record of a file.
        buffer_bytes: Rows of batches that are being made or belong to the consumer.
        other_bytes: Subgraphs, narrow columns, staging, and a reserve.
        bytes: The sum of all.
    """

    reading: Literal["compiled"]
    epochs: int
    hot_bytes: int
    whole_bytes: int
    record_bytes: int
    buffer_bytes: int
    other_bytes: int
    bytes: int


class Stages(TypedDict):
    """Seconds that each stage of a loader has worked, and that its consumer has waited.

    Attributes:
        load: Reading topologies into memory.
        sample: Sampling.
        read: Reading rows, or records of compiled epochs, ahead of their batches.
        gather: Copying rows into batches. Without look-ahead it also reads them.
        copy: Copying batches to pinned memory or to a device.
        wait: Time in which the training loop had no batch: `Waits.consumer`, and converting the
            batch to PyG's object, with ``transform``.
    """

    load: float
    sample: float
    read: float
    gather: float
    copy: float
    wait: float


class Waits(TypedDict):
    """Seconds that the stages of a loader have waited, by cause.

    Attributes:
        sample_for_demand: Sampling waited until more samples were needed.
        plan_for_samples: The planner waited for sampled batches.
        plan_for_reader: The planner waited because the reader had enough work.
        plan_for_slots: The planner waited for slots.
        read_for_plans: The reader waited for plans, or for memory.
        gather_for_rows: Gathering waited for rows, or for the consumer.
        gather_for_buffers: Gathering waited for a buffer that the consumer held.
        consumer: The consumer waited for a batch.
    """

    sample_for_demand: float
    plan_for_samples: float
    plan_for_reader: float
    plan_for_slots: float
    read_for_plans: float
    gather_for_rows: float
    gather_for_buffers: float
    consumer: float
