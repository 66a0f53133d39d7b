"""Seconds from the call to the start of the first hop: in a fresh session, and in one that kept what it trains in."""

from __future__ import annotations

from typing import Dict, Iterator

from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.sqltext import Fragment
from experiments.bench import data
from experiments.bench.measure import Measure

ROWS, SEGMENTS = 10000, 2
STRATEGIES = ("in_rdbms", "streaming")
#: The shortest of so many warm calls.
TURNS = 3
BAR = 1.5

_NOW = Fragment("select extract(epoch from clock_timestamp())::float8 as at")
_FIRST = Fragment(
    "select extract(epoch from min(h.started_at))::float8 as at from cerebro.hop h where h.run_id = %(run_id)s::integer"
)


def measure(db: PsycopgDatabase) -> Iterator[Measure]:
    data.take(db, "start_rows", ROWS)
    data.pack_images(db, "start_rows", "start_packed", SEGMENTS)
    data.select_configs(db, "start_configs", ["mlp"], [0.001], [256])
    for strategy in STRATEGIES:
        with connect(db.connection.dsn) as session:  # nothing is kept in it yet
            cold = _first_hop(session, strategy)
            warm = min(_first_hop(session, strategy) for _ in range(TURNS))
        where = f"{strategy}, {SEGMENTS} segments"
        yield Measure(f"from the call to the first hop, warm, {where}", warm, "s", BAR, "lower")
        yield Measure(f"from the call to the first hop, cold, {where}", cold, "s", None, "lower")


def _first_hop(session: PsycopgDatabase, strategy: str) -> float:
    options: Dict[str, object] = {"strategy": strategy, "threads": 1}
    called = session.rows(_NOW)[0]["at"]
    run_id = data.fit(session, "start_packed", "start_configs", 1, options)
    return float(session.rows(_FIRST, run_id=run_id)[0]["at"] - called)
