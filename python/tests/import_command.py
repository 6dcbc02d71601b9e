"""Running `neargraph import` as a program, and reading back what it stored."""

import subprocess
import sys

import neargraph as ng

FULL_DISK = "mount -t tmpfs -o size={size} none {folder} && exec {command}"


def import_command(*arguments, given=b"", expected=0):
    """(stdout, stderr) of `neargraph import`, which gets ``given`` as standard input."""
    command = [sys.executable, "-m", "neargraph", "import", *map(str, arguments)]
    done = subprocess.run(command, input=given, capture_output=True, check=False)
    assert done.returncode == expected, done.stderr.decode()
    return done.stdout.decode(), done.stderr.decode()


def refused(*arguments, given=b""):
    """What an import that fails says: one line."""
    said = import_command(*arguments, given=given, expected=2)[1]
    assert said.count("\n") == 1, said
    return said


def edges_of(path, triple=None):
    """Edges as the input called them, (source, destination, time, weight) in the order of ids.

    Of stores with edge ids, whose nodes may have names.
    """
    with ng.open(path, memory="64MB") as store:
        names = store.edge_types[0] if triple is None else triple
        snapshot = store.snapshot()

        def called(kind, ids):
            owner = store.schema.node_type(kind)
            return (
                snapshot.names(ids, kind) if owner.has_dictionary else [int(node) for node in ids]
            )

        count = store.schema.node_type(names[2]).num_nodes
        found = snapshot.neighbors(names, list(range(count)))
        rows = []
        for node, (start, end) in enumerate(zip(found.indptr, found.indptr[1:], strict=False)):
            for at in range(start, end):
                ends = called(names[0], found.indices[at : at + 1]) + called(names[2], [node])
                time = None if found.times is None else int(found.times[at])
                weight = None if found.weights is None else float(found.weights[at])
                rows.append((int(found.edge_ids[at]), (*ends, time, weight)))
        return [row for _, row in sorted(rows)]
