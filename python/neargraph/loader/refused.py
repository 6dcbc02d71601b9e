"""Arguments of PyG's and torch's loaders that neargraph does not take, each with what to do.

Values that ask for what happens anyway are accepted, so that PyG code runs unchanged.
"""

from typing import Any

from neargraph.exceptions import UnsupportedArgument

# name -> (values that change nothing, what to do instead).
_ARGUMENTS: dict[str, tuple[tuple[Any, ...], str]] = {
    "is_sorted": ((True, False), "lists are sorted as the store keeps them; give True or False"),
    "filter_per_worker": ((None, True, False), "give True, False or None"),
    "neighbor_sampler": ((None,), "give it to torch_geometric.loader.NeighborLoader instead"),
    "transform_sampler_output": ((None,), "use transform=, which gets the whole batch"),
    "custom_cls": ((None,), "use transform= to build another class"),
    "generator": ((None,), "the order of seeds is keyed by seed=; give that"),
    "sampler": ((None,), "the order of seeds is keyed by seed=; {seeds}"),
    "batch_sampler": ((None,), "the order of seeds is keyed by seed=; {seeds}"),
    "collate_fn": ((None,), "use transform="),
    "dataset": ((None,), "give the store as data"),
    "in_order": ((True,), "batches come in order"),
    "pin_memory_device": (("",), "give device="),
}


# Where seeds are given; other loaders make their batches of all nodes.
_SEEDS = {
    "NeighborLoader": "input_nodes",
    "HGTLoader": "input_nodes",
    "PinSAGELoader": "input_nodes",
    "LinkNeighborLoader": "edge_label_index",
    "ShaDowKHopSampler": "node_idx",
    "GraphLoader": "graphs",
}


def refuse_unsupported(given: dict[str, Any], loader: str = "NeighborLoader") -> None:
    """Checks the remaining keyword arguments of a loader.

    Raises:
        UnsupportedArgument: A known argument asks for something that is not there.
        TypeError: No loader has such an argument.
    """
    for name, value in given.items():
        if name not in _ARGUMENTS:
            raise TypeError(f"{loader} got an unexpected keyword argument {name!r}")
        harmless, instead = _ARGUMENTS[name]
        plain = getattr(value, "value", value)
        if not any(plain is h or _equal(plain, h) for h in harmless):
            named = _SEEDS.get(loader)
            seeds = "leave it out" if named is None else f"give them in {named}= in their order"
            raise UnsupportedArgument(
                f"{name}={value!r} is not supported: {instead.format(seeds=seeds)}"
            )


def _equal(value: Any, harmless: Any) -> bool:
    return type(value) is type(harmless) and bool(value == harmless)
