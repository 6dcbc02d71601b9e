"""The options of `neargraph import`, so that the command itself stays readable."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Source = Annotated[Path, typer.Argument(help="File or folder to read.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="The new store, NAME.ng.")]
Format = Annotated[
    str | None,
    typer.Option(help="text, lists, temporal, table, npy, npz, planetoid, musae, tudataset."),
]
Memory = Annotated[
    str | None,
    typer.Option(help="Memory of the whole process, e.g. 256MB. Default: a quarter of RAM."),
]
Undirected = Annotated[bool, typer.Option(help="Store both directions.")]
SelfLoops = Annotated[str, typer.Option(help="keep, remove or add.")]
Unique = Annotated[bool, typer.Option(help="Keep one of parallel edges.")]
Reverse = Annotated[bool, typer.Option(help="Also store the reverse edge types.")]
EdgeIds = Annotated[bool, typer.Option(help="Keep the input row of each edge.")]
Fill = Annotated[float, typer.Option(help="Share of a page to fill.")]
PageSize = Annotated[str, typer.Option(help="4KiB to 64KiB.")]
Split = Annotated[str | None, typer.Option(help="train,val,test in percent, like 60,20,20.")]
SplitType = Annotated[str | None, typer.Option(help="Node type to split.")]
Seed = Annotated[int, typer.Option(help="Seed of the split.")]
NumNodes = Annotated[int | None, typer.Option(help="Number of nodes, if larger.")]
Delimiter = Annotated[str | None, typer.Option(help="Text: one character, or tab, comma, blank.")]
Header = Annotated[bool | None, typer.Option(help="Text: the first line names columns.")]
Columns = Annotated[
    str | None, typer.Option(help="src=0,dst=1,time=2,weight=3 (numbers or names).")
]
TimeScale = Annotated[
    float | None, typer.Option(help="Text: multiply times by this and round, such as 1000.")
]
Strings = Annotated[bool, typer.Option(help="Text: node ids are strings.")]
ReuseIds = Annotated[bool, typer.Option(help="Give the ids of deleted nodes to new ones.")]
XDtype = Annotated[
    str | None, typer.Option(help="Store x as f16, bf16 or i8 (scaled by column); read as f32.")
]
Dense = Annotated[bool, typer.Option(help="Store x with its zeros, even if most of it is.")]
Relabel = Annotated[
    bool, typer.Option(help="Number only the ids that occur, ascending; keep them as names.")
]
Strict = Annotated[bool, typer.Option(help="Refuse an import that would end with notes.")]
Threads = Annotated[int | None, typer.Option(help="Threads to use.")]
Overwrite = Annotated[bool, typer.Option(help="Replace an existing store.")]
DryRun = Annotated[bool, typer.Option(help="Print the estimate and stop.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
