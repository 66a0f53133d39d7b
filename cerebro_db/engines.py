"""PostgreSQL or Greenplum: which one a session talks to, and its own way to say things."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from cerebro_db import sqltext
from cerebro_db.database import Database, one
from cerebro_db.sqltext import Fragment, ident, join, query

GREENPLUM = "greenplum"
POSTGRESQL = "postgresql"

_known: WeakKeyDictionary[Database, str] = WeakKeyDictionary()


def engine(database: Database) -> str:
    """POSTGRESQL or GREENPLUM; the server is asked once per session."""
    if database not in _known:
        _known[database] = one(database, query("check", "engine"))["engine"]
    return _known[database]


def on_greenplum(database: Database) -> bool:
    return engine(database) == GREENPLUM


def dialect(database: Database, name: str, **parts: Fragment) -> Fragment:
    """The query `name` as the session's engine says it."""
    return sqltext.dialect(engine(database), name, **parts)


def stored(database: Database, *columns: str) -> Fragment:
    """What CREATE TABLE says after its columns: a heap, its rows spread by `columns`; without any, on every segment."""
    names = join(", ", map(ident, columns))
    where = dialect(database, "distributed", columns=names) if columns else dialect(database, "replicated")
    return join(" ", (dialect(database, "heap"), where))
