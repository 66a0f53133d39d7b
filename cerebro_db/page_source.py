"""Buffers of a packed table from the server's files, as `batches.SegmentRows` reads them.

The server says where each row version lies that the caller's snapshot sees, and which transaction wrote
it; then it writes its memory to disk, and the bytes are read past it. A row is taken only while its place
holds that very version, so what is deleted, updated or not committed is never read.
"""

from __future__ import annotations

import os
import sys
from typing import Dict, Iterator, Optional, Sequence, Tuple

from cerebro_db import names
from cerebro_db.batches import Buffer
from cerebro_db.columns import shape_column
from cerebro_db.database import Database, Row, one
from cerebro_db.errors import MissingError, SetupError, UsageError
from cerebro_db.pages.files import check_cluster
from cerebro_db.pages.format import Attribute, Format
from cerebro_db.pages.heap import RowVersion
from cerebro_db.pages.reader import TableFiles, TableReader
from cerebro_db.sqltext import TableName, ident, query

#: The oldest server that can be asked for all that is needed.
OLDEST = 100000


class PageSource:
    """The buffers of one segment, or of all when `dist_key` is None; the first of `columns` counts rows.

    Raises SetupError when this user or this machine cannot read the server's files, UsageError when the
    table is not stored as packed tables are, RunError, also while reading, when its rows change meanwhile.
    """

    def __init__(self, database: Database, columns: Sequence[str], table: TableName, dist_key: Optional[int]) -> None:
        _check_server(database)
        relation = _relation(database, table)
        form, folder = _format(database, table)
        files = _files(database, table, folder, relation, columns)
        shape = ident(shape_column(columns[0]))
        found = database.rows(query("pages", "locate", packed=table.sql(), shape=shape), dist_key=dist_key)
        database.rows(query("pages", "checkpoint"), table=names.literal(table))
        self.rows: Sequence[int] = [row["rows"] for row in found]
        places = [RowVersion(row["block"], row["item"], row["xmin"]) for row in found]
        self._reader = TableReader(files, form, places, tuple(columns))

    def read(self, numbers: Optional[Sequence[int]]) -> Iterator[Buffer]:
        return map(self._reader.row, range(len(self.rows)) if numbers is None else numbers)


def _check_server(database: Database) -> None:
    server = one(database, query("pages", "version"))
    if server["number"] < OLDEST or "Greenplum" in server["version"]:
        raise SetupError(
            f"strategy 'direct' reads files of PostgreSQL 10 and later, not of {server['version'].split(' on ')[0]}; "
            "use another strategy"
        )
    if server["in_recovery"]:
        raise SetupError("strategy 'direct' needs a primary server, but this one is a standby; use another strategy")


def _format(database: Database, table: TableName) -> Tuple[Format, str]:
    """How the server writes files, and its data directory, when they can be read from here."""
    facts = one(database, query("pages", "server"), table=names.literal(table))
    if facts["data_directory"] is None or not facts["may_checkpoint"]:
        lacks = "see the server's data_directory" if facts["may_checkpoint"] else "have the server write by CHECKPOINT"
        raise SetupError(
            f"strategy 'direct' must {lacks}, which role {facts['owner']!r} that installed cerebro-db may not; have a "
            "superuser run 'cerebro-db install', or use another strategy"
        )
    keys = ("block_size", "segment_blocks", "chunk_size", "max_align")
    form = Format(**{key: facts[key] for key in keys}, order=sys.byteorder)
    check_cluster(facts["data_directory"], facts["system_identifier"], form)
    return form, facts["data_directory"]


def _relation(database: Database, table: TableName) -> Row:
    """A table whose every row this role may read, and that lies in files of its own."""
    relation = one(database, query("pages", "relation"), table=names.literal(table))
    if not relation["may_read"] or relation["row_security"]:
        why = "has row security" if relation["may_read"] else "may not be read by this role"
        raise UsageError(f"table {table} {why}, and strategy 'direct' reads past the server; use another strategy")
    plain = relation["kind"] in ("r", "m") and relation["method"] == "heap"
    if plain and relation["persistence"] == "u":
        raise UsageError(
            f"table {table} is unlogged, which CHECKPOINT does not write to its files; "
            "alter it to set logged, or use another strategy than 'direct'"
        )
    if not plain or relation["persistence"] != "p":
        raise UsageError(
            f"table {table} is no ordinary heap table on disk, expected one as training_preprocessor_dl makes it; "
            "use another strategy than 'direct'"
        )
    return relation


def _files(database: Database, table: TableName, folder: str, relation: Row, columns: Sequence[str]) -> TableFiles:
    found = database.rows(query("pages", "attributes"), table=names.literal(table))
    _check_columns(table, {row["name"]: row["type"] for row in found}, columns)
    return TableFiles(
        heap=os.path.join(folder, relation["heap"]),
        toast=os.path.join(folder, relation["toast"]) if relation["toast"] else None,
        toast_oid=relation["toast_oid"],
        attributes=tuple(Attribute(row["name"], row["length"], row["align"]) for row in found),
    )


def _check_columns(table: TableName, types: Dict[str, str], columns: Sequence[str]) -> None:
    for name in columns:
        if name not in types:
            raise MissingError(f"column {name!r} does not exist in table {table}{names.nearest(name, types)}")
        if types[name] != "bytea":
            raise UsageError(f"column {name!r} of table {table} has type {types[name]}, expected bytea")
