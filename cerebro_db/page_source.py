"""Buffers of a packed table from the server's files, as `batches.SegmentRows` reads them.

The server says where each row version lies that the caller's snapshot sees, and which transaction wrote
it; then it writes its memory to disk, and the bytes are read past it. A row is taken only while its place
holds that very version, so what is deleted, updated or not committed is never read.

On Greenplum each primary has its own files in its own directory; those of mirrors are never read. It shows
no row versions of a replicated table, as a validation table is: that one comes by COPY, and is kept.
"""

from __future__ import annotations

import os
import sys
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

from cerebro_db import names
from cerebro_db.batches import Buffer, Source
from cerebro_db.columns import shape_column
from cerebro_db.copy_source import Connect, CopySource
from cerebro_db.database import Database, Row, one
from cerebro_db.engines import dialect, on_greenplum
from cerebro_db.errors import MissingError, SetupError, UsageError
from cerebro_db.pages.files import check_cluster
from cerebro_db.pages.format import Attribute, Format
from cerebro_db.pages.heap import RowVersion
from cerebro_db.pages.reader import TableFiles, TableReader
from cerebro_db.sqltext import TableName, ident, query

#: The oldest PostgreSQL that can be asked for all that is needed.
OLDEST = 100000
#: Of a replicated table, what is read and not yet taken [bytes].
AHEAD_BYTES = 16_000_000


def open_pages(
    database: Database, connect: Connect, columns: Sequence[str], table: TableName, dist_key: Optional[int]
) -> Source:
    """A segment from the server's files; a replicated table through the server, by a session that `connect` opens."""
    if not one(database, dialect(database, "page_table"), table=names.literal(table))["replicated"]:
        return PageSource(database, columns, table, dist_key)
    source = CopySource(database, connect, columns, table, dist_key, AHEAD_BYTES)
    source.keeps_rows = True
    return source


class PageSource:
    """The buffers of one segment, or of all when `dist_key` is None; the first of `columns` counts rows.

    Raises SetupError when this user or this machine cannot read the server's files, UsageError when the
    table is not stored as packed tables are, RunError, also while reading, when its rows change meanwhile.
    """

    def __init__(self, database: Database, columns: Sequence[str], table: TableName, dist_key: Optional[int]) -> None:
        _check_server(database)
        _check_relation(database, table)
        instances = _instances(database, table)
        form = Format(**one(database, dialect(database, "page_format")), order=sys.byteorder)
        files = _files(database, table, instances, columns)
        found = _located(database, table, columns, dist_key)
        database.rows(query("pages", "checkpoint"), table=names.literal(table))
        self.rows: Sequence[int] = [row["rows"] for row in found]
        #: Of each buffer: the instance of the server that holds it, and its number there.
        self._at: List[Tuple[int, int]] = []
        places: Dict[int, List[RowVersion]] = {}
        for row in found:
            here = places.setdefault(row["content"], [])
            self._at.append((row["content"], len(here)))
            here.append(RowVersion(row["block"], row["item"], row["xmin"], row["failed"]))
        self._readers: Dict[int, TableReader] = {}
        for content, here in places.items():
            _check_is_here(instances[content], form)
            self._readers[content] = TableReader(files[content], form, here, tuple(columns))

    def read(self, numbers: Optional[Sequence[int]]) -> Iterator[Buffer]:
        for number in range(len(self.rows)) if numbers is None else numbers:
            content, place = self._at[number]
            yield self._readers[content].row(place)


def _check_server(database: Database) -> None:
    server = one(database, query("pages", "version"))
    if server["number"] < OLDEST and not on_greenplum(database):
        raise SetupError(
            f"strategy 'direct' reads files of PostgreSQL 10 and later, not of {server['version'].split(' on ')[0]}; "
            "use another strategy"
        )
    if server["in_recovery"]:
        raise SetupError("strategy 'direct' needs a primary server, but this one is a standby; use another strategy")


def _instances(database: Database, table: TableName) -> Dict[int, Row]:
    """The instances of the server that hold rows, by number, when their directories may be known."""
    found = database.rows(query("pages", "server"), table=names.literal(table))
    for row in found:
        if row["data_directory"] is None or not row["may_checkpoint"]:
            see, write = "see the server's data_directory", "have the server write by CHECKPOINT"
            raise SetupError(
                f"strategy 'direct' must {see if row['may_checkpoint'] else write}, which role {row['owner']!r} that "
                "installed cerebro-db may not; have a superuser run 'cerebro-db install', or use another strategy"
            )
    return {row["content"]: row for row in found}


def _check_is_here(instance: Row, form: Format) -> None:
    one_of_many = f"segment {instance['content']}, which is on host {instance['hostname']!r},"
    name = "the server" if instance["hostname"] is None else one_of_many
    check_cluster(instance["data_directory"], instance["identifier"], form, name)


def _check_relation(database: Database, table: TableName) -> None:
    """Raise UsageError unless this role may read every row, and they lie in files as they are read here."""
    relation = one(database, dialect(database, "page_table"), table=names.literal(table))
    if not relation["may_read"] or relation["row_security"]:
        why = "has row security" if relation["may_read"] else "may not be read by this role"
        raise UsageError(f"table {table} {why}, and strategy 'direct' reads past the server; use another strategy")
    plain = relation["kind"] in ("r", "m")
    if plain and relation["method"].startswith("ao_"):
        raise UsageError(
            f"table {table} is append-only ({relation['method']}), expected a heap: pack it again, which makes one, or "
            "use another strategy than 'direct'"
        )
    plain = plain and relation["method"] == "heap" and not relation["replicated"]
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


def _files(
    database: Database, table: TableName, instances: Dict[int, Row], columns: Sequence[str]
) -> Dict[int, TableFiles]:
    """Where the table lies in each instance of the server."""
    found = database.rows(query("pages", "attributes"), table=names.literal(table))
    _check_columns(table, {row["name"]: row["type"] for row in found}, columns)
    attributes = tuple(Attribute(row["name"], row["length"], row["align"]) for row in found)
    files = {}
    for row in database.rows(dialect(database, "page_files"), table=names.literal(table)):
        folder = instances[row["content"]]["data_directory"]
        toast = os.path.join(folder, row["toast"]) if row["toast"] else None
        files[row["content"]] = TableFiles(os.path.join(folder, row["heap"]), toast, row["toast_oid"], attributes)
    return files


def _located(database: Database, table: TableName, columns: Sequence[str], dist_key: Optional[int]) -> List[Row]:
    """Buffers in order: rows, content, block, item, xmin, and `failed` as in RowVersion."""
    shape = ident(shape_column(columns[0]))
    locate = query("pages", "locate", packed=table.sql(), shape=shape, content=dialect(database, "content"))
    found = database.rows(locate, dist_key=dist_key)
    failed = set()
    if any(row["xmax"] for row in found):
        # Who has marked a row by now and is over after that, but whose mark a later look does not heed, has failed.
        marked = {_version(row) for row in found}
        running = {(row["content"], row["xid"]) for row in database.rows(dialect(database, "running"))}
        found = database.rows(locate, dist_key=dist_key)
        failed = {each for each in marked if (each[0], each[-1]) not in running}
    return [{**row, "failed": row["xmax"] if _version(row) in failed else 0} for row in found]


def _version(row: Row) -> Tuple[int, ...]:
    return tuple(row[name] for name in ("content", "block", "item", "xmin", "xmax"))


def _check_columns(table: TableName, types: Dict[str, str], columns: Sequence[str]) -> None:
    for name in columns:
        if name not in types:
            raise MissingError(f"column {name!r} does not exist in table {table}{names.nearest(name, types)}")
        if types[name] != "bytea":
            raise UsageError(f"column {name!r} of table {table} has type {types[name]}, expected bytea")
