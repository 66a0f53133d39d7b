"""Rows of a query from the segment of Greenplum that holds them, past the coordinator: a parallel retrieve cursor.

The session that declares the cursor stays in its transaction; a second session, with the segment itself, fetches
the rows, as text, which costs twice the time of a binary COPY. So it is of use only where the segment is on another
host than the coordinator, which then does not pass on every row. The server is asked for both. A worker
that the segment does not let in, often since it stands behind a firewall, goes by COPY.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, Optional

from cerebro_db.client import FETCH_BYTES, PsycopgDatabase, connect
from cerebro_db.database import Database, Row, one
from cerebro_db.engines import dialect
from cerebro_db.errors import SetupError
from cerebro_db.sqltext import Fragment, ident, query

#: What of a session's parameters its second session has too.
_KEPT = ("connect_timeout", "application_name", "dbname")
#: Makes a session with a segment one that may fetch, and nothing else.
_OPTIONS = "-c gp_retrieve_conn=true"


def are_useful(database: Database) -> bool:
    """Whether this server has such cursors, and segments on other hosts than the coordinator's."""
    return bool(one(database, dialect(database, "has_endpoints"))["useful"])


class Retrieval:
    """Fetches from one segment. For one thread, but for `cancel`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: The session whose statement may be cancelled now; never one that commits, which would hang.
        self._waits: Optional[PsycopgDatabase] = None

    def run(self, session: PsycopgDatabase, rows: Fragment, values: Dict[str, Any], put: Callable[[Row], None]) -> bool:
        """Hand each row of a query that one segment answers to `put`; False when it cannot be had so, before any.

        `session` is with the coordinator. Raises what the server raises.
        """
        with session.transaction():
            with self._cancellable(session):
                session.rows(query("copy", "cursor", rows=rows), **values)
            found = session.rows(query("copy", "endpoints"))
            opened = _opened(session, found)
            if opened is None:
                session.rows(query("copy", "close"))
                return False
            with opened:
                with self._cancellable(opened):
                    _fetch(opened, found[0]["endpoint"], put)
                session.rows(query("copy", "retrieved"))
        return True

    def cancel(self) -> None:
        """End the statement that `run` waits for, from any thread."""
        with self._lock:
            if self._waits is not None:
                self._waits.cancel()

    @contextmanager
    def _cancellable(self, session: PsycopgDatabase) -> Iterator[None]:
        with self._lock:
            self._waits = session
        try:
            yield
        finally:
            with self._lock:
                self._waits = None


def _opened(session: PsycopgDatabase, found: List[Row]) -> Optional[PsycopgDatabase]:
    """A session with the one segment that has the rows; None when there is no such one, or it lets nobody in."""
    if len(found) != 1 or found[0]["segment"] < 0:
        return None
    parameters = session.connection.get_dsn_parameters()
    kept: Dict[str, Any] = {name: parameters[name] for name in parameters if name in _KEPT or name.startswith("ssl")}
    where = {"host": found[0]["hostname"], "port": found[0]["port"], "user": found[0]["username"]}
    try:
        return connect("", **kept, **where, password=found[0]["auth_token"], options=_OPTIONS)
    except SetupError:
        return None


def _fetch(session: PsycopgDatabase, endpoint: str, put: Callable[[Row], None]) -> None:
    count = 1
    while True:
        rows = session.rows(query("copy", "retrieve", count=Fragment(f"{count:d}"), endpoint=ident(endpoint)))
        for row in rows:
            put(row)
        if len(rows) < count:
            return
        size = sum(len(value) for value in rows[-1].values() if isinstance(value, bytes))
        count = max(1, FETCH_BYTES // max(1, size))
