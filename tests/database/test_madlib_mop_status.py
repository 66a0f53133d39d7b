"""madlib_mop_status: one line per run of the caller. What it says during a run is in acceptance/test_progress.py."""

from __future__ import annotations

import psycopg2
import pytest

from cerebro_db.client import PsycopgDatabase
from tests import runs
from tests.runs import sql


def test_without_runs_there_are_no_lines_and_an_unknown_run_is_an_error(pg: PsycopgDatabase) -> None:
    assert pg.rows(sql("select * from madlib_mop_status()")) == []
    with pytest.raises(psycopg2.Error, match="run 1 does not exist or belongs to another role") as info:
        pg.rows(sql("select * from madlib_mop_status(1)"))
    assert info.value.pgcode == "42704"


def test_a_finished_run_shows_its_hops_and_its_best_config(pg: PsycopgDatabase) -> None:
    runs.make_images(pg, "images", 40)
    runs.pack(pg, "images", "packed", segments=1)
    slow = {**runs.ADAM, "lr": 1e-9}
    runs.make_selection(pg, "two", {1: (runs.MLP, slow, "batch_size=8"), 2: (runs.MLP, runs.ADAM, "batch_size=8")})
    row = runs.fit(pg, "packed", "out", "two", 3, threads=1)
    (status,) = pg.rows(sql("select * from madlib_mop_status()"))
    assert status["run_id"] == row["run_id"]
    assert (status["status"], status["hops_done"], status["hops_total"]) == ("finished", 6, 6)
    assert (status["percent"], status["seconds_left"], status["error"]) == (100.0, None, None)
    assert status["best_mst_key"] == row["best_mst_key"]
    assert status["best_metric"] == pytest.approx(row["best_metric"])
