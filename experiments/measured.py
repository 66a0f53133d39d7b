"""One training of a grid of configs, measured: by the engine through its public names, or by a baseline."""

from __future__ import annotations

import math
import os
import subprocess
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count
from types import MappingProxyType
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import psycopg2
import psycopg2.errors
import sqlalchemy.exc

import cerebro_db
from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.connections import Server
from cerebro_db.errors import CerebroError
from cerebro_db.report import accounting
from cerebro_db.report.read import read_run
from cerebro_db.report.record import PARTS, Record
from cerebro_db.sqltext import Fragment, fill, ident
from experiments.baselines import base
from experiments.resources import Meter, Resources
from experiments.results import PARTS as COLUMNS
from experiments.results import Point, Sample
from experiments.workloads.base import Config, Size, Tables
from experiments.workloads.registry import find

MB = 1e6
#: What the engine, the server and the baselines' processes can fail with.
FAILURES = (CerebroError, psycopg2.Error, sqlalchemy.exc.SQLAlchemyError, subprocess.SubprocessError, OSError)
#: How long idle sessions wait for the next call of a question that measures in warm ones.
WARM_SECONDS = 120
#: Options of a baseline that is asked as it is.
NONE: Mapping[str, Any] = MappingProxyType({})
_numbers = count(1)


@dataclass(frozen=True)
class Grid:
    """Configs on rows that lie packed in the database."""

    workload: str
    size: Size
    #: Training rows of the packed table.
    rows: int
    configs: Tuple[Config, ...]
    epochs: int
    tables: Tables


class Bench:
    """Where the experiments train.

    `server_pid` is the server's first process when it runs on this machine, so that its use of the machine counts.
    """

    def __init__(self, dsn: str, server_pid: Optional[int] = None) -> None:
        self.dsn = dsn
        #: Told what is being done, for a person who watches.
        self.note: Callable[[str], object] = lambda doing: None
        #: Told what a person should know afterwards too.
        self.say: Callable[[str], object] = lambda line: None
        #: What failed while the rest of its question went on.
        self.failures: List[str] = []
        self._server: Server = dsn
        #: The sessions of a warm question have trained once.
        self._warmed = False
        self._roots = [os.getpid()] + ([server_pid] if server_pid else [])

    @contextmanager
    def sessions(self, warm: bool, ready: bool = True) -> Iterator[None]:
        """Warm: one session makes all calls inside, and what it trains in waits for the next one. Else each is new.

        Ready: it has trained once before anything is measured.

        Only what the server keeps for that session, which ends with it: what this process would keep for other
        strategies would count as memory of later measurements.
        """
        engine = sqlalchemy.create_engine("postgresql+psycopg2://", creator=lambda: connect(self.dsn).connection)
        self._server = engine if warm else self.dsn
        self._warmed = not ready
        try:
            yield
        finally:
            engine.dispose()
            self._server = self.dsn

    def grid(self, workload: str, size: Size, configs: Sequence[Config], epochs: int) -> Grid:
        """Load and pack the rows, and make the selection table."""
        self.note(f"packing {size.rows or 'all'} rows of {workload} on {size.segments} segments")
        prefix = f"{workload}_{next(_numbers)}"
        tables = find(workload).prepare(self.dsn, size, configs, prefix)
        with connect(self.dsn) as db:
            rows = packed_rows(db, tables.training)
        return Grid(workload, size, rows, tuple(configs), epochs, tables)

    def fit(
        self, grid: Grid, strategy: str, options: Mapping[str, Any], variant: str = "", repeat: int = 1
    ) -> Tuple[Sample, cerebro_db.Run]:
        """Train the grid by a strategy."""
        self.note(f"{strategy} {variant}: {len(grid.configs)} configs, {grid.rows:,} rows of {grid.workload}")
        keep = WARM_SECONDS if self._server is not self.dsn and strategy == "in_rdbms" else 0
        given = {"keep_seconds": keep, **options}
        if keep and not self._warmed:
            self._trained(grid, strategy, given)
            self._warmed = True
        with connect(self.dsn) as db:
            checkpoint(db)
            with Meter(self._roots) as meter:
                started = time.perf_counter()
                run = self._trained(grid, strategy, given)
                seconds = time.perf_counter() - started
                checkpoint(db)
            record = read_run(db, run.run_id)
        sample = _sample(grid, strategy, variant, repeat, meter.resources)
        return replace(sample, seconds=seconds, **of_record(record, seconds), **_hopped(run)), run

    def _trained(self, grid: Grid, strategy: str, options: Mapping[str, Any]) -> cerebro_db.Run:
        tables = grid.tables
        return cerebro_db.fit(
            self._server, tables.training, f"models_{next(_numbers)}", tables.selection, grid.epochs,
            validation_table=tables.validation, strategy=strategy, options=dict(options),
        )  # fmt: skip

    def tried(self, what: str, measure: Callable[[], Tuple[Sample, object]]) -> Iterator[Sample]:
        """The sample, or none when it failed, which is told at once and makes the question fail in the end."""
        try:
            yield measure()[0]
        except FAILURES as error:
            self.failures.append(f"{what}: {' '.join(str(error).split()) or type(error).__name__}")
            self.say(self.failures[-1])

    def fits(
        self, grid: Grid, strategy: str, options: Mapping[str, Any], variant: str = "", repeats: int = 1
    ) -> Iterator[Sample]:
        """The same several times."""
        for repeat in range(1, repeats + 1):
            yield self.fit(grid, strategy, options, variant, repeat)[0]

    def baseline(
        self, grid: Grid, name: str, processes: int, options: Mapping[str, Any] = NONE, repeat: int = 1
    ) -> Tuple[Sample, base.Result]:
        """Train the grid's configs by a baseline, from arrays in memory."""
        self.note(f"{name}: {len(grid.configs)} configs, {grid.rows:,} rows of {grid.workload}")
        size, configs = grid.size, grid.configs
        job = base.Job(grid.workload, size, configs, grid.epochs, processes=processes, options=dict(options))
        result = base.run(name, job)
        sample = _sample(grid, name, ", ".join(options), repeat, result.resources)
        workers = 1 if name == "sequential" else processes
        seconds = result.seconds + result.startup_seconds
        start = result.startup_seconds * workers
        return replace(sample, seconds=seconds, workers=workers, start=start, **_of_result(result)), result


def _sample(grid: Grid, approach: str, variant: str, repeat: int, used: Resources) -> Sample:
    return Sample(
        workload=grid.workload, approach=approach, variant=variant, segments=grid.size.segments, rows=grid.rows,
        configs=len(grid.configs), epochs=grid.epochs, repeat=repeat, seconds=used.seconds,
        cpu_seconds=used.cpu_seconds, memory_mb=(used.peak_pss_bytes or used.peak_rss_bytes) / MB,
        disk_read_mb=used.read_bytes / MB, disk_written_mb=used.written_bytes / MB,
        network_mb=(used.loopback_bytes + used.network_bytes) / MB,
    )  # fmt: skip


def of_record(record: Record, seconds: float) -> Dict[str, Any]:
    """Time, rows and accuracy, by the same accounting as the report of a run.

    A worker that waits between the first hop and the last is idle. Before, sessions are made, and after, outputs: that
    counts as start.
    """
    shares, schedule = accounting.time_of_segments(record), accounting.schedule(record)
    last = [epoch for epoch in record.epochs if epoch.epoch == record.run.num_iterations]
    parts = {part: sum(share.seconds[part] for share in shares) for part in PARTS}
    around = len(shares) * (seconds - schedule.makespan)
    return {
        **parts,
        "start": parts["start"] + around,
        "idle": max(len(shares) * schedule.makespan - sum(parts.values()), 0.0),
        "workers": len(shares),
        "rows_trained": sum(hop.rows for hop in record.hops),
        "makespan": schedule.makespan,
        "bound": schedule.lower_bound,
        **_finals([accounting.seen_metric(epoch) for epoch in last], [accounting.seen_loss(epoch) for epoch in last]),
    }


def _hopped(run: cerebro_db.Run) -> Dict[str, Any]:
    hops = run.hops
    return {"hopped_mb": float(hops["state_bytes"].sum()) / MB, "hops": len(hops)}


def _finals(metrics: Sequence[Optional[float]], losses: Sequence[Optional[float]]) -> Dict[str, Optional[float]]:
    known, lost = _finite(metrics), _finite(losses)
    return {
        "accuracy": max(known, default=None),
        "accuracy_mean": sum(known) / len(known) if known else None,
        "loss": min(lost, default=None),
    }


def _finite(values: Sequence[Optional[float]]) -> List[float]:
    return [value for value in values if value is not None and math.isfinite(value)]


def _of_result(result: base.Result) -> Dict[str, Any]:
    """The same of a baseline. The start is told apart; to merge models is to move their states."""
    last = [epochs[-1] for epochs in result.epochs if epochs]
    parts = {name: seconds for name, seconds in result.parts.items() if name in COLUMNS and name != "start"}
    merged = {"hop": result.parts["merge"]} if "merge" in result.parts else {}
    return {
        **parts,
        **merged,
        "rows_trained": result.rows,
        "makespan": result.seconds,
        **_finals([epoch.accuracy for epoch in last], [epoch.loss for epoch in last]),
    }


def points_of_run(workload: str, approach: str, run: cerebro_db.Run) -> Iterator[Point]:
    """Learning curves of a run."""
    for row in run.metrics.itertuples():
        yield Point(workload, approach, row.mst_key, row.epoch, row.validation_metric, row.validation_loss)


def points_of_result(workload: str, result: base.Result) -> Iterator[Point]:
    """Learning curves of a baseline."""
    for config, epochs in enumerate(result.epochs, start=1):
        for number, epoch in enumerate(epochs, start=1):
            yield Point(workload, result.approach, config, number, epoch.accuracy, epoch.loss)


def fused(values: Sequence[str]) -> List[Tuple[str, Dict[str, Any]]]:
    """(variant, options): configs are trained together where that is faster ("auto", the default), or never ("off")."""
    return [("" if value == "auto" else f"fuse {value}", {"fuse": value}) for value in values]


def checkpoint(db: PsycopgDatabase) -> None:
    """Have the server write what it has changed, so that it counts where it belongs; where this role may."""
    with suppress(psycopg2.errors.InsufficientPrivilege):
        db.script(Fragment("checkpoint"))


def packed_rows(db: PsycopgDatabase, table: str) -> int:
    """Rows of a packed table, by its summary."""
    found = db.rows(fill(Fragment("select rows from {summary}"), summary=ident(table + "_summary")))
    return int(found[0]["rows"])
