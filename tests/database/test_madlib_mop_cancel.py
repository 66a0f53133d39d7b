"""madlib_mop_cancel, and cancels where the caller waits for another session. More in acceptance/test_cancel.py."""

from __future__ import annotations

import time

import psycopg2
import pytest

from cerebro_db.client import PsycopgDatabase
from tests import runs
from tests.runs import Running, sql
from tests.support import wait_until

CANCEL = sql("select madlib_mop_cancel(%(run_id)s::int) as done")


def test_only_a_running_run_can_be_cancelled(pg: PsycopgDatabase) -> None:
    runs.make_images(pg, "images", 20)
    runs.pack(pg, "images", "packed", segments=1)
    runs.make_selection(pg, "one", {1: (runs.MLP, runs.ADAM, "batch_size=8")})
    row = runs.fit(pg, "packed", "out", "one", 1, threads=1)
    with pytest.raises(psycopg2.Error, match=r"run \d+ is finished, not running") as info:
        pg.rows(CANCEL, run_id=row["run_id"])
    assert info.value.pgcode == "55000"
    with pytest.raises(psycopg2.Error, match="run 4711 does not exist") as info:
        pg.rows(CANCEL, run_id=4711)
    assert info.value.pgcode == "42704"


def test_packing_inside_a_fit_can_be_cancelled(pg: PsycopgDatabase, pg_dsn: str) -> None:
    """The caller waits for a statement of another session then, where the server's interrupts do not reach."""
    runs.make_images(pg, "images", 200)
    runs.make_selection(pg, "one", {1: (runs.MLP, runs.ADAM, "batch_size=8")})
    pg.script(sql("create view slow as select * from images where pg_sleep(0.1) is not null"))
    options = {"dependent_varname": "label", "independent_varname": "img"}
    running = Running(pg_dsn, runs.FIT, **runs.fit_values("slow", "never", "one", 1, **options))
    packing = sql(
        "select 1 from pg_stat_activity where application_name = 'cerebro' and state = 'active' and query ~ 'slow'"
    )
    wait_until(lambda: bool(pg.rows(packing)), 60, "packing begins")
    assert pg.rows(sql("select pg_cancel_backend(%(pid)s::int) as sent"), pid=running.pid)[0]["sent"]
    asked = time.monotonic()
    assert running.failed(30).pgcode == "57014"
    assert time.monotonic() - asked < 3
    running.close()
    runs.no_helpers(pg, 10)
    assert pg.rows(sql("select relname from pg_class where relname ~ '^(never|slow_)'")) == []
