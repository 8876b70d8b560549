"""Rows as a Parquet file, some thousand at a time, so that exports of any length need little memory."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from hotloop.errors import QueryError

_AT_ONCE: Final = 20_000


def parquet_chunks(columns: Mapping[str, type], rows: Iterable[Sequence[Any]]) -> Iterator[bytes]:
    """Return the parts of a file of these columns (`str`, `int` or `float`).

    Raises:
        QueryError: pyarrow is not installed.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise QueryError("Parquet needs pyarrow: pip install pyarrow; or export CSV") from None
    kinds = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64()}
    schema = pyarrow.schema([(name, kinds[kind]) for name, kind in columns.items()])
    return _write(schema, iter(rows), pyarrow, parquet)


def _write(schema: Any, rows: Iterator[Sequence[Any]], pyarrow: Any, parquet: Any) -> Iterator[bytes]:
    file = _Chunks()
    with parquet.ParquetWriter(file, schema) as writer:
        while batch := list(islice(rows, _AT_ONCE)):
            arrays = [
                pyarrow.array(column, kind) for column, kind in zip(zip(*batch, strict=True), schema.types, strict=True)
            ]
            writer.write_table(pyarrow.table(arrays, schema=schema))
            yield file.take()
    yield file.take()


class _Chunks(io.RawIOBase):
    """A file that keeps what was written until it is taken."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        part = bytes(data)
        self._parts.append(part)
        self._size += len(part)
        return len(part)

    def tell(self) -> int:
        return self._size

    def take(self) -> bytes:
        """Return what was written since the last call."""
        taken, self._parts = b"".join(self._parts), []
        return taken
