"""Worker processes of a fit from SQL, whose backend is killed: they end with it, and the run goes on where it was."""

from __future__ import annotations

import os
import signal
from functools import partial
from typing import Iterator

import psycopg2
import pytest
import torch

from cerebro_db.client import connect
from cerebro_db.cluster import Cluster, temporary_cluster
from cerebro_db.errors import SetupError
from cerebro_db.install import install
from tests import plain, runs
from tests.processes import all_gone, worker_pids
from tests.runs import sql
from tests.support import wait_until

SEGMENTS, EPOCHS = 2, 40


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A server of its own, which recovers from a crash in the test."""
    with temporary_cluster(runs.KEEP_NOTHING) as made:
        with connect(made.dsn("postgres")) as database:
            install(database)
        yield made


@pytest.mark.postgresql("kill -9 of a session restarts the server, which others may use")
def test_a_killed_backend_takes_its_workers_along(cluster: Cluster) -> None:
    dsn = cluster.dsn("postgres")
    with connect(dsn) as database:
        runs.make_images(database, "images", 200)
        runs.pack(database, "images", "packed", SEGMENTS)
        runs.make_selection(database, "one", {1: (runs.MLP, runs.ADAM, "batch_size=8")})
        running, run_id = runs.start_fit(
            dsn, database, "packed", "out", "one", EPOCHS, hops=6, strategy="streaming", threads=1, seed=7
        )
        workers = worker_pids(running.pid)
        assert len(workers) == SEGMENTS
        os.kill(running.pid, signal.SIGKILL)
        running.failed(30)
        all_gone(workers)

    def answers() -> bool:
        try:
            with connect(dsn) as session:
                return bool(session.rows(sql("select 1")))
        except (SetupError, psycopg2.OperationalError):
            return False

    wait_until(answers, 60, "the server has recovered")
    with connect(dsn) as database:
        assert runs.status(database, run_id) == "interrupted"
        assert runs.resume(database, run_id)["status"] == "finished"
        hops = runs.hops(database, run_id)
        assert runs.keys(hops) == runs.every_hop([1], EPOCHS, SEGMENTS)
        config = plain.Config(plain.mlp(16, 8, 3), partial(torch.optim.Adam, lr=0.01), 8)
        expected = plain.train(plain.read(database.connection, "packed"), config, 1, plain.visits(hops, 1), seed=7)
        plain.same_bits(runs.weights(database, "out", 1), expected)
        runs.no_helpers(database)
