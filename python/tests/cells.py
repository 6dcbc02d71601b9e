"""The cells of Y1: what users do to a store with processes, threads, signals and exits.

Run as ``python cells.py STORE PART PARTS [CELL ...]``: it imports torch once, then runs every
PARTS-th cell in a forked child with a timeout and prints one JSON line per cell. A cell passes if
its child exits with 0; it must give the reference batches where it reads at all. The runner never
opens a store itself, so that each child starts from a clean process.
"""

import contextlib
import faulthandler
import gc
import hashlib
import json
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback

import numpy as np
import torch
from torch_geometric.loader import NodeLoader

import neargraph as ng

TIMEOUT_S = 180
CELLS = {}


def cell(name):
    def register(function):
        CELLS[name] = function
        return function

    return register


def loader_of(store, **options):
    return ng.NeighborLoader(
        store, [4, 3], input_nodes="train", batch_size=16, shuffle=True, seed=3, **options
    )


def pyg_loader_of(store, **options):
    sampler = store.sampler([4, 3], seed=3)
    sampler.set_epoch(0)
    seeds = torch.from_numpy(store.split("train"))
    return NodeLoader(store, sampler, input_nodes=seeds, batch_size=16, **options)


def digest(batches):
    """One digest over ids, edges and features of all batches."""
    hashed = hashlib.blake2b(digest_size=16)
    for batch in batches:
        for tensor in (batch.n_id, batch.edge_index, batch.e_id, batch.x, batch.y):
            hashed.update(np.ascontiguousarray(tensor.numpy()).tobytes())
    return hashed.hexdigest()


def opened(path):
    return ng.open(path, memory="64MB")


def reference(path, make=loader_of):
    """The digest of a fresh store in this process, without workers."""
    with opened(path) as store:
        return digest(make(store))


def in_child(target, *arguments, method="fork"):
    """Runs `target` in a process of its own and fails if that fails."""
    process = multiprocessing.get_context(method).Process(target=target, args=arguments)
    process.start()
    process.join(TIMEOUT_S / 2)
    assert process.exitcode == 0, f"the child ended with {process.exitcode}"


def expect_digest(store, expected):
    assert digest(loader_of(store)) == expected


def expect_digest_of_fork(expected):
    """Forks by hand; the child leaves through a normal interpreter exit."""

    def fork(store):
        child = os.fork()
        if child == 0:
            expect_digest(store, expected)
            sys.exit(0)
        _, status = os.waitpid(child, 0)
        assert status == 0, f"the child ended with {status}"

    return fork


def register_worker_cells():
    makers = {"loader": loader_of, "pyg": pyg_loader_of}
    mixes = [(name, how, n) for name in makers for how in ("fork", "spawn") for n in (1, 2)]
    for name, method, workers in [*mixes, ("loader", "forkserver", 2)]:

        def run(path, make=makers[name], method=method, workers=workers):
            expected = reference(path, make)
            with opened(path) as store:
                _ = store.labels  # The parent has used its handle before it forks.
                loader = make(store, num_workers=workers, multiprocessing_context=method)
                assert digest(loader) == expected

        CELLS[f"{name}, {workers} workers by {method}"] = run


register_worker_cells()


@cell("loader, persistent workers over epochs")
def persistent(path):
    with opened(path) as store:
        plain = loader_of(store)
        kept = loader_of(
            store, num_workers=2, persistent_workers=True, multiprocessing_context="fork"
        )
        for _ in range(3):
            assert digest(kept) == digest(plain)


@cell("loader, abandoned with workers")
def abandoned(path):
    with opened(path) as store:
        for _ in range(3):
            batches = iter(loader_of(store, num_workers=2, multiprocessing_context="fork"))
            next(batches)
            del batches


@cell("loader, no workers")
def no_workers(path):
    with opened(path) as store:
        assert digest(loader_of(store, num_workers=0)) == reference(path)


@cell("pyg, no workers")
def pyg_no_workers(path):
    with opened(path) as store:
        assert digest(pyg_loader_of(store)) == reference(path, pyg_loader_of)


def run_threads(count, body):
    errors = []

    def guarded():
        try:
            body()
        except BaseException:
            errors.append(traceback.format_exc())

    threads = [threading.Thread(target=guarded) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors[0]


@cell("threads on one store")
def threads(path):
    expected = reference(path)
    with opened(path) as store:
        run_threads(4, lambda: expect_digest(store, expected))


@cell("threads on one store, one sampler")
def threads_on_one_sampler(path):
    with opened(path) as store:
        sampler = ng.NumpySampler(store, [4, 3])
        expected = sampler.sample(range(30)).nodes().tolist()

        def body():
            for _ in range(20):
                assert sampler.sample(range(30)).nodes().tolist() == expected

        run_threads(4, body)


@cell("fork workers while threads iterate")
def fork_beside_threads(path):
    expected = reference(path)
    with opened(path) as store:

        def body():
            loader = loader_of(store, num_workers=1, multiprocessing_context="fork")
            assert digest(loader_of(store)) == digest(loader) == expected

        run_threads(2, body)


@cell("store sent to a forked process")
def sent_by_fork(path):
    expected = reference(path)
    with opened(path) as store:
        in_child(expect_digest, store, expected, method="fork")
        expect_digest(store, expected)


@cell("store sent to a spawned process")
def sent_by_spawn(path):
    expected = reference(path)
    with opened(path) as store:
        in_child(expect_digest, store, expected, method="spawn")


@cell("bare fork with interpreter exit, store unused before")
def bare_fork(path):
    expected = reference(path)
    with opened(path) as store:
        expect_digest_of_fork(expected)(store)
        expect_digest(store, expected)


@cell("bare fork with interpreter exit in the midst of a pass")
def fork_in_the_midst(path):
    expected = reference(path)
    with opened(path) as store:
        batches = iter(loader_of(store))
        held = next(batches)
        expect_digest_of_fork(expected)(store)
        assert held.x.isfinite().all()
        assert len(list(batches)) > 0


@cell("fork of a fork")
def fork_of_a_fork(path):
    expected = reference(path)
    with opened(path) as store:
        in_child(lambda: in_child(expect_digest, store, expected))


@cell("many forks while a thread reads")
def many_forks(path):
    with opened(path) as store:
        stop = threading.Event()

        def read():
            while not stop.is_set():
                digest(loader_of(store))

        thread = threading.Thread(target=read)
        thread.start()
        try:
            for _ in range(20):
                in_child(lambda: store.snapshot().features(None, [1, 2, 3]))
        finally:
            stop.set()
            thread.join()


@cell("a worker takes its share of the memory")
def shares(path):
    with opened(path) as store:
        loader = loader_of(
            store,
            num_workers=2,
            multiprocessing_context="fork",
            transform=lambda batch: store.core.memory_bytes,
        )
        assert set(loader) == {64_000_000 // 3}


@cell("an error in a worker reaches the caller")
def error_in_worker(path):
    with opened(path) as store:
        loader = loader_of(store, num_workers=1, transform=lambda batch: 1 / 0)
        try:
            list(loader)
        except ZeroDivisionError:
            return
        raise AssertionError("the error was lost")


@cell("tensors outlive the store")
def tensors_outlive(path):
    store = opened(path)
    batches = list(loader_of(store))
    before = digest(batches)
    arrays = store.snapshot().features(None, range(100)), store.labels
    copies = [a.copy() for a in arrays]
    store.close()
    del store
    gc.collect()
    churn = [np.random.default_rng(0).random(100_000) for _ in range(50)]
    assert digest(batches) == before
    assert all(np.array_equal(a, b) for a, b in zip(arrays, copies, strict=True))
    del churn


@cell("tensors outlive their batch across threads")
def tensors_in_threads(path):
    with opened(path) as store:
        xs = [(b.x, b.x.clone()) for b in loader_of(store)]
        gc.collect()
        run_threads(4, lambda: [x.sum() for x, _ in xs])
        assert all(torch.equal(x, copy) for x, copy in xs)
        threading.Thread(target=xs.clear).start()


@cell("close in the midst of a pass")
def close_in_the_midst(path):
    store = opened(path)
    batches = iter(loader_of(store, reading=ng.Reading(prefetch=2)))
    next(batches)
    store.close()
    with contextlib.suppress(ng.StoreClosed):
        for _ in batches:
            pass
    try:
        list(loader_of(store))
    except ng.StoreClosed:
        return
    raise AssertionError("a closed store gave batches")


@cell("close by another thread while reading")
def close_by_thread(path):
    for delay in (0.0, 0.001, 0.01, 0.05):
        store = opened(path)
        timer = threading.Timer(delay, store.close)
        timer.start()
        try:
            for _ in range(50):
                digest(loader_of(store))
        except ng.StoreClosed:
            pass
        else:
            assert not store.closed
        timer.join()
        store.close()


@cell("pickles of store, sampler and loader source")
def pickles(path):
    with opened(path) as store:
        sampler = ng.NumpySampler(store, [4, 3], seed=3)
        for thing in (store, sampler, store.sampler([4, 3]), store.feature_store):
            twin = pickle.loads(pickle.dumps(thing))
            assert type(twin) is type(thing)
        twin = pickle.loads(pickle.dumps(sampler))
        assert np.array_equal(twin.sample([1]).nodes(), sampler.sample([1]).nodes())


@cell("interpreter exit in the midst of a pass")
def exit_in_the_midst(path):
    store = opened(path)
    globals()["kept"] = (store, iter(loader_of(store, reading=ng.Reading(prefetch=4))))
    next(globals()["kept"][1])
    sys.exit(0)


@cell("iterator dropped at once, many times")
def dropped_iterators(path):
    with opened(path) as store:
        for _ in range(100):
            next(iter(loader_of(store, reading=ng.Reading(prefetch=4))))


def interrupted(run):
    """Runs `run` for ever, sends Ctrl-C as a user does, and says whether one arrived.

    One is not enough: Python drops a KeyboardInterrupt that falls into a destructor, and one that
    falls into the entry of a `with` leaves its lock held, so that the destructor of a `DataLoader`
    waits for it until the next. So they go on until all that `run` made is gone.
    """
    stop, caught = threading.Event(), []

    def send():
        while not stop.wait(0.2):
            os.kill(os.getpid(), signal.SIGINT)

    sender = threading.Thread(target=send)
    deadline = time.monotonic() + TIMEOUT_S / 6
    try:
        try:
            sender.start()
            while time.monotonic() < deadline:
                run()
        except KeyboardInterrupt:
            caught.append("in a pass")
    except KeyboardInterrupt:
        caught.append("while the pass was taken apart")
    while sender.is_alive():
        with contextlib.suppress(KeyboardInterrupt):
            stop.set()
            sender.join()
    return bool(caught)


def interrupt(path, **options):
    """Ctrl-C again and again in the midst of passes; the store must work afterwards."""
    expected = reference(path)
    with opened(path) as store:
        for _ in range(5):
            loader = loader_of(store, **options)
            assert interrupted(lambda loader=loader: list(loader)), "no interrupt arrived"
        expect_digest(store, expected)


@cell("Ctrl-C in the midst of passes")
def interrupt_plain(path):
    interrupt(path)


@cell("Ctrl-C with one batch of prefetch and one thread")
def interrupt_narrow(path):
    interrupt(path, reading=ng.Reading(prefetch=1, threads=1))


@cell("Ctrl-C with workers")
def interrupt_workers(path):
    interrupt(path, num_workers=1, multiprocessing_context="fork")


def end_group(child, hung):
    """Has every process of a cell say where it is, and ends them: they hold the pipe open."""
    hung.set()
    for sign, seconds in ((signal.SIGUSR1, 5), (signal.SIGKILL, 0)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, sign)
        time.sleep(seconds)


def run_cell(name, path):
    """Runs one cell in a forked child: ok, crash or hang, with what it printed on failure."""
    reader, writer = os.pipe()
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.close(reader)
        os.dup2(writer, 2)
        faulthandler.register(signal.SIGUSR1)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            CELLS[name](path)
        except SystemExit:
            raise
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        sys.exit(0)
    os.close(writer)
    hung = threading.Event()
    killer = threading.Timer(TIMEOUT_S, end_group, (child, hung))
    killer.start()
    with os.fdopen(reader, errors="replace") as output:
        text = output.read()
    killer.cancel()
    _, status = os.waitpid(child, 0)
    result = "hang" if hung.is_set() else "ok" if status == 0 else "crash"
    seconds = round(time.monotonic() - start, 1)
    detail = "" if result == "ok" else text[-20_000:]
    return {"cell": name, "result": result, "seconds": seconds, "detail": detail}


def main():
    path, part, parts = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    for name in sys.argv[4:] or list(CELLS)[part::parts]:
        print(json.dumps(run_cell(name, path)), flush=True)


if __name__ == "__main__":
    main()
