"""madlib_mop_resume: what it goes on with and what it refuses. Kills are in acceptance/test_kill.py."""

from __future__ import annotations

import psycopg2
import pytest

from cerebro_db.client import PsycopgDatabase, connect
from tests import runs
from tests.runs import sql

STATES = sql("select relname from pg_class where relname like 'state\\_%%'")


@pytest.fixture(scope="module")
def database(pg_module: PsycopgDatabase) -> PsycopgDatabase:
    runs.make_images(pg_module, "images", 100)
    runs.pack(pg_module, "images", "packed", segments=1)
    runs.make_selection(pg_module, "one", {3: (runs.MLP, runs.ADAM, "batch_size=8")})
    return pg_module


def test_after_a_rollback_the_states_are_kept_and_resume_writes_the_outputs(database: PsycopgDatabase) -> None:
    database.script(sql("begin"))
    row = runs.fit(database, "packed", "rolled", "one", 2, threads=1)
    inside = runs.weights(database, "rolled", 3)
    assert row["status"] == "finished"
    database.script(sql("rollback"))
    assert database.rows(sql("select to_regclass('rolled') is null as gone"))[0]["gone"]
    assert runs.status(database, row["run_id"]) == "trained"
    assert database.rows(STATES) != []
    assert runs.resume(database, row["run_id"])["status"] == "finished"
    assert runs.weights(database, "rolled", 3) == inside
    assert database.rows(STATES) == []
    with pytest.raises(psycopg2.Error, match=r"has finished; its models are in public\.rolled"):
        runs.resume(database, row["run_id"])


def test_an_unknown_run_is_refused(database: PsycopgDatabase) -> None:
    with pytest.raises(psycopg2.Error, match="run 4711 does not exist or belongs to another role") as info:
        runs.resume(database, 4711)
    assert info.value.pgcode == "42704"


def test_a_running_run_and_one_whose_rows_are_gone_are_refused(
    database: PsycopgDatabase, pg_module_dsn: str
) -> None:
    runs.pack(database, "images", "other_packed", segments=1)
    running, run_id = runs.start_fit(pg_module_dsn, database, "other_packed", "other", "one", 500, threads=1)
    with pytest.raises(psycopg2.Error, match=f"run {run_id} is still running") as info:
        runs.resume(database, run_id)
    assert info.value.pgcode == "55000"
    assert runs.status(database, run_id) == "running"
    assert database.rows(sql("select madlib_mop_cancel(%(run_id)s::int) as done"), run_id=run_id)[0]["done"]
    assert running.failed().pgcode == "57014"
    running.close()
    database.script(sql("truncate other_packed"))
    with pytest.raises(psycopg2.Error, match=r"other_packed holds other rows than.*cannot be resumed"):
        runs.resume(database, run_id)
    database.script(sql("drop table other_packed"))
    with pytest.raises(psycopg2.Error, match=r"other_packed was dropped or made anew.*cannot be resumed"):
        runs.resume(database, run_id)
    assert runs.status(database, run_id) == "cancelled"
    database.script(sql("create table other as select 1 as mine"))
    with pytest.raises(psycopg2.Error, match=r"other already exists"):
        runs.resume(database, run_id)


def test_a_session_that_trained_before_is_waited_for(database: PsycopgDatabase, pg_module_dsn: str) -> None:
    """It may still commit a hop, which must not run a second time beside it."""
    options = {"threads": 1, "lock_seconds": 0.2}
    running, run_id = runs.start_fit(pg_module_dsn, database, "packed", "waited", "one", 500, **options)
    assert database.rows(sql("select madlib_mop_cancel(%(run_id)s::int) as done"), run_id=run_id)[0]["done"]
    assert running.failed().pgcode == "57014"
    running.close()
    runs.no_helpers(database)
    with connect(pg_module_dsn) as trainer:
        trainer.rows(sql("select cerebro_private.join_run(%(run_id)s::int)"), run_id=run_id)
        with pytest.raises(psycopg2.Error, match=f"a session that trained run {run_id} before has not ended yet"):
            runs.resume(database, run_id)
        assert runs.status(database, run_id) == "failed"
    joined = sql("select cerebro_private.trainers_gone(%(run_id)s::int) as gone")
    assert database.rows(joined, run_id=run_id)[0]["gone"]
