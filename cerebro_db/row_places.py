"""Rows that can be told apart by where they lie, so that several scans know each of them again.

On PostgreSQL a scan gives rows in one order each time. On Greenplum many processes scan at once, and only
where a row lies tells it from others; rows of views, replicated and external tables lie nowhere, so a copy
of them is read.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import Iterator, Sequence

from cerebro_db import names
from cerebro_db.columns import Column
from cerebro_db.database import Database, one
from cerebro_db.engines import dialect
from cerebro_db.sqltext import Fragment, TableName, ident, join, query

_COPY = TableName("pg_temp", "cerebro_rows")


@dataclass(frozen=True)
class Places:
    """Where the rows of a table are read."""

    #: The table itself, or a copy of it.
    table: TableName
    #: What tells apart the tables that make up a partitioned one: SQL to put behind other values.
    part: Fragment
    copied: bool


@contextmanager
def placed(database: Database, table: TableName, columns: Sequence[Column]) -> Iterator[Places]:
    """The rows of `table` where they can be told apart; a copy has only `columns`, and is gone afterwards.

    In a transaction, which takes a copy back after an error.
    """
    found = one(database, dialect(database, "row_places"), table=names.literal(table))
    part = Fragment(", ' ', source.tableoid" if found["parted"] else "")
    if found["told"]:
        yield Places(table, part, copied=False)
        return
    chosen = join(", ", (ident(name) for name in dict.fromkeys(column.name for column in columns)))
    parts = {"copy": _COPY.sql(), "columns": chosen, "source": table.sql()}
    database.rows(dialect(database, "copy_rows", **parts))
    yield Places(_COPY, Fragment(""), copied=True)
    database.rows(query("packing", "drop_packed", table=_COPY.sql()))
