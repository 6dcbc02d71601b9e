"""Data sets that users name, where neargraph needs a path: what to download, and what to give then.

Nothing here reads data or the network. `refuse_name` is asked where nothing lies at a path, and
`refuse_links` where a folder or file holds links alone.
"""

import re
from pathlib import Path
from typing import NoReturn

from .check import fail

_OGB = {"n": "NodePropPredDataset", "l": "LinkPropPredDataset", "g": "GraphPropPredDataset"}
_OGB_MODULE = {"n": "nodeproppred", "l": "linkproppred", "g": "graphproppred"}
_PYG = {
    "Planetoid": ("cora", "citeseer", "pubmed"),
    "Amazon": ("computers", "photo"),
    "Coauthor": ("cs", "physics"),
    "CitationFull": ("cora_ml", "dblp"),
    "WikipediaNetwork": ("chameleon", "squirrel", "crocodile"),
    "HeterophilousGraphDataset": (
        "roman-empire",
        "amazon-ratings",
        "minesweeper",
        "tolokers",
        "questions",
    ),
    "TUDataset": ("mutag", "proteins", "enzymes", "imdb-binary", "reddit-binary", "nci1", "collab"),
    "Reddit": ("reddit",),
    "Flickr": ("flickr",),
    "Yelp": ("yelp",),
    "PPI": ("ppi",),
}
_SNAP = re.compile(r"(soc|com|ca|cit|web|wiki|roadnet|email|as|amazon|p2p|ego|sx|loc)-[\w-]+", re.I)
_IGB = re.compile(r"igb([-_](tiny|small|medium|large|full))?|igb260m|igbh", re.I)
_LINK = re.compile(r"(https?|ftp)://\S+", re.I)
_LINK_FILE_BYTES_MAX = 4096
_LINK_FILES_MAX = 3
_NOTHING = "neargraph does not download data"


def refuse_name(path: Path) -> None:
    """`ImportFailed` where a path that leads nowhere is the name of a known set, or a link."""
    given = str(path)
    if re.match(r"(https?|ftp):/", given):
        fail(
            given,
            f"is a link, and {_NOTHING}",
            "download the file (for example with curl -LO), and give its path",
        )
    if len(path.parts) == 1 and (advice := _advice(given)):
        fail(given, f"no such file or folder; {given} is a data set, and {_NOTHING}", advice)


def _advice(name: str) -> str | None:
    plain = name.lower()
    if plain.endswith("-seeds"):
        return (
            f"run `dgl.graphbolt.BuiltinDataset({plain!r}, root='datasets').load()` in Python, and "
            f"give datasets/{plain}"
        )
    if match := re.fullmatch(r"ogb([nlg])[-_]([\w-]+)", plain):
        reader = f"ogb.{_OGB_MODULE[match[1]]}.{_OGB[match[1]]}"
        return (
            f"run `pip install ogb`, then `{reader}({plain.replace('_', '-')!r}, root='dataset')` "
            f"in Python, and give dataset/{plain.replace('-', '_')}"
        )
    for kind, names in _PYG.items():
        if plain in names:
            takes = kind not in ("Reddit", "Flickr", "Yelp", "PPI")
            arguments = f"'data', {name!r}" if takes else "'data'"
            return (
                f"run `torch_geometric.datasets.{kind}({arguments})` in Python, and give the "
                "folder in data that then contains raw/ and processed/"
            )
    if _IGB.fullmatch(plain):
        return (
            "download the data set with the scripts of "
            "github.com/IllinoisGraphBenchmark/IGB-Datasets, and give the folder with processed/"
        )
    if _SNAP.fullmatch(plain):
        return f"download its .txt.gz from snap.stanford.edu/data, and give {name}.txt.gz"
    return None


def refuse_links(path: Path) -> None:
    """`ImportFailed` where a file, or the few files of a folder, hold links and no data."""
    files = [path] if path.is_file() else sorted(path.iterdir())
    if not 0 < len(files) <= _LINK_FILES_MAX:
        return
    links = [link for file in files for link in _links(file) or [""]]
    if all(links):
        _refuse(path, links[0])


def _links(file: Path) -> list[str] | None:
    """The links that a file is made of; None where it holds anything else."""
    if not file.is_file() or not 0 < file.stat().st_size <= _LINK_FILE_BYTES_MAX:
        return None
    try:
        text = file.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        return None
    found = _LINK.findall(text)
    rest = re.sub(r"(?m)^\s*(\[InternetShortcut\]|URL=|#.*)?\s*", "", _LINK.sub("", text))
    links = [match[0] for match in _LINK.finditer(text)]
    return links if found and not rest.strip() else None


def _refuse(path: Path, link: str) -> NoReturn:
    todo = f"download {link[:120]} (e.g. with curl -LO), unpack the download, and give the result"
    fail(path, f"holds only a link, and {_NOTHING}", todo)
