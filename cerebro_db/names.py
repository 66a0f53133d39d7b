"""Tables and columns, looked up in the database's own catalog.

A name resolves as in SQL: by its schema, else by the caller's search path. Whatever holds rows
is a table here: tables, views, materialised views, partitioned and foreign tables.
"""

from __future__ import annotations

import difflib
from typing import Dict, Iterable, List, Optional, Tuple

from cerebro_db.database import Database, Row, one
from cerebro_db.errors import ExistsError, MissingError, UsageError
from cerebro_db.sqltext import TableName, query


def find(database: Database, table: TableName) -> Optional[TableName]:
    """The table with its schema, or None when there is none of that name."""
    found = database.rows(query("names", "find"), schema=table.schema, name=table.name)
    return TableName(found[0]["schema"], found[0]["name"]) if found else None


def require(database: Database, text: Optional[str], what: str) -> TableName:
    """The existing table that `text` names, with its schema; `what` says its role in errors.

    Raises UsageError for a text that is no name, MissingError when nothing of that name exists.
    """
    table = TableName.parse(text, what)
    found = find(database, table)
    if found is None:
        known = database.rows(query("names", "visible_names"), schema=table.schema)
        raise MissingError(
            f"{what} {table} does not exist{nearest(table.name, (row['name'] for row in known))}; "
            "check its name and schema, and quote names with capitals as in SQL"
        )
    return found


def require_new(
    database: Database, text: Optional[str], what: str, suffixes: Tuple[str, ...] = ()
) -> TableName:
    """The name of a table to create, with its schema; `suffixes` are siblings to be created too.

    Raises ExistsError when anything bears one of these names already, UsageError when the name
    is too long or its schema cannot take a table, MissingError when the schema does not exist.
    """
    table = TableName.parse(text, what)
    place = one(database, query("names", "target_schema"), schema=table.schema)
    _check_schema(place, table, what)
    names = [table.name + suffix for suffix in ("", *suffixes)]
    _check_length(names, int(place["name_bytes"]), what)
    taken = database.rows(query("names", "taken"), schema=place["schema"], names=names)
    if taken:
        _exists([TableName(place["schema"], row["name"]) for row in taken], what)
    return TableName(place["schema"], table.name)


def columns(database: Database, table: TableName) -> Dict[str, str]:
    """Column names in order -> their SQL types, such as `numeric(12,4)`."""
    found = database.rows(query("names", "columns"), table=literal(table))
    return {row["name"]: row["type"] for row in found}


def literal(table: TableName) -> str:
    """The quoted name as a value, for casts to regclass."""
    parts = (part for part in (table.schema, table.name) if part is not None)
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def nearest(name: str, known: Iterable[str]) -> str:
    """", did you mean ...?" when a known name is near, else nothing."""
    by_lower = {known_name.lower(): known_name for known_name in known}
    near = difflib.get_close_matches(name.lower(), list(by_lower), n=1, cutoff=0.6)
    return f" (did you mean {by_lower[near[0]]!r}?)" if near else ""


def _check_schema(place: Row, table: TableName, what: str) -> None:
    if place["schema"] is None:
        raise UsageError(
            f"{what} {table} names no schema and the search_path holds none to create it in; "
            f"write schema.{table.name}"
        )
    if not place["exists"]:
        raise MissingError(f"schema {place['schema']!r} of {what} {table} does not exist; create it first")
    if place["schema"] == "pg_catalog":
        raise UsageError(f"{what} {table} would be created in pg_catalog; write schema.{table.name}")
    if not place["may_create"]:
        raise UsageError(
            f"role {place['role']!r} may not create {what} {table} in schema {place['schema']!r}; "
            "name another schema, or have CREATE granted on this one"
        )


def _check_length(names: List[str], limit: int, what: str) -> None:
    longest = max(names, key=lambda name: len(name.encode()))
    if len(longest.encode()) > limit:
        raise UsageError(
            f"{what} name {names[0]!r} is too long: {longest!r} has {len(longest.encode())} bytes, "
            f"and the server keeps {limit}; choose a shorter one"
        )


def _exists(taken: List[TableName], what: str) -> None:
    shown = " and ".join(str(table) for table in taken)
    verb, them = ("exists", "it") if len(taken) == 1 else ("exist", "them")
    raise ExistsError(
        f"{what} {shown} already {verb}; nothing is overwritten: drop {them} first or choose another name"
    )
