"""A run can be watched while it trains, by its owner and by nobody else."""

from __future__ import annotations

import re
import time
from typing import Any, Callable

import psycopg2
import pytest

from cerebro_db.client import PsycopgDatabase
from tests import runs
from tests.runs import sql
from tests.support import wait_until

PROGRESS = sql("select * from cerebro.progress where run_id = %(run_id)s")
STATES = sql(
    "select coalesce(sum(pg_total_relation_size(oid)), 0)::bigint as bytes"
    " from pg_class where relname like 'state\\_%%' and relkind = 'r'"
)


def test_a_second_session_sees_the_run_move(pg: PsycopgDatabase, pg_dsn: str, role: Callable[..., Any]) -> None:
    """Also the space: state tables stay within three times the states, and go when the run ends."""
    runs.make_images(pg, "images", 200, side=16)
    runs.pack(pg, "images", "packed", segments=2)
    arch = {"model": "mlp", "hidden": [256]}
    runs.make_selection(pg, "two", dict.fromkeys((1, 2), (arch, runs.ADAM, "batch_size=50")))
    assert pg.rows(sql("select * from madlib_mop_status()")) == []  # imports now what it needs
    running, run_id = runs.start_fit(pg_dsn, pg, "packed", "out", "two", 30, threads=1)
    seen, names, largest = [], set(), 0

    def watch() -> bool:
        nonlocal largest
        rows = pg.rows(PROGRESS, run_id=run_id)
        seen.append(rows[0]["hops_done"])
        names.update(runs.helpers(pg).values())
        largest = max(largest, pg.rows(STATES)[0]["bytes"])
        return not running.running

    wait_until(lambda: watch() or len(set(seen)) > 3, 60, "hops_done rises")
    assert running.running
    started = time.monotonic()
    (status,) = pg.rows(sql("select * from madlib_mop_status(%(run_id)s::int)"), run_id=run_id)
    assert time.monotonic() - started < 1
    assert (status["run_id"], status["status"], status["hops_total"]) == (run_id, "running", 120)
    assert 0 < status["hops_done"] < 120
    assert status["percent"] == pytest.approx(100 * status["hops_done"] / 120, abs=0.06)
    assert status["rows_per_second"] > 0
    assert status["seconds_left"] > 0
    assert status["best_mst_key"] in (1, 2, None)
    third = role("third")()
    for view in ("run", "config", "hop", "metric", "progress"):
        assert third.rows(sql(f"select * from cerebro.{view}")) == []
    assert third.rows(sql("select * from madlib_mop_status()")) == []
    with pytest.raises(psycopg2.Error, match=f"run {run_id} does not exist or belongs to another role"):
        third.rows(sql("select * from madlib_mop_status(%(run_id)s::int)"), run_id=run_id)

    wait_until(watch, 120, "the run ends", every=0.02)
    assert running.finished()["status"] == "finished"
    assert seen == sorted(seen)
    assert pg.rows(PROGRESS, run_id=run_id)[0]["hops_done"] == 120
    told = [re.fullmatch(r"cerebro run (\d+): config (\d) epoch (\d+) segment (\d)", name) for name in names]
    hops = {tuple(map(int, match.groups())) for match in told if match}
    assert len(hops) >= 2
    assert {hop[0] for hop in hops} == {run_id}
    assert {hop[1] for hop in hops} <= {1, 2}
    assert {hop[3] for hop in hops} <= {0, 1}

    states = pg.rows(sql("select sum(state_bytes)::bigint as bytes from cerebro.config"))[0]["bytes"]
    assert states > 1_000_000
    assert states / 2 < largest <= 3 * states
    assert pg.rows(STATES)[0]["bytes"] == 0
