"""G1: no loader shows in its batches how the store is read, and each keeps to its budget.

Every way differs from the base in one thing. Ids stay where rows are put in another order, so
batches do, too; ranges of rows as clusters are the one exception.
"""

import hashlib
import json

import numpy as np
import pytest
from sampled import stores_of
from test_same_batches import back_ends

import neargraph as ng

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
from every_loader import LOADERS, SEED, WALKS, kind_of, seeds_of, write  # noqa: E402

ORDERS = ("heat", "locality")


def arrays_of(name, store, how):
    """All arrays of one pass, each with where it stands."""
    if name in WALKS:
        yield name, WALKS[name](store).sample(seeds_of(store).numpy())
        return
    for number, batch in enumerate(LOADERS[name](store, how)):
        for key, part in stores_of(batch).items():
            for label, value in sorted(part.to_dict().items()):
                yield (number, key, label), value.numpy() if torch.is_tensor(value) else value


def digest(name, path, how=None, **opened):
    """One digest of all that a pass gives, how much of it is rows, and the peak of the budget."""
    hashed, rows = hashlib.blake2b(digest_size=16), 0
    with ng.open(path, **{"memory": "64MB", **opened}) as store:
        for where, value in arrays_of(name, store, how or {}):
            hashed.update(repr(where).encode())
            if isinstance(value, np.ndarray):
                hashed.update(f"{value.dtype}{value.shape}".encode())
                hashed.update(np.ascontiguousarray(value))
                rows += value.nbytes if where[-1] == "x" else 0
            else:
                hashed.update(repr(value).encode())
        return hashed.hexdigest(), rows, store.stats()


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """Stores of both kinds: as they are imported, with large pages, and in two other orders."""
    folder, found = tmp_path_factory.mktemp("same"), {}
    for kind in ("plain", "typed"):
        found[kind, "64 KiB"] = write(kind, 600, 24, folder / f"{kind}-64.ng", 65536)
        for order in ("ids", *ORDERS):
            path = found[kind, order] = write(kind, 600, 24, folder / f"{kind}-{order}.ng")
            if order != "ids":
                with ng.open(path, memory="64MB") as store:
                    seeds = "item" if kind == "typed" else None
                    store.reorganize(order, input_nodes=seeds, num_neighbors=[4], batch_size=20)
    return found


def ways(name, path):
    """(store, how it is opened, options of the loader) by what differs from the base."""
    found = {f"backend={b}": ("ids", {"backend": b}, {}) for b in back_ends(path)}
    found |= {f"memory={m}": ("ids", {"memory": m}, {}) for m in ("16MB", "200MB")}
    found["pages of 64 KiB"] = "64 KiB", {}, {}
    if name != "clusters":
        found |= {f"rows by {order}": (order, {}, {}) for order in ORDERS}
    if name not in WALKS:
        found |= {f"threads={n}": ("ids", {}, {"reading": ng.Reading(threads=n)}) for n in (1, 4)}
        readings = ("on_demand", "scan", "window", "distribute")
        found |= {f"reading={r}": ("ids", {}, {"reading": r}) for r in readings}
    return found


@pytest.mark.reliability
@pytest.mark.parametrize("name", [*LOADERS, *WALKS])
def test_the_batches_of_a_loader_do_not_show_how_they_were_read(paths, tmp_path, name):
    kind = kind_of(name)
    expected, rows, _ = digest(name, paths[kind, "ids"])
    assert rows > 0 or name in WALKS
    different = [
        way
        for way, (store, opened, how) in ways(name, tmp_path).items()
        if digest(name, paths[kind, store], how, **opened)[0] != expected
    ]
    figure = {"id": "G1", "what": name, "tried": len(ways(name, tmp_path)) + 1}
    figure |= {"failed": len(different), "seed": SEED}
    print(f"figure: {json.dumps(figure)}")
    assert not different
    if name == "clusters":
        # Ranges of rows have other nodes, so the orders of rows that are compared here do differ.
        assert all(digest(name, paths[kind, order])[0] != expected for order in ORDERS)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Stores of both kinds with 32 MB of rows."""
    folder = tmp_path_factory.mktemp("large")
    return {
        kind: write(kind, count, 800, folder / f"{kind}.ng")
        for kind, count in (("plain", 10_000), ("typed", 5000))
    }


@pytest.mark.filterwarnings("ignore:rows are read batch by batch")
@pytest.mark.parametrize("name", [*LOADERS, *WALKS])
def test_rows_that_do_not_fit_are_read_within_the_budget(large, name):
    found, rows, stats = digest(name, large[kind_of(name)], memory="16MB")
    assert 0 < stats["budget_peak"] <= stats["budget_limit"] == 16_000_000
    assert rows > 16_000_000 or name in WALKS
    assert found == digest(name, large[kind_of(name)], memory="200MB", backend="memory")[0]
