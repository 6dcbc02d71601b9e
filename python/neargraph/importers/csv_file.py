"""CSV files by pyarrow: delimiter, encoding, packed or not, in blocks of bounded memory.

What must not live here: what becomes of the columns. Invariant: text in a wrong encoding is an
error with line and byte, also where pyarrow would take it for bytes.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .encodings import decoded
from .lines import is_packed
from .spool import open_plain
from .text_head import guessed_delimiter, read_head

# Its reader of CSV keeps dozens of blocks, as text and as columns.
CSV_BLOCK_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class CsvFile:
    """One CSV file: where it is, what messages call it, and how it is written."""

    path: Path
    shown: str
    delimiter: str
    encoding: str | None
    is_packed: bool

    @staticmethod
    def open(source: Any, delimiter: str | None) -> "CsvFile":
        """A file whose delimiter is told by its first line, unless it is given."""
        if delimiter is None:
            first = next(iter(read_head(source)), "")
            delimiter = guessed_delimiter(first) or ("\t" if "\t" in first else ",")
        packed = is_packed(source.path)
        return CsvFile(source.path, source.shown, delimiter, source.encoding, packed)

    def read_through(self) -> tuple[Any, int]:
        """Names and types of the columns, as the first block tells them, and the number of rows."""
        import pyarrow as pa

        schema, rows = None, 0
        try:
            # One reader does both: one that is left early holds its blocks for a while.
            with self._blocks() as blocks:
                schema = blocks.schema
                rows = sum(batch.num_rows for batch in blocks)
        except pa.ArrowInvalid:
            if schema is None:
                raise
            # A later value does not fit the types. As text, all values are valid.
            rows = sum(b.num_rows for b in self.batches({schema.names[0]: pa.string()}))
        if any(pa.types.is_binary(kind) for kind in schema.types):
            self._check_text()
        return schema, rows

    def batches(self, types: Mapping[str, Any]) -> Iterator[Any]:
        """Record batches of the columns that ``types`` name."""
        with self._blocks(types) as blocks:
            yield from blocks

    @contextmanager
    def _blocks(self, types: Mapping[str, Any] | None = None) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.csv as pc

        wanted = None
        if types is not None:
            wanted = pc.ConvertOptions(include_columns=list(types), column_types=dict(types))
        how = pc.ReadOptions(
            use_threads=False, block_size=CSV_BLOCK_BYTES, encoding=self.encoding or "utf8"
        )
        parse = pc.ParseOptions(delimiter=self.delimiter)
        try:
            with (
                # Buffers of pyarrow itself: those of Python would come on top.
                pa.OSFile(str(self.path)) as file,
                pa.CompressedInputStream(file, "gzip")
                if self.is_packed
                else nullcontext(file) as stream,
                pc.open_csv(
                    stream, read_options=how, parse_options=parse, convert_options=wanted
                ) as blocks,
            ):
                yield blocks
        except (UnicodeDecodeError, pa.ArrowInvalid) as error:
            if isinstance(error, UnicodeDecodeError) or "UTF8" in str(error):
                self._check_text()
            raise

    def _check_text(self) -> None:
        """Refuses the first byte that is not valid in the encoding."""
        with open_plain(self.path) as stream:
            for _ in decoded(stream, self.encoding or "utf-8", self.shown):
                pass
