"""Encodings of text: what is read, byte order marks, and a wrong one by line and byte."""

import codecs
import gzip
import io

import pytest
from import_command import edges_of, import_command, refused

import neargraph as ng
from neargraph.importers import TextHints, import_graph
from neargraph.importers.encodings import decoded, known_encoding

EDGES = [("Zürich", "Øresund"), ("Øresund", "łódź"), ("naïve", "Zürich")]
LATIN = [("Zürich", "Øresund"), ("Øresund", "naïve")]


def text(edges):
    return "src,dst\n" + "".join(f"{source},{destination}\n" for source, destination in edges)


def stored(path):
    return [row[:2] for row in edges_of(path)]


def imported(source, out, encoding):
    hints = TextHints(strings=True, encoding=encoding)
    return import_graph(source, out, hints=hints, edge_ids=True)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("encoding", "edges"),
    [
        ("utf-8", EDGES),
        ("utf-8-sig", EDGES),
        ("utf-16", EDGES),
        ("utf-16-le", EDGES),
        ("utf-32", EDGES),
        ("cp1250", [("łódź", "Gdańsk")]),
        ("latin-1", LATIN),
        ("cp1252", LATIN),
        ("gb18030", [("北京", "上海")]),
    ],
)
def test_names_are_read_in_the_encoding_that_is_named(encoding, edges, packed, tmp_path):
    content = text(edges).encode(encoding)
    source = tmp_path / "in.csv"
    source.write_bytes(gzip.compress(content) if packed else content)
    imported(source, tmp_path / "g.ng", encoding)
    assert stored(tmp_path / "g.ng") == edges
    assert sorted(path.name for path in tmp_path.iterdir()) == ["g.ng", "in.csv"]


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path):
    for name, encoding in (("a", "utf-8-sig"), ("b", "utf-16")):
        (tmp_path / name).write_bytes("zoe,adam\n".encode(encoding))
        imported(tmp_path / name, tmp_path / f"{name}.ng", encoding)
        assert stored(tmp_path / f"{name}.ng") == [("zoe", "adam")]


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path):
    content = codecs.BOM_UTF16_LE + "dst,src\nzoe,adam\n".encode("utf-16-le")
    (tmp_path / "in.csv").write_bytes(content)
    imported(tmp_path / "in.csv", tmp_path / "g.ng", "utf-16-le")
    assert stored(tmp_path / "g.ng") == [("adam", "zoe")]


def test_a_stream_is_converted_too(tmp_path):
    given = text(LATIN).encode("latin-1")
    options = ["--strings", "--encoding", "latin-1", "--edge-ids", "--out", tmp_path / "g.ng"]
    import_command("-", *options, given=given)
    assert stored(tmp_path / "g.ng") == LATIN


def test_several_files_are_converted_one_after_the_other(tmp_path):
    for number, edge in enumerate(LATIN):
        (tmp_path / f"{number}.csv").write_bytes(text([edge]).encode("latin-1"))
    imported(str(tmp_path / "*.csv"), tmp_path / "g.ng", "latin-1")
    assert stored(tmp_path / "g.ng") == LATIN


def test_a_preview_is_in_the_encoding(tmp_path):
    (tmp_path / "in.csv").write_bytes(text(LATIN).encode("latin-1"))
    options = ["--strings", "--encoding", "latin-1", "--out", tmp_path / "g.ng", "--dry-run"]
    assert "Zürich" in import_command(tmp_path / "in.csv", *options)[0]


LONG = "a,b\n" * 300_000
WRONG = {
    "latin-1 as UTF-8": (b"a,b\ncaf\xe9,b\n", None, r"in\.csv, line 2: byte 4 of the line, 0xE9"),
    "a second name": (b"a,b\nb,caf\xe9\n", None, r"line 2: byte 6 of the line, 0xE9, is not valid"),
    "a hole in cp1252": (b"a,b\nb,\x81\n", "cp1252", r"line 2: byte 7 of the text, 0x81"),
    "far behind": (
        LONG.encode() + b"x,\x81\n",
        "cp1252",
        r"line 300001: byte 1200003 of the text, 0x81, is not valid cp1252; check the encoding",
    ),
    "half a character": (b"a,b\nb,\xe5", "gb18030", r"line 2: byte 7 of the text, 0xE5"),
    "half a unit": ("a,b\n".encode("utf-16-le") + b"x", "utf-16-le", r"line 2: byte 9 of the"),
    "UTF-16 as UTF-8": (text(EDGES).encode("utf-16"), None, "byte order mark of utf-16"),
    "UTF-8 as latin-1": (
        text(EDGES).encode("utf-8-sig"),
        "latin-1",
        "byte order mark of utf-8, but is read as",
    ),
    "UTF-16 without a mark": (
        text(EDGES).encode("utf-16-be"),
        "utf-16",
        r'utf-16-le \(little-endian\) or utf-16-be.*encoding="utf-16-le"',
    ),
    "UTF-16 unsaid": (text(EDGES).encode("utf-16-be"), None, "is binary, not text"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_encoding_is_named_by_line_and_byte(case, tmp_path):
    content, encoding, message = WRONG[case]
    (tmp_path / "in.csv").write_bytes(content)
    with pytest.raises(ng.ImportFailed, match=message):
        imported(tmp_path / "in.csv", tmp_path / "g.ng", encoding)
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


def test_the_command_line_names_its_own_option(tmp_path):
    (tmp_path / "in.csv").write_bytes(b"caf\xe9,b\n")
    said = refused(tmp_path / "in.csv", "--strings", "--out", tmp_path / "g.ng")
    assert "name the encoding of the text with --encoding, e.g. latin-1" in said


@pytest.mark.parametrize("name", ["latin-11", "rot13", "base64", "", "undefined", "a\0b"])
def test_what_is_not_an_encoding_of_text_is_refused(name):
    with pytest.raises(ValueError, match="is not a valid encoding, expected one"):
        TextHints(encoding=name)


@pytest.mark.parametrize("name", ["utf-8", "UTF8", "utf_8_sig", "ascii", "us-ascii", None])
def test_utf_8_needs_no_conversion(name):
    assert known_encoding(name) is None


@pytest.mark.parametrize("encoding", ["utf-16", "gb18030", "shift_jis", "utf-7", "cp1252"])
def test_text_is_decoded_alike_in_pieces_of_any_size(encoding, monkeypatch):
    whole = "a,b\n" + "x,é\n".replace("é", "e" if encoding == "shift_jis" else "é") * 50
    content = whole.encode(encoding)
    for size in (1, 2, 3, 7, 1000):
        monkeypatch.setattr("neargraph.importers.encodings._CHUNK_BYTES", max(4, size))
        pieces = decoded(io.BytesIO(content), encoding, "in")
        assert "".join(pieces) == whole


def test_a_table_is_read_in_its_encoding(tmp_path):
    pytest.importorskip("pyarrow")
    content = "src,dst\n" + "".join(f"{a},{b}\n" for a, b in LATIN)
    (tmp_path / "edges.csv").write_bytes(content.encode("latin-1"))
    (tmp_path / "nodes.csv").write_bytes("id,y\nnaïve,1\nZürich,2\nØresund,3\n".encode("latin-1"))
    hints = TextHints(encoding="latin-1")
    import_graph(tmp_path, tmp_path / "g.ng", hints=hints, edge_ids=True)
    assert stored(tmp_path / "g.ng") == LATIN
    with pytest.raises(ng.ImportFailed, match=r"edges\.csv, line 2: byte 10 of the text, 0xFC"):
        import_graph(tmp_path, tmp_path / "h.ng")
