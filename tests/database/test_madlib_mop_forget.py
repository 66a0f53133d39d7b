"""madlib_mop_forget: a run goes with its states and history, its outputs stay."""

from __future__ import annotations

import psycopg2
import pytest

from cerebro_db.client import PsycopgDatabase
from tests import runs
from tests.runs import sql

LEFT = sql(
    "select relname from pg_class where relname like 'state\\_%%'"
    " union all select 'event' from cerebro_private.event union all select 'hop' from cerebro_private.hop"
    " union all select 'config' from cerebro_private.config union all select 'run' from cerebro_private.run"
)
FORGET = sql("select madlib_mop_forget(%(run_id)s::int)")


def test_a_cancelled_run_goes_altogether_and_a_running_one_does_not(pg: PsycopgDatabase, pg_dsn: str) -> None:
    runs.make_images(pg, "images", 100)
    runs.pack(pg, "images", "packed", segments=1)
    runs.make_selection(pg, "one", {1: (runs.MLP, runs.ADAM, "batch_size=8")})
    running, run_id = runs.start_fit(pg_dsn, pg, "packed", "out", "one", 500, threads=1)
    with pytest.raises(psycopg2.Error, match=f"run {run_id} is still running; cancel it first") as info:
        pg.rows(FORGET, run_id=run_id)
    assert info.value.pgcode == "55006"
    running.database.connection.cancel()
    assert running.failed().pgcode == "57014"
    assert {row["relname"] for row in pg.rows(LEFT)} >= {f"state_{run_id}_1", "event", "hop", "config", "run"}
    pg.rows(FORGET, run_id=run_id)
    assert pg.rows(LEFT) == []
    with pytest.raises(psycopg2.Error, match=f"run {run_id} does not exist"):
        pg.rows(FORGET, run_id=run_id)


def test_the_outputs_of_a_finished_run_stay(pg: PsycopgDatabase) -> None:
    runs.make_images(pg, "images", 20)
    runs.pack(pg, "images", "packed", segments=1)
    runs.make_selection(pg, "one", {1: (runs.MLP, runs.ADAM, "batch_size=8")})
    row = runs.fit(pg, "packed", "out", "one", 1, threads=1)
    pg.rows(FORGET, run_id=row["run_id"])
    assert pg.rows(LEFT) == []
    assert len(runs.weights(pg, "out", 1)) > 0
    assert len(pg.rows(sql("select * from out_info natural join (select mst_key from out) o"))) == 1
