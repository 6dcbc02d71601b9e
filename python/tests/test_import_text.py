"""Text edge lists: delimiters, headers, columns, comments, .gz, string ids."""

import gzip

import numpy as np
import pytest
from realdata import PLAIN, Raw, RawEdges, check_store

import neargraph as ng
from neargraph.importers import TextHints, import_graph, parse_columns, plan_source

RNG = np.random.default_rng(11)
SOURCES, DESTINATIONS = RNG.integers(0, 500, (2, 3000))
WEIGHTS = RNG.random(3000).astype(np.float32)
TIMES = RNG.integers(0, 10**9, 3000)


def lines(*columns, joint):
    return "".join(joint.join(str(v) for v in row) + "\n" for row in zip(*columns, strict=True))


def expected(**columns):
    count = int(max(SOURCES.max(), DESTINATIONS.max())) + 1
    return Raw({"node": count}, {}, {PLAIN: RawEdges(SOURCES, DESTINATIONS, **columns)})


@pytest.mark.parametrize("joint", ["\t", " ", ",", ";"])
@pytest.mark.parametrize("packed", [False, True])
def test_snap_and_csv_files_are_read_as_they_stand(joint, packed, tmp_path):
    text = "# a SNAP file\n# FromNodeId ToNodeId\n" + lines(SOURCES, DESTINATIONS, joint=joint)
    source = tmp_path / ("g.txt.gz" if packed else "g.txt")
    source.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    import_graph(source, tmp_path / "g.ng")
    check_store(tmp_path / "g.ng", expected())


def test_a_header_names_the_columns(tmp_path):
    text = "weight,dst,time,src\n" + lines(WEIGHTS, DESTINATIONS, TIMES, SOURCES, joint=",")
    (tmp_path / "g.csv").write_text(text)
    import_graph(tmp_path / "g.csv", tmp_path / "g.ng")
    check_store(tmp_path / "g.ng", expected(times=TIMES, weights=WEIGHTS))


def test_columns_are_chosen_by_number_or_name(tmp_path):
    text = "a,b,c\n" + lines(DESTINATIONS, TIMES, SOURCES, joint=",")
    (tmp_path / "g.csv").write_text(text)
    hints = TextHints(columns=parse_columns("src=2,dst=a,time=b"))
    import_graph(tmp_path / "g.csv", tmp_path / "g.ng", hints=hints)
    check_store(tmp_path / "g.ng", expected(times=TIMES))


def test_string_ids_come_back_as_strings(tmp_path):
    names = [f"user {k}/ä" for k in range(500)]
    text = lines([names[k] for k in SOURCES], [names[k] for k in DESTINATIONS], joint=",")
    (tmp_path / "g.csv").write_text(text)
    import_graph(tmp_path / "g.csv", tmp_path / "g.ng", hints=TextHints(strings=True))
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        used = sorted({*SOURCES.tolist(), *DESTINATIONS.tolist()})
        ids = store.lookup([names[k] for k in used])
        assert sorted(ids) == list(range(len(used)))
        got = store.snapshot().neighbors(None, ids)
        for at, node in enumerate(used):
            part = got.indices[got.indptr[at] : got.indptr[at + 1]]
            wanted = sorted(names[k] for k in SOURCES[np.equal(DESTINATIONS, node)])
            assert sorted(store.names(part)) == wanted


def test_the_same_lines_give_the_same_bytes_whatever_memory_and_threads(tmp_path):
    (tmp_path / "g.txt").write_text(lines(SOURCES, DESTINATIONS, joint="\t"))
    prints = set()
    for k, (memory, threads) in enumerate([("64MB", 1), ("1GB", 2), (None, None)]):
        report = import_graph(
            tmp_path / "g.txt", tmp_path / f"{k}.ng", memory=memory, threads=threads
        )
        files = sorted((tmp_path / f"{k}.ng").iterdir())
        prints.add(tuple((file.name, file.read_bytes()) for file in files))
        assert report["fingerprint"]
    assert len(prints) == 1


def test_the_estimate_knows_text_before_it_is_read(tmp_path):
    (tmp_path / "g.txt").write_text(lines(SOURCES, DESTINATIONS, joint="\t"))
    guess = plan_source(tmp_path / "g.txt").edges[0].num_edges
    assert 0.9 * len(SOURCES) < guess < 1.1 * len(SOURCES)
