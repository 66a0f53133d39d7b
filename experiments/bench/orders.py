"""Makespan over its lower bound, from real runs on two segments of one thread each: every order, S = p, 2 p, 4 p.

A hop ends, for the catalog, before the commit that writes it: what is between two hops is mostly that commit, so the
ratio of short hops tells of the disk. Those here are long enough for the schedule to show.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Dict, Iterator, List

from cerebro_db.client import PsycopgDatabase
from cerebro_db.hopper import ORDERS
from cerebro_db.sqltext import Fragment
from experiments.bench import data
from experiments.bench.measure import Measure
from experiments.workloads.base import Config, select
from experiments.workloads.registry import find

SEGMENTS = 2
ROWS = 60000
EPOCHS = 2
#: Configs per segment.
TIMES = (1, 2, 4)
#: Grids of fashion_flat: all configs alike, and one in five about eight times as long.
GRIDS = ("uniform", "mixed")
#: Batch size of uniform configs, for hops of some tenths of a second.
UNIFORM_BATCH = 64
BAR = 1.02

#: From the first hop's start to the last one's end; the bound is the busiest segment's or the longest config's hops.
#: `gap`: between the end of a hop and the start of the next one on the same segment, in the middle of all.
_SCHEDULE = Fragment(
    "with hop as (select h.mst_key, h.segment_id, h.started_at, h.finished_at"
    "   , extract(epoch from h.finished_at - h.started_at)::float8 as seconds"
    "   , extract(epoch from h.started_at - lag(h.finished_at) over"
    "       (partition by h.segment_id order by h.started_at))::float8 as gap"
    "   from cerebro.hop h where h.run_id = %(run_id)s)"
    " select extract(epoch from max(finished_at) - min(started_at))::float8 as makespan"
    " , greatest((select max(s) from (select sum(seconds) as s from hop group by segment_id) q)"
    "           , (select max(s) from (select sum(seconds) as s from hop group by mst_key) q)) as bound"
    " , percentile_cont(0.5) within group (order by gap) as gap"
    " , (select max(s) / min(s) from (select avg(seconds) as s from hop group by mst_key) q) as spread from hop"
)


def measure(db: PsycopgDatabase) -> Iterator[Measure]:
    """Every order on the same rows and configs; the bar is the portfolio's."""
    data.take(db, "orders", ROWS)
    data.pack_images(db, "orders", "orders_packed", SEGMENTS)
    for grid in GRIDS:
        for times in TIMES:
            yield from _measure_grid(db, grid, times)


def _measure_grid(db: PsycopgDatabase, grid: str, times: int) -> Iterator[Measure]:
    select(db.connection.dsn, "ordered", _configs(grid, times * SEGMENTS))
    for order in ORDERS:
        row = _run(db, order)
        what = f"{grid}, S = {times} p, {order}"
        bar = BAR if order == "portfolio" else None
        yield Measure(f"makespan over the lower bound, {what}", row["makespan"] / row["bound"], "ratio", bar, "lower")
        yield Measure(f"makespan, {what}", row["makespan"], "s", None, "lower")
        yield Measure(f"between two hops of a segment, {what}", row["gap"] * 1000, "ms", None, "lower")
    yield Measure(f"longest config over shortest, {grid}, S = {times} p", row["spread"], "ratio", None, "higher")


def _configs(grid: str, count: int) -> List[Config]:
    configs = find("fashion_flat").configs(grid, count)
    return [replace(each, batch_size=UNIFORM_BATCH) for each in configs] if grid == "uniform" else configs


def _run(db: PsycopgDatabase, order: str) -> Dict[str, float]:
    options = {"order": order, "threads": 1, "fuse": "off"}
    run_id = data.fit(db, "orders_packed", "ordered", EPOCHS, options)
    return db.rows(_SCHEDULE, run_id=run_id)[0]
