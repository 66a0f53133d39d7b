"""Buffers of a packed table through the executor, as `batches.SegmentRows` reads them."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Sequence

from cerebro_db.batches import Buffer
from cerebro_db.columns import shape_column
from cerebro_db.database import Database
from cerebro_db.sqltext import Fragment, TableName, ident, query, row_columns


class PackedSource:
    """The buffers of one segment, or of all when `dist_key` is None; the first of `columns` counts rows."""

    def __init__(
        self, database: Database, columns: Sequence[str], table: TableName, dist_key: Optional[int]
    ) -> None:
        self._database = database
        self._parts: Dict[str, Fragment] = {
            "packed": table.sql(),
            "columns": row_columns("p", columns),
            "shape": ident(shape_column(columns[0])),
        }
        self._dist_key = dist_key
        counted = database.rows(query("worker", "buffers", **self._parts), dist_key=dist_key)
        self._ids: List[int] = [row["buffer_id"] for row in counted]
        self.rows: Sequence[int] = [row["rows"] for row in counted]

    def read(self, numbers: Optional[Sequence[int]]) -> Iterator[Buffer]:
        values: Dict[str, Any] = {"dist_key": self._dist_key}
        if numbers is not None:
            values["buffer_ids"] = [self._ids[number] for number in numbers]
        name = "read_all" if numbers is None else "read_some"
        yield from self._database.stream(query("worker", name, **self._parts), **values)
