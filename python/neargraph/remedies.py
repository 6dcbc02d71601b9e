"""What to do about an error or a note, in the words of each face.

The core, and what lies below the faces in Python, give remedies and name no option of any face, so
this is the one place that says how Python and the command line call them. A remedy is a dictionary
with a ``name``, with ``at_least_bytes`` if a larger memory budget helps, and with what else its
words mention. Invariant: each remedy has words for Python and, where a command has a way, for the
command line.
"""

from __future__ import annotations

import re
from ast import literal_eval
from typing import Any

from neargraph.units import format_bytes

_HINTS = ("delimiter", "header", "columns", "strings", "time_scale", "encoding", "bipartite")
_VALUES = (
    "out",
    "format",
    "num_nodes",
    "split_sizes",
    "split_type",
    "x_dtype",
    "memory",
    "threads",
)
_WITHOUT_OPTION = (
    "the command needs at least {size}, which is more than a quarter of this machine's memory: use "
    "a machine with more memory"
)
# By name: what the command line says, whose options become keywords in Python; or what Python says
# and what the command line says, which is nothing where no command has a way.
_WORDS: dict[str, str | tuple[str, str]] = {
    "RaiseMemory": "raise --memory to at least {size}",
    "FreeMemory": "free memory, or open the store with a smaller budget",
    "SmallerBatches": ("use smaller batches or fanouts", "give a smaller --batch-size"),
    "DropBatches": ("drop the batches that you still keep", "give a smaller --batch-size"),
    "MakeWritable": "make the store writable, with enough free disk space",
    "AnyBackend": ('use backend="auto"', "leave out --backend"),
    "ReadOnDemand": ('use reading="on_demand"', ""),
    "Import": "check the path, or create the store with `neargraph import`",
    "Restore": "restore the store from a copy or import it again (`neargraph verify` lists all "
    "damage)",
    "OpenCheckpoint": (
        "open the last checkpoint with recover=False",
        "open the last checkpoint with --no-recover",
    ),
    "CloseOther": "wait until the other writer closes the store, or make your changes in the "
    "process of that writer",
    "WaitLonger": ("raise busy_timeout=", "raise --busy-timeout"),
    "ReplaceLater": "close the other writer first, or import under another name",
    "Compile": "create compiled epochs with `neargraph compile`",
    "CompileDirect": "create a direct layout with `neargraph compile STORE --layout direct`",
    "RecompileDirect": "compile the direct layout again with `neargraph compile STORE --layout "
    "direct --overwrite`",
    "PagedLayout": (
        'read without the direct layout, with reading="auto" or layout="paged"',
        "leave out --reading direct_layout",
    ),
    "FewerTensors": "name fewer or narrower tensors (`neargraph compile --attrs`); the loader "
    "reads the others from the store",
    "KeepReverse": "import the store again with `neargraph import --reverse`",
    "KeepEdgeIds": "import the store again with `neargraph import --edge-ids`",
    "StoreDense": (
        "import the store again with dense=True, or keep values that change in a separate tensor",
        "import the store again with `neargraph import --dense`",
    ),
    "NameNodes": "if the line is a header, give --header; if node ids are strings, give --strings",
    "ScaleTimes": "make times whole numbers with --time-scale, e.g. 1000",
    "Relabel": "give --relabel, which numbers only the ids that occur",
    "KeepOneDirection": "leave out --undirected if the input has both directions, or keep one edge "
    "per source and destination with --unique, which ignores times",
    "KeepOneOfEach": "keep one edge per source and destination with --unique, which ignores times",
    "NarrowFeatures": "convert the rows with --x-dtype f32",
    "NameColumns": (
        'store a time and a weight with hints=TextHints(columns={"time": .., "weight": ..})',
        "store a time and a weight with --columns time=..,weight=..",
    ),
    "NoHeader": "if the header line is an edge, leave out --header",
    "GiveEncoding": (
        'name the encoding of the text with hints=TextHints(encoding="latin-1"), or "cp1252", '
        '"utf-16", ...',
        "name the encoding of the text with --encoding, e.g. latin-1, cp1252 or utf-16",
    ),
    "ExportAgain": (
        "export the model again with neargraph.export",
        "export the model again in Python, with neargraph.export",
    ),
    "CopyModel": "copy the model file again from an intact copy, or export the model again",
    "TrainAgain": "train the model again with a smaller learning rate, then export the model",
    "TypeInputs": (
        'give each input a type, as in create_in(name, "f32", ["nodes", 16])',
        "save the graph with a type for each input",
    ),
    "GiveKernel": (
        "give a function for the operation with kernels=, or run the model on a store",
        "run the model on a store",
    ),
    "ShowModel": "list the inputs of the model with `neargraph model FILE`",
}
# The same of remedies that Python code below the faces gives, by `remedy`. Besides ``{size}``,
# ``{option}`` stands for the option that the remedy names, and other braces for its other fields.
_PYTHON_WORDS: dict[str, str | tuple[str, str]] = {
    "LeaveOut": "leave out {option}",
    "LeaveOutOrConvert": "leave out {option}, or convert {what} first",
    "LeaveOutOrText": (
        'leave out this hint, or read the file with format="text"',
        "leave out {option}, or read the file with --format text",
    ),
    "OneFormat": "import the inputs one by one, or name one format with --format",
    "NameStreamFormat": "name its format with --format text or --format table",
    "ReadPipe": (
        "write the input to a file first, or give an open binary stream",
        "write the input to a file first, or pipe it into `neargraph import -`",
    ),
    "NameEncoding": (
        'name its encoding with hints=TextHints(encoding="{encoding}")',
        "name its encoding with --encoding {encoding}",
    ),
    "CheckEncoding": "check the encoding that --encoding names",
    "NameFormat": "check the file, or name its format with --format or its encoding with "
    "--encoding",
    "NameLayout": "name one file in the folder, or name the format with --format",
    "ReadAsText": (
        'read the file with format="text", which takes hints for columns, header and strings',
        "read the file with --format text, which takes --columns, --header and --strings",
    ),
    "ShorterLines": "check the format, or raise --memory (lines may have up to 16 MiB)",
    "GiveDelimiter": "check the file, or name the delimiter with --delimiter",
    "NameTimes": (
        'name the column with hints=TextHints(columns={"time": ..}), or leave out time_scale=',
        "name the column with --columns time=NAME, or leave out --time-scale",
    ),
    "NameEnds": (
        'name the columns with hints=TextHints(columns={"src": .., "dst": ..})',
        "name the columns with --columns src=NAME,dst=NAME",
    ),
    "CorrectColumns": "correct --columns",
    "LeaveOutEdgeId": "leave edge_id out of --columns",
    "ReplaceStore": "name another store, or replace this one with --overwrite",
    "RaiseNumNodes": "raise --num-nodes to at least {least}, or leave it out",
    "StoreReverse": "leave out --undirected; --reverse stores the opposite direction",
    "BuildReverse": "build the reverses anew with --reverse",
    "ChooseSplitType": "choose one with --split-type: {choices}",
}
# Remedies for refusals of a server, by their reason: the server names no option of a face.
_SERVER_WORDS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        ("NO_TOKEN", "UNKNOWN_TOKEN", "EXPIRED_TOKEN"),
        (
            "give a valid token with token=",
            "give a valid token with --token-file or the variable NEARGRAPH_TOKEN",
        ),
    ),
    "CONNECTION_BROKEN": (
        'if the server uses TLS, give its CA certificates with tls={"ca": "ca.pem"}; otherwise '
        "check that it still runs",
        "if the server uses TLS, give its CA certificates with --ca; otherwise check that it still "
        "runs",
    ),
    "CERTIFICATE_REFUSED": (
        "check ca= and server_name= of tls=, and the certificate of the server",
        "check --ca and --server-name, and the certificate of the server",
    ),
    "TLS_MISSING": (
        "leave out tls=: the server has no TLS",
        "leave out --ca: the server has no TLS",
    ),
}


def of_reason(reason: str) -> dict[str, Any] | None:
    """The remedy for what a server has refused; None if the server's own words are better.

    >>> of_reason("NO_TOKEN"), of_reason("SHED")
    ({'name': 'NO_TOKEN'}, None)
    """
    return {"name": reason} if reason in _SERVER_WORDS else None


def remedy(name: str, **fields: Any) -> dict[str, Any]:
    """A remedy of this module by its name, with what its words mention.

    >>> in_python(remedy("LeaveOut", option="num_nodes"))
    'leave out num_nodes='
    """
    assert name in _PYTHON_WORDS, name
    return {"name": name, **fields}


def _words(remedy: dict[str, Any]) -> str | tuple[str, str]:
    name = remedy["name"]
    return next(words[name] for words in (_WORDS, _PYTHON_WORDS, _SERVER_WORDS) if name in words)


def in_python(remedy: dict[str, Any]) -> str:
    """What to do, in the words of Python."""
    words = _words(remedy)
    text = python_words(_optioned(words, remedy)) if isinstance(words, str) else words[0]
    return _filled(text, remedy)


def on_command_line(remedy: dict[str, Any], options: frozenset[str] | None = None) -> str:
    """What to do, for a command with these options; empty where it has no way to do it."""
    words = _words(remedy)
    text = _optioned(words if isinstance(words, str) else words[1], remedy)
    flags = re.findall(r"--[a-z-]+", re.sub(r"`[^`]*`", "", text))
    if options is not None and not options.issuperset(flags):
        text = _WITHOUT_OPTION if "at_least_bytes" in remedy else ""
    return _filled(text, remedy)


def _optioned(text: str, remedy: dict[str, Any]) -> str:
    return text.replace("{option}", f"--{remedy.get('option', '').replace('_', '-')}")


def _filled(text: str, remedy: dict[str, Any]) -> str:
    size = format_bytes(remedy.get("at_least_bytes", 0), up=True)
    fields = {"size": size, **remedy}
    return re.sub(r"\{(\w+)\}", lambda match: str(fields[match[1]]), text)


# A setting as messages of Python name it: `name=value`, `name=` without a value, a name of several
# words, or `name is value` where a clause begins. Paths and what stands in backticks stay.
_SETTING = re.compile(
    r"""`[^`]*`|(?<![\w/.'"-])(?:
    (?P<given>[a-z]+(?:_[a-z]+)*)=(?P<value>'[^']*'|\[[^]]*\]|\([^)]*\)|[\w%-]+(?:\.\w+)*)?
    |(?:^|(?<=;\ ))(?P<first>[a-z]+(?:_[a-z]+)*)(?=\ (?:is|are)\ )
    |(?P<bare>[a-z]+(?:_[a-z]+)+)(?![\w/'"(]|\.\w)
    )""",
    re.VERBOSE,
)


def flag_words(text: str, options: frozenset[str]) -> str:
    """A message in the words of the command line: settings by the options of a command.

    >>> flag_words("embedding=64 has no test_on='best'; use lr=", frozenset(["--test-on", "--lr"]))
    'embedding=64 has no --test-on best; use --lr'
    """

    def option(match: re.Match[str]) -> str:
        name = match["given"] or match["first"] or match["bare"] or ""
        flag = f"--{name.replace('_', '-')}"
        if flag not in options:
            return match[0]
        return flag if match["value"] is None else _with_value(flag, match["value"])

    return _SETTING.sub(option, text)


def _with_value(flag: str, text: str) -> str:
    """An option with a value of Python, as it is typed."""
    try:
        value = literal_eval(text)
    except (ValueError, SyntaxError):
        value = text
    if isinstance(value, bool):
        return flag if value else f"no {flag}"
    if isinstance(value, list | tuple):
        value = ",".join(f"{part:g}" if isinstance(part, float) else str(part) for part in value)
    return f"{flag} {value}"


def python_words(text: str) -> str:
    """A message in the words of the Python functions: options by their keywords.

    >>> python_words("leave out --undirected, or give --x-dtype f32")
    'leave out undirected=True, or give x_dtype="f32"'
    """

    def keyword(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]
        name, value = match[1].replace("-", "_"), match[2]
        if name in _HINTS:
            return f"hints=TextHints({name}=...)"
        if value is not None:
            return f'{name}="{value}"'
        return f"{name}=" if name in _VALUES else f"{name}=True"

    return re.sub(r"`[^`]*`|--([a-z]+(?:-[a-z]+)*)(?: (f32|f16|bf16|i8)\b)?", keyword, text)
