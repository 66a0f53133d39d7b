"""Packed tables decoded with plain NumPy, from what their layout says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List

import numpy as np

from cerebro_db.client import PsycopgDatabase
from cerebro_db.layout import Layout
from cerebro_db.packed import read_packed
from cerebro_db.sqltext import Fragment, TableName, fill


@dataclass
class Decoded:
    layout: Layout
    #: Per input column: [rows, *shape], buffers in order.
    inputs: Dict[str, Any]
    target: Any
    #: Rows of each buffer, and the segment it lies on.
    buffers: List[int]
    segments: List[int]

    def label_texts(self) -> List[Any]:
        return [self.layout.target.classes[code] for code in self.target]

    def column(self, name: str) -> Any:
        """The values of one scalar source column."""
        for item in self.layout.inputs:
            if item.kind != "array" and name in item.sources:
                return self.inputs[item.column][:, item.sources.index(name)]
        raise KeyError(name)


def decode(database: PsycopgDatabase, table: str) -> Decoded:
    name = TableName.parse(table)
    (summary,) = database.rows(
        fill(Fragment("select layout::text as layout from {s}"), s=name.suffixed("_summary").sql())
    )
    layout = Layout.from_json(summary["layout"])
    rows = database.rows(fill(Fragment("select * from {t} order by buffer_id"), t=name.sql()))

    def joined(item: Any) -> Any:
        parts = [
            np.frombuffer(row[item.column], item.dtype).reshape(row[f"{item.column}_shape"]) for row in rows
        ]
        return np.concatenate(parts)

    numbers = {segment.dist_key: segment.segment_id for segment in read_packed(database, table).segments}
    return Decoded(
        layout=layout,
        inputs={item.column: joined(item) for item in layout.inputs},
        target=joined(layout.target),
        buffers=[row[f"{layout.target.column}_shape"][0] for row in rows],
        segments=[numbers[row["__dist_key__"]] for row in rows],
    )
