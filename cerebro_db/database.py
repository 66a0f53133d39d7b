"""The seam to a database: the same code runs inside a backend (plpy) and in a client (psycopg2).

Values arrive as plain Python: `bytea` is bytes, arrays are lists, SQL NULL is None. JSON and
timestamps differ between the two drivers, so queries select them as `::text` or as epoch seconds.
"""

from __future__ import annotations

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
