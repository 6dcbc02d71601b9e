"""Headers and zip directories that attack their reader: refused by what is wrong, in one line."""

import struct
import zipfile

import numpy as np
import pytest

import neargraph as ng
from neargraph.cli import main
from neargraph.importers import import_graph


def npy(text, version=1, data=b"\0" * 160):
    header = text.encode("latin1")
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header + data


def pairs(descr="'<i8'", shape="(10, 2)", order="False"):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n"


HEADERS = {
    "open brackets": (npy("(((("), "its header is"),
    "many brackets": (npy("(" * 9000), "its header is"),
    "many signs": (npy(pairs(shape="(" + "-" * 9000 + "1, 2)")), "its header is"),
    "a call": (npy(pairs(shape="(exit(), 2)")), "its header is"),
    "nothing": (npy(""), "its header is"),
    "a zero byte": (npy("\0" * 60), "its header is"),
    "a missing field": (npy("{'descr': '<i8', 'shape': (10, 2)}"), "its header is"),
    "a field twice": (npy(pairs().replace("}", "'shape': (9, 2)}")), "its header is"),
    "another field": (npy(pairs().replace("}", "'a': 1}")), "its header is"),
    "a negative shape": (npy(pairs(shape="(-10, 2)")), "its header is"),
    "a fractional shape": (npy(pairs(shape="(10.5, 2)")), "its header is"),
    "a shape of many digits": (npy(pairs(shape=f"({'9' * 5000}, 2)")), "its header is"),
    "a shape that overflows": (npy(pairs(shape="(4611686018427387904, 2)")), "2^63 bytes or more"),
    "a shape of 64 dimensions": (npy(pairs(shape="(" + "1, " * 64 + ")")), "its header is"),
    "a shape without an end": (npy(pairs(shape="(1099511627776, 2)")), "of data, but shape"),
    "no shape": (npy(pairs(shape="()"), data=b"\0" * 8), "expected"),
    "objects": (npy(pairs("'|O'")), "holds Python objects"),
    "a structured dtype": (npy(pairs("[('a', '<i8')]")), "a structured dtype"),
    "a dtype of text": (npy(pairs("'<U5'"), data=b"\0" * 400), "<U5"),
    "a dtype that is not one": (npy(pairs("'<q9'")), "dtype '<q9'"),
    "a dtype of a gigabyte": (npy(pairs("'<U250000000'")), "of data, but shape"),
    "version 9": (npy(pairs(), version=9), "format version 9.0"),
    "no version": (b"\x93NUMPY", "format version missing"),
    "another beginning": (b"PK\x03\x04 not an array", "wrong magic bytes"),
    "a header without an end": (npy(pairs())[:30], "header is truncated"),
    "a long header": (npy(" " * 100_000, version=2), "header has 100000 bytes"),
    "less data than the shape": (npy(pairs(), data=b"\0" * 90), "of data, but shape"),
    "more data than the shape": (npy(pairs(), data=b"\0" * 990), "of data, but shape"),
    "an empty file": (b"", "wrong magic bytes"),
}
MEMBERS = {"edges": np.array([[0, 1], [1, 0], [1, 1]]), "node_features": np.ones((2, 3))}


def refused(source, out, words, capsys):
    with pytest.raises(ng.ImportFailed) as failed:
        import_graph(source, out)
    assert words in str(failed.value)
    with pytest.raises(SystemExit) as left:
        main(["import", str(source), "--out", str(out)])
    error = capsys.readouterr().err
    assert (left.value.code, error.count("\n"), "Traceback" in error) == (2, 1, False)
    assert str(source) in error
    assert not out.exists()


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_is_refused_by_what_is_wrong(name, tmp_path, capsys):
    content, words = HEADERS[name]
    (tmp_path / "in.npy").write_bytes(content)
    refused(tmp_path / "in.npy", tmp_path / "g.ng", words, capsys)


@pytest.mark.parametrize("name", HEADERS)
def test_so_is_the_header_of_a_member(name, tmp_path, capsys):
    content, words = HEADERS[name]
    np.savez(tmp_path / "in.npz", node_features=MEMBERS["node_features"])
    with zipfile.ZipFile(tmp_path / "in.npz", "a") as file:
        file.writestr("edges.npy", content)
    refused(tmp_path / "in.npz", tmp_path / "g.ng", words, capsys)


@pytest.mark.parametrize(
    "header",
    [
        pairs(),
        pairs(shape="(10L, 2L)"),
        pairs().replace("'", '"'),
        "{'shape':(10,2),'descr':'<i8','fortran_order':False}",
    ],
)
def test_a_header_that_other_writers_make_is_read(header, tmp_path):
    data = np.arange(20, dtype="<i8").tobytes()
    np.savez(tmp_path / "in.npz", node_features=np.ones((20, 3)))
    with zipfile.ZipFile(tmp_path / "in.npz", "a") as file:
        file.writestr("edges.npy", npy(header, data=data))
    import_graph(tmp_path / "in.npz", tmp_path / "g.ng")
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        assert store.num_edges == 10


def rewritten(source, change):
    source.write_bytes(change(source.read_bytes()))
    return source


def encrypted(folder):
    np.savez(folder / "in.npz", **MEMBERS)
    with zipfile.ZipFile(folder / "in.npz") as file:
        at = file.start_dir
    # Bit 0 of the flags of the first member.
    return rewritten(folder / "in.npz", lambda data: data[: at + 8] + b"\1" + data[at + 9 :])


def twice(folder):
    np.savez(folder / "in.npz", **MEMBERS)
    with zipfile.ZipFile(folder / "in.npz", "a") as file, pytest.warns(match="Duplicate"):
        file.writestr("edges.npy", npy(pairs()))
    return folder / "in.npz"


def packed(folder, method):
    with zipfile.ZipFile(folder / "in.npz", "w", method) as file:
        for name, array in MEMBERS.items():
            with file.open(name + ".npy", "w") as stream:
                np.lib.format.write_array(stream, array)
    return folder / "in.npz"


def shortened(folder):
    np.savez(folder / "in.npz", **MEMBERS)
    return rewritten(folder / "in.npz", lambda data: data[20:])


def moved(folder):
    np.savez(folder / "in.npz", **MEMBERS)
    with zipfile.ZipFile(folder / "in.npz") as file:
        at = file.start_dir
    offset = struct.pack("<I", 0x7FFFFFF0)
    return rewritten(folder / "in.npz", lambda data: data[: at + 42] + offset + data[at + 46 :])


ARCHIVES = {
    "encrypted members": (encrypted, "encrypted"),
    "a member twice": (twice, "has several members called 'edges'"),
    "members packed with LZMA": (lambda d: packed(d, zipfile.ZIP_LZMA), "zip method 14"),
    "members packed with bzip2": (lambda d: packed(d, zipfile.ZIP_BZIP2), "zip method 12"),
    "a missing beginning": (shortened, "in.npz"),
    "a member beyond the end": (moved, "cannot be read"),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_is_refused_by_what_is_wrong(name, tmp_path, capsys):
    make, words = ARCHIVES[name]
    refused(make(tmp_path), tmp_path / "g.ng", words, capsys)
