"""Buffers of a packed table from files that were written once, as `batches.SegmentRows` reads them.

An export is good as long as the table has the very row versions that it had: every insert, update, delete
and rewrite gives another fingerprint, which is one pass over the short rows of the packed table, not over
their bytes. It is asked with the caller's rights each time, so who may not read the table gets no export.
Of a replicated table Greenplum shows no row versions; there the server hashes the bytes.
"""

from __future__ import annotations

import hashlib
from contextlib import closing
from typing import Iterator, Optional, Tuple

from cerebro_db import export_folder, names
from cerebro_db.batches import Buffer
from cerebro_db.copy_source import Connect, CopySource
from cerebro_db.database import Database, Row, one
from cerebro_db.engines import dialect
from cerebro_db.errors import RunError, UsageError
from cerebro_db.export_files import FORMAT, Column, ExportSource, Index
from cerebro_db.layout import Layout
from cerebro_db.packed import fingerprint
from cerebro_db.sqltext import Fragment, TableName, fill, ident, join, query

#: What is read and not yet written [bytes].
AHEAD_BYTES = 16_000_000
_DIGEST = Fragment("md5(p.{column})")


def open_export(
    database: Database, connect: Connect, layout: Layout, table: TableName, dist_key: Optional[int]
) -> ExportSource:
    """The export of one segment, or of all when `dist_key` is None; written now unless it is there already.

    Whoever asks meanwhile waits, and reads the same files. `connect` opens the session that copies.
    Raises SetupError when the files cannot be written, RunError when rows change while they are.
    """
    facts = _facts(database, table)
    columns = tuple(Column(item.column, item.dtype, item.shape) for item in layout.columns)
    seen = _seen(database, table, facts, columns)
    name = _digest(FORMAT, seen, columns)
    with export_folder.place(_key(database, facts, dist_key)) as place:
        found = place.version(name)
        if found is None:
            source = CopySource(database, connect, [c.name for c in columns], table, dist_key, AHEAD_BYTES)
            index = Index(facts["database"], str(table), dist_key, seen, tuple(source.rows), columns)
            with closing(source):
                found = place.write(name, index, _unchanged(database, table, index, source))
        place.remove_others(name)
    return found


def _unchanged(database: Database, table: TableName, index: Index, source: CopySource) -> Iterator[Buffer]:
    """All buffers; raises RunError behind the last when the table is not as it was before the first."""
    yield from source.read(None)
    # A row version that is gone never comes back, so what was seen before and after was there between.
    if _seen(database, table, _facts(database, table), index.columns) != index.fingerprint:
        raise RunError(f"table {table} changed while it was exported; run it again when nothing writes to it")


def _facts(database: Database, table: TableName) -> Row:
    facts = one(database, dialect(database, "export_table"), table=names.literal(table))
    if not facts["may_read"]:
        raise UsageError(f"table {table} may not be read by this role; have its owner grant select on all of it")
    if not facts["is_plain"] or facts["is_temporary"]:
        raise UsageError(
            f"table {table} is no ordinary table, expected one as training_preprocessor_dl makes it; use another "
            "strategy than 'export'"
        )
    return facts


def _seen(database: Database, table: TableName, facts: Row, columns: Tuple[Column, ...]) -> str:
    """What the caller sees of the table, by row versions, or by bytes where these are not shown."""
    if not facts["has_versions"]:
        digests = join(" || ", [fill(_DIGEST, column=ident(column.name)) for column in columns])
        row = one(database, query("exports", "contents", packed=table.sql(), digests=digests))
        return f"{facts['filenode']}:{row['rows']}:{row['digest']}"
    return f"{facts['filenode']}:{fingerprint(database, table)}"


def _key(database: Database, facts: Row, dist_key: Optional[int]) -> str:
    part = "all" if dist_key is None else dist_key
    return f"{_cluster(database, facts)}-{facts['database_oid']}-{facts['table_oid']}-{part}"


def _cluster(database: Database, facts: Row) -> str:
    identifier = one(database, query("exports", "cluster"))["identifier"]
    return identifier or _digest(facts["version"], facts["address"], facts["port"])


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode("utf-8")).hexdigest()[:16]
