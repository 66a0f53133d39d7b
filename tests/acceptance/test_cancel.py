"""A cancel, however it comes, is obeyed within seconds, leaves nothing running, and loses no finished hop."""

from __future__ import annotations

import random
import threading
import time
from functools import partial
from typing import Any, Callable, Iterator, Optional

import psycopg2
import pytest
import torch

from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.cluster import Cluster, temporary_cluster
from cerebro_db.install import install
from tests import plain, runs
from tests.runs import RESUME, Running, sql

EPOCHS = 60
#: Greenplum's own words, where its segments were just beginning a subtransaction: its coordinator undoes that on all,
#: and one that had not begun fails. The error passes over Python and takes the place of the cancel's.
HALFWAY = "already processed (current level"
CONFIGS: runs.Configs = {1: (runs.MLP, runs.ADAM, "batch_size=8"), 2: (runs.MLP, runs.ADAM, "batch_size=16")}


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[Optional[Cluster]]:
    """A server of its own, so that whether it crashed is seen; none where a Greenplum is given."""
    if request.config.getoption("--gp-dsn"):
        yield None
        return
    with temporary_cluster(runs.KEEP_NOTHING) as made:
        with connect(made.dsn("postgres")) as database:
            install(database)
        yield made


@pytest.fixture
def dsn(cluster: Optional[Cluster], request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue("pg_module_dsn")) if cluster is None else cluster.dsn("postgres")


@pytest.fixture
def database(dsn: str) -> Iterator[PsycopgDatabase]:
    with connect(dsn) as session:
        yield session


def by_server(running: Running, database: PsycopgDatabase, run_id: int) -> None:
    assert database.rows(sql("select pg_cancel_backend(%(pid)s::int) as sent"), pid=running.pid)[0]["sent"]


def by_client(running: Running, database: PsycopgDatabase, run_id: int) -> None:
    running.database.connection.cancel()


def by_function(running: Running, database: PsycopgDatabase, run_id: int) -> None:
    done = database.rows(sql("select madlib_mop_cancel(%(run_id)s::int) as done"), run_id=run_id)
    assert done[0]["done"]


def cancelled(running: Running, database: PsycopgDatabase, run_id: int, way: Callable[..., None]) -> None:
    """Cancel a run in its middle: it ends at once, and its sessions with it."""
    way(running, database, run_id)
    asked = time.monotonic()
    error = running.failed(30)
    assert time.monotonic() - asked < 3
    assert error.pgcode == "57014"
    runs.no_helpers(database, 10)
    assert runs.status(database, run_id) == "cancelled"
    running.close()


def test_a_run_cancelled_in_every_way_goes_on_to_the_weights_of_an_unbroken_one(
    dsn: str, database: PsycopgDatabase
) -> None:
    runs.make_images(database, "images", 200)
    runs.pack(database, "images", "packed", segments=2)
    runs.make_selection(database, "two", CONFIGS)
    assert database.rows(sql("select * from madlib_mop_status()")) == []  # imports now what a cancel needs
    running, run_id = runs.start_fit(dsn, database, "packed", "out", "two", EPOCHS, threads=1, hops=5)
    for way in (by_server, by_client, by_function):
        cancelled(running, database, run_id, way)
        done = len(runs.hops(database, run_id))
        running = Running(dsn, RESUME, run_id=run_id)
        runs.wait_for_hops(database, run_id, done + 5, running)
    by_client(running, database, run_id)
    running.failed(30)

    with connect(dsn) as limited:
        limited.script(sql("set statement_timeout = '5s'"))
        started = time.monotonic()
        with pytest.raises(psycopg2.errors.QueryCanceled, match="statement timeout"):
            runs.resume(limited, run_id)
        assert time.monotonic() - started < 8
    runs.no_helpers(database, 10)
    assert runs.status(database, run_id) == "cancelled"

    assert runs.resume(database, run_id)["status"] == "finished"
    hops = runs.hops(database, run_id)
    assert runs.keys(hops) == runs.every_hop(list(CONFIGS), EPOCHS, 2)
    packed = plain.read(database.connection, "packed")
    for key, batch in ((1, 8), (2, 16)):
        config = plain.Config(plain.mlp(16, 8, 3), partial(torch.optim.Adam, lr=0.01), batch)
        expected = plain.train(packed, config, key, plain.visits(hops, key))
        plain.same_bits(runs.weights(database, "out", key), expected)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_fifty_cancels_at_random_moments_leave_the_server_up(
    cluster: Optional[Cluster], dsn: str, database: PsycopgDatabase
) -> None:
    """From before the sessions start to the end of the run; the seed is fixed, the moments are not."""
    runs.make_images(database, "few", 40)
    runs.pack(database, "few", "few_packed", segments=1)
    runs.make_selection(database, "small", {1: (runs.MLP, runs.ADAM, "batch_size=4")})
    began = database.rows(sql("select pg_postmaster_start_time()::text as at"))[0]["at"]
    started = time.monotonic()
    runs.fit(database, "few_packed", "whole", "small", 5, threads=1)
    length = time.monotonic() - started
    dice = random.Random(2)
    ended = []
    for number in range(50):
        # Squared: most of the length is the sessions' start, and early cancels cost less time.
        ended.append(_cancel_once(dsn, f"out_{number}", length * dice.random() ** 2))
    assert set(ended) <= {"57014", "finished", *([HALFWAY] if cluster is None else [])}
    assert ended.count("57014") >= 25
    assert ended.count(HALFWAY) <= 3
    runs.no_helpers(database, 10)
    assert database.rows(sql("select pg_postmaster_start_time()::text as at"))[0]["at"] == began
    if cluster is not None:
        log = cluster.log.read_text("utf-8")
        assert "was terminated by signal" not in log
        assert "PANIC" not in log
    _check_leftovers(database, ended)


def _cancel_once(dsn: str, output: str, seconds: float) -> str:
    """Start a fit and cancel it after so long; the SQLSTATE, or "finished"."""
    running = Running(dsn, runs.FIT, **runs.fit_values("few_packed", output, "small", 5, threads=1))
    timer = threading.Timer(seconds, running.database.connection.cancel)
    timer.start()
    running.wait(60)
    timer.join()
    error = running.error
    running.close()
    if error is None or error.pgcode == "57014":
        return "finished" if error is None else "57014"
    return HALFWAY if HALFWAY in str(error) else str(error)


def _check_leftovers(database: PsycopgDatabase, ended: Any) -> None:
    """State tables belong to runs that can be resumed, outputs to calls that finished."""
    tables = database.rows(
        sql("select relname from pg_class where relname ~ '^state_' and not exists (select 1 from cerebro.run r"
            " where r.status <> 'finished' and relname like 'state\\_' || r.run_id || '\\_%%')")
    )
    assert tables == []
    written = database.rows(sql("select relname from pg_class where relname ~ '^out_[0-9]+$' and relkind = 'r'"))
    expected = {f"out_{number}" for number, end in enumerate(ended) if end == "finished"}
    assert {row["relname"] for row in written} == expected
    statuses = {row["status"] for row in database.rows(sql("select distinct status from cerebro.run"))}
    # "interrupted": the cancel came in the moment in which the end was being written; it can be resumed, too.
    assert statuses <= {"finished", "cancelled", "trained", "interrupted"}
