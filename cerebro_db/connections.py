"""The `server` argument of the Python API: a DSN, a SQLAlchemy engine, or a SQLAlchemy connection.

A DSN is read by libpq's rules (None: the configuration file, PGHOST and the rest, else the embedded server). The
transaction of a connection is used and left to the caller.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import Any, Iterator, Optional, Union

import pandas as pd
import psycopg2
from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from cerebro_db import calls, settings
from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.jobs import Job, Result, run
from cerebro_db.sqltext import Fragment, TableName, query

Server = Union[None, str, Engine, Connection]


def perform(server: Server, job: Job[Result]) -> Result:
    """Do a job in this process, all of it or nothing: of the caller's own connection, in a savepoint."""
    with session(server) as database:
        own = isinstance(server, Connection) and not database.connection.autocommit
        with server.begin_nested() if own else nullcontext():  # type: ignore[union-attr]
            return run(database, job)


@contextmanager
def open_connection(server: Server) -> Iterator[Connection]:
    """A connection whose work is committed at the end; the caller's own is left as it is."""
    if isinstance(server, Connection):
        yield server
        return
    with own_errors(), _engine(server).begin() as connection:
        yield connection


@contextmanager
def session(server: Server) -> Iterator[PsycopgDatabase]:
    """The seam over a session that commits by itself; over the caller's own connection, in its transaction."""
    if isinstance(server, Connection):
        with own_errors(), _borrowed(server) as database:
            yield database
    elif isinstance(server, Engine):
        alone = server.execution_options(isolation_level="AUTOCOMMIT")
        with own_errors(), alone.connect() as connection, _borrowed(connection) as database:
            yield database
    else:
        with connect(_dsn(server)) as database, calls.own_errors():
            yield database


@contextmanager
def _borrowed(connection: Connection) -> Iterator[PsycopgDatabase]:
    connection.exec_driver_sql("select 1")  # begins the transaction that SQLAlchemy is to end
    own = driver(connection)
    notices = own.notices
    try:
        with calls.own_errors():
            yield PsycopgDatabase(own)
    finally:
        if not own.closed:
            own.notices = notices


def _engine(server: Union[None, str, Engine]) -> Engine:
    if isinstance(server, Engine):
        return server
    dsn = _dsn(server)
    return create_engine("postgresql+psycopg2://", creator=lambda: connect(dsn).connection, poolclass=NullPool)


def _dsn(server: Optional[str]) -> Optional[str]:
    return settings.find().dsn if server is None else server


@contextmanager
def own_errors() -> Iterator[None]:
    """An error that a SQL function raised on purpose comes out as the class it had in the server."""
    try:
        yield
    except DBAPIError as error:
        if not isinstance(error.orig, psycopg2.Error):
            raise
        raise calls.ours(error.orig) from error


def driver(connection: Connection) -> Any:
    """The psycopg2 connection below."""
    return connection.connection.driver_connection


def frame(server: Server, sql: Fragment, **values: Any) -> pd.DataFrame:
    """The rows of a query."""
    with open_connection(server) as connection, own_errors():
        result = connection.exec_driver_sql(sql, values)
        made: pd.DataFrame = pd.DataFrame(result.all(), columns=list(result.keys()))
        return made


def table_frame(server: Server, table: TableName) -> pd.DataFrame:
    """A table as it is."""
    return frame(server, query("api", "table", table=table.sql()))
