"""The seam to a database: the same code runs inside a backend (plpy) and in a client (psycopg2).

Values arrive as plain Python: `bytea` is bytes, arrays are lists, SQL NULL is None. JSON and
timestamps differ between the two drivers, so queries select them as `::text` or as epoch seconds.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Dict, Iterator, List, Protocol

from cerebro_db.sqltext import Fragment

Row = Dict[str, Any]


class Database(Protocol):
    """One session. Used from one thread; rows that are returned belong to the caller."""

    def rows(self, sql: Fragment, **values: Any) -> List[Row]:
        """Run one statement with bound values; all its rows as dicts ([] when it returns none)."""

    def stream(self, sql: Fragment, **values: Any) -> Iterator[Row]:
        """Rows of a query one by one through a cursor, in flat memory."""

    def notice(self, message: str) -> None:
        """A line for the person who waits."""


def one(database: Database, sql: Fragment, **values: Any) -> Row:
    """The only row of a query."""
    (row,) = database.rows(sql, **values)
    return row


def together(database: Database) -> AbstractContextManager[None]:
    """One transaction in a client; inside a backend the calling statement is one already."""
    transaction: AbstractContextManager[None] = getattr(database, "transaction", nullcontext)()
    return transaction


def sql_type(value: Any) -> str:
    """The SQL type a Python value is bound as; None binds as text and is cast in the query."""
    if isinstance(value, (list, tuple)):
        return sql_type(next((item for item in value if item is not None), "")) + "[]"
    for kind, name in ((bool, "boolean"), (int, "bigint"), (float, "float8"), (bytes, "bytea")):
        if isinstance(value, kind):
            return name
    return "text"
