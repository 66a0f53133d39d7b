"""Model selection from Python, and its tables as pandas frames.

    run = cerebro_db.fit("dbname=shop", "train_packed", "models", "configs", 2, validation_table="test_packed")
    run.leaderboard

`server` is a libpq DSN (None: PGHOST and the rest, else the embedded server), a SQLAlchemy engine, or a
SQLAlchemy connection, whose transaction is then used and left to the caller. Errors of the server that
have a class here are raised as that class. With strategy `in_rdbms` the server coordinates a run, with
any other one this process does. What the arguments do not say, the configuration file may (`settings`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Optional, Union

import pandas as pd

from cerebro_db import calls, runs, settings
from cerebro_db.connections import Server, frame, session, table_frame
from cerebro_db.errors import MissingError, unknown
from cerebro_db.planning import FitRequest
from cerebro_db.report import write_report
from cerebro_db.sqltext import TableName, query


@dataclass(frozen=True)
class Run:
    """A run and the tables it left, each read when it is asked for."""

    server: Server
    run_id: int

    @property
    def run(self) -> pd.DataFrame:
        """One row: the view cerebro.run."""
        return frame(self.server, query("api", "run"), run_id=self.run_id)

    @property
    def progress(self) -> pd.DataFrame:
        """One row: how far it is, how fast, and the best config so far."""
        return status(self.server, self.run_id)

    @property
    def hops(self) -> pd.DataFrame:
        """Finished hops in the order in which they started, with where the time went [s]."""
        return frame(self.server, query("api", "hops"), run_id=self.run_id)

    @property
    def metrics(self) -> pd.DataFrame:
        """Loss and metric by config and epoch."""
        return frame(self.server, query("api", "metrics"), run_id=self.run_id)

    @property
    def info(self) -> pd.DataFrame:
        """The table <output>_info: one row per config."""
        return table_frame(self.server, self._output("_info"))

    @property
    def summary(self) -> pd.DataFrame:
        """The table <output>_summary: one row."""
        return table_frame(self.server, self._output("_summary"))

    @property
    def leaderboard(self) -> pd.DataFrame:
        """Configs of <output>_info from best to worst."""
        sql = query("api", "leaderboard", info=self._output("_info").sql())
        return frame(self.server, sql, run_id=self.run_id)

    def report(self, path: Union[str, Path]) -> Path:
        """Write the HTML page about the run, and return where it is."""
        with session(self.server) as database:
            return write_report(database, self.run_id, path)

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
    with session(server) as database:
        return Run(server, calls.waited(calls.fit(database, request))["run_id"])


def resume(server: Server, run_id: int) -> Run:
    """Finish a run that was killed, cancelled or failed."""
    with session(server) as database:
        return Run(server, calls.waited(calls.resume(database, run_id))["run_id"])


def cancel(server: Server, run_id: int) -> None:
    """End a run of another session or process; it can be resumed. Raises RunError when it does not run."""
    with session(server) as database:
        runs.cancel(database, run_id)


def find_run(server: Server, run_id: int) -> Run:
    """A run of the caller's; raises MissingError for a number that is none."""
    status(server, run_id)
    return Run(server, run_id)


def status(server: Server = None, run_id: Optional[int] = None) -> pd.DataFrame:
    """One row per run of the caller's, or for one run."""
    found = frame(server, query("catalog", "progress"), run_id=run_id)
    if run_id is not None and found.empty:
        with session(server) as database:
            runs.status(database, run_id)  # raises, since it is none of the caller's
    return found
