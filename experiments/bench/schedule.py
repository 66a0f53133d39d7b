"""Makespan of 16 configs on 4 sessions over its lower bound, bytes written per byte hopped, and what planning takes."""

from __future__ import annotations

import time
from functools import partial
from typing import Callable, Dict, Iterator

from cerebro_db.client import PsycopgDatabase
from cerebro_db.portfolio import LONGEST_HELD, ROTATION, Work, choose, play
from cerebro_db.sqltext import Fragment
from experiments.bench import data
from experiments.bench.measure import Measure

SEGMENTS = 4
#: Hops of a second or two; between two of a session lie 20 ms here, of commit and dispatch.
ROWS = 32000
EPOCHS = 2

#: Each hop of one config, so that hops of a segment add up.
_ALONE: Dict[str, object] = {"fuse": "off"}
_SCHEDULE = Fragment(
    "with hop as (select h.*, extract(epoch from finished_at - started_at)::float8 as seconds from cerebro.hop h"
    " where run_id = %(run_id)s)"
    " select extract(epoch from max(finished_at) - min(started_at))::float8 as makespan"
    " , greatest((select max(s) from (select sum(seconds) as s from hop group by segment_id) q)"
    "           , (select max(s) from (select sum(seconds) as s from hop group by mst_key) q)) as bound"
    " , sum(state_bytes)::float8 as hopped from hop"
)
#: Everything that the server has written: WAL, and data pages by whoever wrote them.
_WRITTEN = Fragment(
    "select (select wal_bytes from pg_stat_wal)::float8"
    " + (select buffers_checkpoint + buffers_clean + buffers_backend from pg_stat_bgwriter)"
    "   * current_setting('block_size')::float8 as bytes"
)


def measure(db: PsycopgDatabase) -> Iterator[Measure]:
    data.take(db, "few", ROWS)
    data.pack_images(db, "few", "few_packed", SEGMENTS)
    data.select_configs(db, "sixteen", ["mlp", "cnn"], [1e-3, 3e-4, 1e-4, 3e-5], [64, 256])
    run_id = data.fit(db, "few_packed", "sixteen", EPOCHS, _ALONE)
    row = db.rows(_SCHEDULE, run_id=run_id)[0]
    yield Measure(
        f"makespan over the lower bound, 16 configs on {SEGMENTS} sessions", row["makespan"] / row["bound"], "ratio",
        1.02, "lower",
    )  # fmt: skip


def measure_disk(db: PsycopgDatabase) -> Iterator[Measure]:
    """Hops of a larger state over few rows, so that what is written is the hops'."""
    data.take(db, "tiny", 800)
    data.pack_images(db, "tiny", "tiny_packed", SEGMENTS)
    data.select_configs(db, "wide", ["wide"], [1e-3, 1e-4], [200])
    before = _written(db)
    run_id = data.fit(db, "tiny_packed", "wide", 4, _ALONE)
    # The outputs are written once more at the end; they are part of the price of a run, not of its hops.
    final = db.rows(Fragment("select 2 * sum(pg_table_size(c)) as bytes from (values ('wide_models'::regclass)) v (c)"))
    written = _written(db) - before - float(final[0]["bytes"])
    hopped = db.rows(_SCHEDULE, run_id=run_id)[0]["hopped"]
    yield Measure("bytes written to disk per byte hopped", written / hopped, "ratio", 2.2, "lower")


def measure_portfolio(_: PsycopgDatabase) -> Iterator[Measure]:
    """What order portfolio computes between hops, for 64 units on 16 segments; the slowest of its rules."""
    one, two = _mixed_work(64, 16, epochs=1), _mixed_work(64, 16, epochs=2)
    slowest = max(_milliseconds(partial(play, one, rule)) for rule in range(LONGEST_HELD + 4))
    yield Measure("dry run of a portfolio, 64 x 16", slowest, "ms", 10.0, "lower")
    choice = _milliseconds(partial(choose, two, ROTATION))
    yield Measure("choice of a rule, 64 x 16, 2 epochs", choice, "ms", 250.0, "lower")


def _mixed_work(units: int, segments: int, epochs: int) -> Work:
    """One unit in five takes eight times as long; none of them exactly as long as another."""
    seconds = [[(8.0 if unit % 5 == 0 else 1.0) * (1 + unit / 1000)] * segments for unit in range(units)]
    return Work([(1 << segments) - 1] * units, [epochs - 1] * units, seconds, {}, range(units))


def _milliseconds(work: Callable[[], object], times: int = 5) -> float:
    """CPU time of the fastest of several tries: what others do on this machine is not ours."""

    def once() -> float:
        began = time.process_time()
        work()
        return time.process_time() - began

    return min(once() for _ in range(times)) * 1000


def _written(db: PsycopgDatabase) -> float:
    db.script(Fragment("checkpoint"))
    db.script(Fragment("select pg_stat_force_next_flush()"))
    return float(db.rows(_WRITTEN)[0]["bytes"])
