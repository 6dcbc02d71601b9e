"""Arguments of PyG's and torch's loaders that neargraph does not support, each with a remedy.

Values that change nothing are accepted, so that code written for PyG runs unchanged.
"""

from typing import Any

from neargraph.exceptions import UnsupportedArgument

# name -> (values that change nothing, remedy for all others).
_ARGUMENTS: dict[str, tuple[tuple[Any, ...], str]] = {
    "is_sorted": (
        (True, False),
        ("neighbour lists always have the order of the store; give True or False"),
    ),
    "filter_per_worker": ((None, True, False), "give True, False or None"),
    "neighbor_sampler": ((None,), "give the sampler to torch_geometric.loader.NeighborLoader"),
    "transform_sampler_output": ((None,), "use transform=, which is applied to the whole batch"),
    "custom_cls": ((None,), "use transform= to convert the batch to another class"),
    "generator": ((None,), "the order of seeds depends on seed=; give seed= instead"),
    "sampler": ((None,), "the order of seeds depends on seed=; {seeds}"),
    "batch_sampler": ((None,), "the order of seeds depends on seed=; {seeds}"),
    "collate_fn": ((None,), "use transform="),
    "dataset": ((None,), "give the store as data="),
    "in_order": ((True,), "batches always come in order; leave out in_order="),
    "pin_memory_device": (("",), "use device="),
}


# The argument for seeds. Other loaders make their batches of all nodes.
_SEEDS = {
    "NeighborLoader": "input_nodes",
    "HGTLoader": "input_nodes",
    "PinSAGELoader": "input_nodes",
    "LinkNeighborLoader": "edge_label_index",
    "ShaDowKHopSampler": "node_idx",
    "GraphLoader": "graphs",
}


def refuse_unsupported(given: dict[str, Any], loader: str = "NeighborLoader") -> None:
    """Checks the keyword arguments that a loader does not have itself.

    Raises:
        UnsupportedArgument: An argument of PyG or torch is not supported with this value.
        TypeError: An argument does not exist.
    """
    for name, value in given.items():
        if name not in _ARGUMENTS:
            raise TypeError(f"{loader} got an unexpected keyword argument {name!r}")
        harmless, instead = _ARGUMENTS[name]
        plain = getattr(value, "value", value)
        if not any(plain is h or _equal(plain, h) for h in harmless):
            named = _SEEDS.get(loader)
            seeds = (
                "leave it out"
                if named is None
                else (f"give the seeds in the order that you need as {named}=")
            )
            raise UnsupportedArgument(
                f"{name}={value!r} is not supported: {instead.format(seeds=seeds)}"
            )


def _equal(value: Any, harmless: Any) -> bool:
    return type(value) is type(harmless) and bool(value == harmless)
