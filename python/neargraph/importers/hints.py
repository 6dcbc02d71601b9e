"""What the user says about text files and tables, and how its text forms are read.

Invariant: hints that are made are valid: a delimiter is one character, an encoding exists, and the
names of two node types differ.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

from .encodings import known_encoding

COLUMN_NAMES = {
    "src": ("src", "source", "from", "u", "id1", "source_id", "node1"),
    "dst": ("dst", "destination", "target", "to", "v", "id2", "target_id", "node2"),
    "time": ("time", "timestamp", "ts", "t"),
    "weight": ("weight", "w"),
}
"""What headers call the columns of edges, in lower case."""
_KEYS = (*COLUMN_NAMES, "edge_id")
_DELIMITERS = {
    "tab": "\t",
    "comma": ",",
    "semicolon": ";",
    "pipe": "|",
    "space": " ",
    "blank": None,
}

Triple = tuple[str, str, str]
"""Source type, relation and destination type of an edge type."""


@dataclass(frozen=True, slots=True)
class TextHints:
    """What the user says about a text file or tables; None means: look at the input.

    ``columns`` maps src, dst, time, weight to a column number (from 0) or a header name. Times are
    multiplied by ``time_scale`` and rounded, so that fractions become integers. ``strings``: node
    ids are strings. ``encoding`` is a text encoding of Python, such as "latin-1" (default: UTF-8).
    ``bipartite`` names two node types with ids of their own: (source type, relation, destination
    type), or "user,rates,item".
    """

    delimiter: str | None = None
    header: bool | None = None
    columns: dict[str, str] | None = None
    strings: bool = False
    time_scale: float | None = None
    encoding: str | None = None
    bipartite: str | Sequence[str] | None = None

    def __post_init__(self) -> None:
        named_delimiter(self.delimiter)
        object.__setattr__(self, "encoding", known_encoding(self.encoding))
        object.__setattr__(self, "bipartite", parse_bipartite(self.bipartite))

    def given(self) -> list[str]:
        """The names of the hints that the user gave."""
        return [f.name for f in fields(self) if getattr(self, f.name) not in (None, False)]

    def types(self) -> Triple | None:
        """The names that ``bipartite`` gives; None without it."""
        return None if self.bipartite is None else parse_bipartite(self.bipartite)


def parse_columns(text: str | None) -> dict[str, str] | None:
    """{"src": "0", "dst": "to"} of "src=0,dst=to"; keys are src, dst, time, weight, edge_id.

    >>> parse_columns("src=1,dst=0")
    {'src': '1', 'dst': '0'}
    """
    if text is None:
        return None
    columns = {}
    for part in text.split(","):
        key, sign, value = part.partition("=")
        if key.strip() not in _KEYS or not sign or not value:
            raise ValueError(
                f"{part!r} is not a valid column, expected src=, dst=, time=, weight= or edge_id= "
                "with a column number (from 0) or name, e.g. src=0,dst=1,time=2"
            )
        columns[key.strip()] = value.strip()
    return columns


def parse_bipartite(given: str | Sequence[str] | None) -> Triple | None:
    """("user", "rates", "item") of "user,rates,item"; without a relation, it is "to".

    >>> parse_bipartite("user,item")
    ('user', 'to', 'item')
    """
    if given is None:
        return None
    names = [part.strip() for part in (given.split(",") if isinstance(given, str) else given)]
    if len(names) == 2:
        names.insert(1, "to")
    if len(names) != 3 or not all(names) or names[0] == names[2]:
        raise ValueError(
            f"{given!r} does not name two different node types, expected "
            "SOURCE,RELATION,DESTINATION, e.g. user,rates,item"
        )
    return names[0], names[1], names[2]


def named_delimiter(text: str | None) -> str | None:
    """The character of "tab", "comma", "\\t", ";" ...; None stands for runs of blanks.

    >>> named_delimiter("tab") == chr(9), named_delimiter(",")
    (True, ',')
    """
    if text is None:
        return None
    if text.lower() in _DELIMITERS:
        return _DELIMITERS[text.lower()]
    text = text.replace("\\t", "\t")
    if len(text.encode()) != 1:
        raise ValueError(
            f"{text!r} is not a valid delimiter, expected one ASCII character or one of "
            f"{', '.join(_DELIMITERS)}"
        )
    return text
