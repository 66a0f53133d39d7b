"""Model selection from Python: the SQL functions, and their tables as pandas frames.

    run = cerebro_db.fit("dbname=shop", "train_packed", "models", "configs", 2, validation_table="test_packed")
    run.leaderboard

`server` is a libpq DSN (None: PGHOST and the rest, else the embedded server), a SQLAlchemy engine, or a
SQLAlchemy connection, whose transaction is then used and left to the caller. Errors of the server that
have a class here are raised as that class.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Dict, Iterator, Mapping, Optional, Union

import pandas as pd
from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.errors import SQL_ERRORS, CerebroError, MissingError, unknown
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

    `arguments` are those of madlib_mop_fit by name, such as validation_table, name, or options as a dict.
    """
    known = [item.name for item in fields(FitRequest)][4:]
    for name in arguments:
        if name not in known:
            raise unknown("argument", name, known)
    values = {**{item.name: item.default for item in fields(FitRequest)[4:]}, **arguments}
    if isinstance(values["options"], Mapping):
        values["options"] = json.dumps(values["options"])
    values |= {
        "source_table": source, "model_output_table": output, "model_selection_table": selection,
        "num_iterations": iterations,
    }  # fmt: skip
    return Run(server, _called(server, query("api", "fit"), values)["run_id"])


def resume(server: Server, run_id: int) -> Run:
    """Finish a run that was killed, cancelled or failed."""
    return Run(server, _called(server, query("api", "resume"), {"run_id": run_id})["run_id"])


def find_run(server: Server, run_id: int) -> Run:
    """A run of the caller's; raises MissingError for a number that is none."""
    status(server, run_id)
    return Run(server, run_id)


def status(server: Server = None, run_id: Optional[int] = None) -> pd.DataFrame:
    """One row per run of the caller's, or for one run."""
    return _frame(server, query("api", "status"), run_id=run_id)


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
    engine = server if isinstance(server, Engine) else _engine(server)
    with _own_errors(), engine.begin() as connection:
        yield connection


def _engine(dsn: Optional[str]) -> Engine:
    return create_engine("postgresql+psycopg2://", creator=lambda: connect(dsn).connection, poolclass=NullPool)


@contextmanager
def _own_errors() -> Iterator[None]:
    """An error that a SQL function raised on purpose comes out as the class it had in the server."""
    try:
        yield
    except DBAPIError as error:
        told = getattr(getattr(error.orig, "diag", None), "message_primary", None) or ""
        kind = SQL_ERRORS.get(getattr(error.orig, "pgcode", None) or "", CerebroError)
        if not told.startswith("cerebro: "):
            raise
        raise kind(told[len("cerebro: ") :]) from error


def _driver(connection: Connection) -> Any:
    """The psycopg2 connection below."""
    return connection.connection.driver_connection


def _called(server: Server, sql: Fragment, values: Dict[str, Any]) -> Dict[str, Any]:
    """The row of a long call. It runs in a thread, so that Ctrl-C is seen, and cancels it."""
    with _connection(server) as connection, _own_errors(), ThreadPoolExecutor(1) as pool:
        rows = pool.submit(lambda: connection.exec_driver_sql(sql, values).mappings().all())
        try:
            return dict(rows.result()[0])
        except KeyboardInterrupt:
            _driver(connection).cancel()
            raise


def _frame(server: Server, sql: Fragment, **values: Any) -> pd.DataFrame:
    with _connection(server) as connection, _own_errors():
        result = connection.exec_driver_sql(sql, values)
        frame: pd.DataFrame = pd.DataFrame(result.all(), columns=list(result.keys()))
        return frame


def _table(server: Server, table: TableName) -> pd.DataFrame:
    return _frame(server, query("api", "table", table=table.sql()))
