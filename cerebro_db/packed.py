"""Packed tables as others read them: what they hold, where, and whether their source changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Tuple

from cerebro_db import names
from cerebro_db.columns import shape_column
from cerebro_db.database import Database, one
from cerebro_db.engines import dialect
from cerebro_db.errors import MissingError, UsageError
from cerebro_db.layout import BUFFER_ID, DIST_KEY, Layout
from cerebro_db.sqltext import Fragment, TableName, ident, join, query

#: The sibling of a packed table that says how it was made.
SUMMARY = "_summary"


@dataclass(frozen=True)
class PackedSegment:
    """One segment's part of a packed table."""

    segment_id: int
    dist_key: int
    rows: int


@dataclass(frozen=True)
class Packed:
    """A packed table, found and checked."""

    table: TableName
    oid: int
    #: When it was made: unlike its oid, the same after a dump and restore.
    packed_at: str
    layout: Layout
    rows: int
    #: Segments that hold rows, in order.
    segments: Tuple[PackedSegment, ...]
    #: The table of raw rows it was made from.
    source: TableName
    #: How many segments it was made for; some may be empty.
    segment_count: int
    seed: int
    #: Whether every segment of Greenplum has a copy of all rows, as of rows to validate on.
    everywhere: bool


def read_packed(database: Database, text: Optional[str], what: str = "source table") -> Packed:
    """Look a packed table up; raises MissingError or UsageError when there is none of that name."""
    table = names.require(database, text, what)
    _require_packed(database, table, what)
    summary = one(database, query("packing", "read_summary", summary=table.suffixed(SUMMARY).sql()))
    layout = Layout.from_json(summary["layout"])
    everywhere = not one(database, dialect(database, "row_places"), table=names.literal(table))["told"]
    segments = _segments(database, table, ident(shape_column(layout.target.column)), everywhere)
    return Packed(
        table=table,
        oid=one(database, query("packing", "oid"), table=names.literal(table))["oid"],
        packed_at=summary["packed_at"],
        layout=layout,
        rows=sum(segment.rows for segment in segments),
        segments=segments,
        source=TableName.parse(summary["source_table"]),
        segment_count=summary["segments"],
        seed=summary["seed"],
        everywhere=everywhere,
    )


def _segments(
    database: Database, table: TableName, shape: Fragment, everywhere: bool
) -> Tuple[PackedSegment, ...]:
    """On Greenplum segment i is the (i div p)-th smallest key on primary i mod p, of p primaries."""
    parts = {"table": table.sql(), "shape": shape}
    sql = query("packing", "count_copied", **parts) if everywhere else dialect(database, "count_segments", **parts)
    rows = database.rows(sql, primaries=len(database.rows(dialect(database, "primaries"))))
    return tuple(PackedSegment(row["segment_id"], row["dist_key"], row["rows"]) for row in rows)


def is_packed(database: Database, table: TableName) -> bool:
    """Whether a table and its summary came from a preprocessor."""
    return not _complaint(database, table)


def fingerprint(database: Database, table: TableName) -> Optional[str]:
    """Count and hash over the row versions of a plain table; None where rows have no versions.

    It changes with every insert, update and delete, and when the table is made anew.
    """
    places = one(database, dialect(database, "row_places"), table=names.literal(table))
    if not places["versioned"]:
        return None
    # A row that is appended gets a place that no row had before.
    version = Fragment("" if places["appended"] else ", ':', t.xmin")
    row = one(database, dialect(database, "row_versions", table=table.sql(), version=version))
    return f"{places['identity']}:{row['rows']}:{row['hash']}"


def buffers_sql(packed: Packed) -> Fragment:
    """The buffers of segment `%(dist_key)s` in order: buffer_id, then bytes and shape per column."""
    return query("packing", "buffers", table=packed.table.sql(), columns=_byte_columns(packed.layout))


def _byte_columns(layout: Layout) -> Fragment:
    return join(", ", (ident(part) for name in layout.names for part in (name, shape_column(name))))


def _require_packed(database: Database, table: TableName, what: str) -> None:
    complaint = _complaint(database, table)
    if complaint:
        kind = MissingError if "does not exist" in complaint else UsageError
        raise kind(f"{what} {table} is not packed: {complaint}; run training_preprocessor_dl first")


def _complaint(database: Database, table: TableName) -> str:
    """Why a table is not a packed one; nothing when it is."""
    here = names.columns(database, table)
    for column in (BUFFER_ID, DIST_KEY):
        if column not in here:
            return f"it has no column {column}"
    summary = table.suffixed(SUMMARY)
    if names.find(database, summary) is None:
        return f"its summary {summary} does not exist"
    kinds = names.columns(database, summary)
    for column, kind in (("layout", "json"), ("packed_at", "timestamp with time zone")):
        if kinds.get(column) != kind:
            return f"its summary {summary} has no column {column} of type {kind}, so another product or version made it"
    rows = one(database, query("packing", "count_rows", table=summary.sql()))["rows"]
    return "" if rows == 1 else f"its summary {summary} has {rows} rows, expected 1"
