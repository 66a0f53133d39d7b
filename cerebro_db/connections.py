"""The `server` argument of the Python API: a DSN, a SQLAlchemy engine, or a SQLAlchemy connection.

A DSN is read by libpq's rules (None: PGHOST and the rest, else the embedded server). The transaction of a
connection is used and left to the caller.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import Any, Dict, Iterator, Optional, Union

import pandas as pd
from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.errors import SQL_ERRORS, CerebroError
from cerebro_db.jobs import Job, Result, run
from cerebro_db.sqltext import Fragment, TableName, query

Server = Union[None, str, Engine, Connection]


@contextmanager
def open_connection(server: Server) -> Iterator[Connection]:
    """A connection whose work is committed at the end; the caller's own is left as it is."""
    if isinstance(server, Connection):
        yield server
        return
    engine = server if isinstance(server, Engine) else _engine(server)
    with own_errors(), engine.begin() as connection:
        yield connection


@contextmanager
def own_errors() -> Iterator[None]:
    """An error that a SQL function raised on purpose comes out as the class it had in the server."""
    try:
        yield
    except DBAPIError as error:
        told = getattr(getattr(error.orig, "diag", None), "message_primary", None) or ""
        kind = SQL_ERRORS.get(getattr(error.orig, "pgcode", None) or "", CerebroError)
        if not told.startswith("cerebro: "):
            raise
        raise kind(told[len("cerebro: ") :]) from error


def driver(connection: Connection) -> Any:
    """The psycopg2 connection below."""
    return connection.connection.driver_connection


def perform(server: Server, job: Job[Result]) -> Result:
    """Do a job in this process, all of it or nothing: of the caller's own connection, in a savepoint."""
    with open_connection(server) as connection:
        own = isinstance(server, Connection) and not driver(connection).autocommit
        with connection.begin_nested() if own else nullcontext():
            return run(PsycopgDatabase(driver(connection)), job)


def called(server: Server, sql: Fragment, values: Dict[str, Any]) -> Dict[str, Any]:
    """The row of a long call. It runs in a thread, so that Ctrl-C is seen, and cancels it."""
    with open_connection(server) as connection, own_errors(), ThreadPoolExecutor(1) as pool:
        rows = pool.submit(lambda: connection.exec_driver_sql(sql, values).mappings().all())
        try:
            return dict(rows.result()[0])
        except KeyboardInterrupt:
            driver(connection).cancel()
            raise


def frame(server: Server, sql: Fragment, **values: Any) -> pd.DataFrame:
    """The rows of a query."""
    with open_connection(server) as connection, own_errors():
        result = connection.exec_driver_sql(sql, values)
        made: pd.DataFrame = pd.DataFrame(result.all(), columns=list(result.keys()))
        return made


def table_frame(server: Server, table: TableName) -> pd.DataFrame:
    """A table as it is."""
    return frame(server, query("api", "table", table=table.sql()))


def _engine(dsn: Optional[str]) -> Engine:
    return create_engine("postgresql+psycopg2://", creator=lambda: connect(dsn).connection, poolclass=NullPool)
