"""Model selection from Python, and its tables as pandas frames.

    run = cerebro_db.fit("dbname=shop", "train_packed", "models", "configs", 2, validation_table="test_packed")
    run.leaderboard

`server` is a libpq DSN (None: PGHOST and the rest, else the embedded server), a SQLAlchemy engine, or a
SQLAlchemy connection, whose transaction is then used and left to the caller. Errors of the server that
have a class here are raised as that class. With strategy `in_rdbms` the server coordinates a run, with
any other one this process does. What the arguments do not say, the configuration file may (`settings`).
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Dict, Iterator, Optional, Union

import pandas as pd
import psycopg2
from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from cerebro_db import calls, runs, settings
from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.errors import MissingError, unknown
from cerebro_db.planning import FitRequest
from cerebro_db.report import write_report
from cerebro_db.sqltext import Fragment, TableName, query

Server = Union[None, str, Engine, Connection]


@dataclass(frozen=True)
class Run:
    """A run and the tables it left, each read when it is asked for."""

    server: Server
    run_id: int

    @property
    def run(self) -> pd.DataFrame:
        """One row: the view cerebro.run."""
        return _frame(self.server, query("api", "run"), run_id=self.run_id)

    @property
    def progress(self) -> pd.DataFrame:
        """One row: how far it is, how fast, and the best config so far."""
        return status(self.server, self.run_id)

    @property
    def hops(self) -> pd.DataFrame:
        """Finished hops in the order in which they started, with where the time went [s]."""
        return _frame(self.server, query("api", "hops"), run_id=self.run_id)

    @property
    def metrics(self) -> pd.DataFrame:
        """Loss and metric by config and epoch."""
        return _frame(self.server, query("api", "metrics"), run_id=self.run_id)

    @property
    def info(self) -> pd.DataFrame:
        """The table <output>_info: one row per config."""
        return _table(self.server, self._output("_info"))

    @property
    def summary(self) -> pd.DataFrame:
        """The table <output>_summary: one row."""
        return _table(self.server, self._output("_summary"))

    @property
    def leaderboard(self) -> pd.DataFrame:
        """Configs of <output>_info from best to worst."""
        sql = query("api", "leaderboard", info=self._output("_info").sql())
        return _frame(self.server, sql, run_id=self.run_id)

    def report(self, path: Union[str, Path]) -> Path:
        """Write the HTML page about the run, and return where it is."""
        with _connection(self.server) as connection:
            return write_report(PsycopgDatabase(_driver(connection)), self.run_id, path)

    def _output(self, suffix: str) -> TableName:
        row = self.run.iloc[0]
        if row["status"] != "finished":
            raise MissingError(f"run {self.run_id} is {row['status']}; its tables are made when it has finished")
        return TableName.parse(row["model_output_table"]).suffixed(suffix)


def fit(server: Server, source: str, output: str, selection: str, iterations: int = 1, **arguments: Any) -> Run:
    """Train all configs of a selection table; Ctrl-C cancels the run, which can be resumed.

    `arguments` are those of madlib_mop_fit by name, such as validation_table, strategy, or options as a dict.
    """
    known = [item.name for item in fields(FitRequest)][4:]
    for name in arguments:
        if name not in known:
            raise unknown("argument", name, known)
    options = arguments.pop("options", None)
    request = settings.find().below(FitRequest(source, output, selection, iterations, **arguments), options)
    with _session(server) as database:
        return Run(server, calls.waited(calls.fit(database, request))["run_id"])


def resume(server: Server, run_id: int) -> Run:
    """Finish a run that was killed, cancelled or failed."""
    with _session(server) as database:
        return Run(server, calls.waited(calls.resume(database, run_id))["run_id"])


def cancel(server: Server, run_id: int) -> None:
    """End a run of another session or process; it can be resumed. Raises RunError when it does not run."""
    with _session(server) as database:
        runs.cancel(database, run_id)


def find_run(server: Server, run_id: int) -> Run:
    """A run of the caller's; raises MissingError for a number that is none."""
    status(server, run_id)
    return Run(server, run_id)


def status(server: Server = None, run_id: Optional[int] = None) -> pd.DataFrame:
    """One row per run of the caller's, or for one run."""
    frame = _frame(server, query("catalog", "progress"), run_id=run_id)
    if run_id is not None and frame.empty:
        with _session(server) as database:
            runs.status(database, run_id)  # raises, since it is none of the caller's
    return frame


def evaluate(
    server: Server, models: str, table: str, output: str, mst_key: Optional[int] = None
) -> pd.DataFrame:
    """Evaluate one config, or the best, on a packed table: the row of the table `output`, which is made."""
    values = {"models": models, "table": table, "output": output, "mst_key": mst_key}
    _called(server, query("api", "evaluate"), values)
    return _table(server, TableName.parse(output))


def predict(server: Server, models: str, table: str, id_col: str, output: str, **arguments: Any) -> pd.DataFrame:
    """Predict raw rows with one config, or the best: the rows of the table `output`, which is made.

    `arguments` are independent_varname, pred_type and mst_key of madlib_mop_predict.
    """
    values: Dict[str, Any] = {"independent_varname": None, "pred_type": "prob", "mst_key": None}
    for name in arguments:
        if name not in values:
            raise unknown("argument", name, values)
    values |= {**arguments, "models": models, "table": table, "id_col": id_col, "output": output}
    values["pred_type"] = str(values["pred_type"])
    _called(server, query("api", "predict"), values)
    return _table(server, TableName.parse(output))


@contextmanager
def _connection(server: Server) -> Iterator[Connection]:
    """A connection whose work is committed at the end; the caller's own is left as it is."""
    if isinstance(server, Connection):
        yield server
        return
    with _own_errors(), _engine(server).begin() as connection:
        yield connection


@contextmanager
def _session(server: Server) -> Iterator[PsycopgDatabase]:
    """The seam over a session that commits by itself; over the caller's own connection, in its transaction."""
    if isinstance(server, Connection):
        with _own_errors(), _borrowed(server) as database:
            yield database
    elif isinstance(server, Engine):
        alone = server.execution_options(isolation_level="AUTOCOMMIT")
        with _own_errors(), alone.connect() as connection, _borrowed(connection) as database:
            yield database
    else:
        with connect(_dsn(server)) as database, calls.own_errors():
            yield database


@contextmanager
def _borrowed(connection: Connection) -> Iterator[PsycopgDatabase]:
    connection.exec_driver_sql("select 1")  # begins the transaction that SQLAlchemy is to end
    driver = _driver(connection)
    notices = driver.notices
    try:
        with calls.own_errors():
            yield PsycopgDatabase(driver)
    finally:
        if not driver.closed:
            driver.notices = notices


def _engine(server: Union[None, str, Engine]) -> Engine:
    if isinstance(server, Engine):
        return server
    dsn = _dsn(server)
    return create_engine("postgresql+psycopg2://", creator=lambda: connect(dsn).connection, poolclass=NullPool)


def _dsn(server: Optional[str]) -> Optional[str]:
    return settings.find().dsn if server is None else server


@contextmanager
def _own_errors() -> Iterator[None]:
    """An error that a SQL function raised on purpose comes out as the class it had in the server."""
    try:
        yield
    except DBAPIError as error:
        if not isinstance(error.orig, psycopg2.Error):
            raise
        raise calls.ours(error.orig) from error


def _driver(connection: Connection) -> Any:
    """The psycopg2 connection below."""
    return connection.connection.driver_connection


def _called(server: Server, sql: Fragment, values: Dict[str, Any]) -> Dict[str, Any]:
    """The row of a long call; Ctrl-C cancels it."""
    with _session(server) as database:
        return calls.waited(calls.Statement(database, sql, values))


def _frame(server: Server, sql: Fragment, **values: Any) -> pd.DataFrame:
    with _connection(server) as connection, _own_errors():
        result = connection.exec_driver_sql(sql, values)
        frame: pd.DataFrame = pd.DataFrame(result.all(), columns=list(result.keys()))
        return frame


def _table(server: Server, table: TableName) -> pd.DataFrame:
    return _frame(server, query("api", "table", table=table.sql()))
