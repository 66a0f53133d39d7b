"""Whatever is killed, the finished hops stay, none runs twice, and the result is that of an unbroken run."""

from __future__ import annotations

import json
import os
import signal
from functools import partial
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

import psycopg2
import pytest
import torch

from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.cluster import Cluster, temporary_cluster
from cerebro_db.errors import SetupError
from cerebro_db.install import install
from tests import plain, runs
from tests.runs import RESUME, Command, Running, sql
from tests.support import wait_until

SEGMENTS, EPOCHS = 2, 40
#: Strategies whose coordinator is the client.
IN_CLIENT = ["hybrid", "streaming", "export", "direct"]
#: Enough hops to be in the middle of the run however late a kill comes: 2 x 40 x 2.
CONFIGS: runs.Configs = {
    1: (runs.MLP, runs.ADAM, "batch_size=8"),
    2: ({"model": "mlp", "hidden": [8], "dropout": 0.5}, runs.ADAM, "batch_size=8"),
}


class Server:
    """A cluster of the test's own, which it may break, and the run in it; or a Greenplum that others may use too."""

    def __init__(self, dsn: str, cluster: Optional[Cluster] = None) -> None:
        self._cluster = cluster
        self.dsn = dsn
        self.seen: Dict[Tuple[int, int, int], Any] = {}

    @property
    def may_break(self) -> bool:
        return self._cluster is not None

    @property
    def cluster(self) -> Cluster:
        assert self._cluster is not None
        return self._cluster

    def connect(self) -> PsycopgDatabase:
        """A session, as soon as the server lets one in."""
        made: List[PsycopgDatabase] = []

        def answers() -> bool:
            try:
                made.append(connect(self.dsn))
                made[0].rows(sql("select 1"))
            except (SetupError, psycopg2.OperationalError):
                made.clear()
                return False
            return True

        wait_until(answers, 60, "the server answers")
        return made[0]

    def check_hops(self, database: PsycopgDatabase, run_id: int) -> int:
        """Hops that were finished before must be there as they were; gives how many there are now."""
        now = {
            (row["mst_key"], row["epoch"], row["segment_id"]): (row["session_pid"], row["started_at"], row["loss"])
            for row in runs.hops(database, run_id)
        }
        assert {key: now.get(key) for key in self.seen} == self.seen
        self.seen = now
        return len(now)


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    if request.config.getoption("--gp-dsn"):
        yield prepared(Server(request.getfixturevalue("pg_module_dsn")))
        return
    with temporary_cluster(runs.KEEP_NOTHING) as cluster:
        with connect(cluster.dsn("postgres")) as database:
            install(database)
        yield prepared(Server(cluster.dsn("postgres"), cluster))


def prepared(server: Server) -> Server:
    with connect(server.dsn) as database:
        runs.make_images(database, "images", 200)
        runs.pack(database, "images", "packed", SEGMENTS)
        runs.make_selection(database, "two", CONFIGS)
    return server


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def postmaster_tree(cluster: Cluster) -> List[int]:
    """The server's processes, the first one first so that it restarts none of the others."""
    first = int((cluster.data / "postmaster.pid").read_text("utf-8").split()[0])
    children = [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and _parent(entry) == first
    ]
    return [first, *children]


def kill_server(server: Server) -> None:
    tree = postmaster_tree(server.cluster)
    for pid in tree:
        kill(pid)
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in tree), 60, "the server is dead")


def _parent(process: Path) -> int:
    try:
        return int((process / "stat").read_text("utf-8").rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


def broken(server: Server, running: Running, run_id: int) -> PsycopgDatabase:
    """After a kill: the statement has failed, the run is interrupted, its hops are kept."""
    running.failed(60)
    running.close()
    database = server.connect()
    assert runs.status(database, run_id) == "interrupted"
    server.check_hops(database, run_id)
    return database


def run_on(server: Server, database: PsycopgDatabase, run_id: int, more: int) -> Running:
    """Resume, and return in the middle: some hops further than before."""
    before = server.check_hops(database, run_id)
    running = Running(server.dsn, RESUME, run_id=run_id)
    runs.wait_for_hops(database, run_id, before + more, running)
    return running


def same_as_unbroken(database: PsycopgDatabase, output: str) -> None:
    """Every byte that the run left is that of a run which nobody broke."""
    if database.rows(sql("select to_regclass('unbroken') is null as missing"))[0]["missing"]:
        runs.fit(database, "packed", "unbroken", "two", EPOCHS, threads=1, seed=7)
    for column in ("model_weights", "optimizer_state"):
        same = f"select count(*) as n from {output} o join unbroken u using (mst_key) where o.{column} = u.{column}"
        assert database.rows(sql(same)) == [{"n": len(CONFIGS)}]


@pytest.mark.postgresql("kill -9 of a session restarts the server, which others may use")
def test_a_run_survives_every_kill_and_gives_the_weights_of_an_unbroken_one(server: Server) -> None:
    """One run, broken five times: by kill -9 of a training session, of the coordinator and of the whole
    server, by pg_terminate_backend of a training session and of the coordinator."""
    database = server.connect()
    running, run_id = runs.start_fit(
        server.dsn, database, "packed", "out", "two", EPOCHS, threads=1, seed=7, hops=10
    )

    kill(runs.trainers(database)[0])
    database = broken(server, running, run_id)

    running = run_on(server, database, run_id, 10)
    kill(running.pid)
    database = broken(server, running, run_id)

    running = run_on(server, database, run_id, 10)
    kill_server(server)
    running.failed(60)
    server.cluster.start()
    database = broken(server, running, run_id)

    running = run_on(server, database, run_id, 10)
    database.rows(sql("select pg_terminate_backend(%(pid)s::int)"), pid=running.pid)
    running.failed(60)
    runs.no_helpers(database, 10)
    database = broken(server, running, run_id)

    running = run_on(server, database, run_id, 10)
    lost = runs.trainers(database)[0]
    database.rows(sql("select pg_terminate_backend(%(pid)s::int)"), pid=lost)
    assert running.finished()["status"] == "finished"  # it goes on by itself in a new session
    kinds = database.rows(sql("select kind, reason from cerebro_private.event where kind = 'segment_down'"))
    assert any("terminat" in row["reason"] for row in kinds)

    server.check_hops(database, run_id)
    hops = runs.hops(database, run_id)
    assert runs.keys(hops) == runs.every_hop(list(CONFIGS), EPOCHS, SEGMENTS)
    packed = plain.read(database.connection, "packed")
    for key, dropout in ((1, 0.0), (2, 0.5)):
        config = plain.Config(plain.mlp(16, 8, 3, dropout), partial(torch.optim.Adam, lr=0.01), 8)
        plain.same_bits(
            runs.weights(database, "out", key), plain.train(packed, config, key, plain.visits(hops, key), seed=7)
        )
    same_as_unbroken(database, "out")
    assert database.rows(sql("select relname from pg_class where relname like 'state\\_%%'")) == []
    runs.no_helpers(database)


@pytest.mark.parametrize("strategy", IN_CLIENT)
def test_a_killed_client_is_resumed_to_the_weights_of_an_unbroken_run(server: Server, strategy: str) -> None:
    """kill -9 of the process that coordinates, in a fit and in a resume; between them, where it may, of the server."""
    database, output = server.connect(), f"out_{strategy}"
    server.seen = {}
    before = runs.newest(database)
    options = json.dumps({"threads": 1, "seed": 7})
    words = ["fit", "packed", output, "two", "-n", str(EPOCHS), "--strategy", strategy, "--options", options]
    command = Command(server.dsn, *words)
    run_id = runs.begun(database, before, command, hops=10)
    kill_client(server, database, run_id, command)

    if server.may_break:
        command = resumed(server, database, run_id)
        kill_server(server)
        assert command.wait() == 1
        assert f"run {run_id} was stopped; its finished hops are kept" in str(command.error)
        server.cluster.start()
        database = server.connect()
        assert runs.status(database, run_id) == "interrupted"

    command = resumed(server, database, run_id)
    kill_client(server, database, run_id, command)

    row = Command(server.dsn, "resume", str(run_id), "--json").finished()
    assert (row["run_id"], row["status"]) == (run_id, "finished")
    server.check_hops(database, run_id)
    assert runs.keys(runs.hops(database, run_id)) == runs.every_hop(list(CONFIGS), EPOCHS, SEGMENTS)
    same_as_unbroken(database, output)
    runs.no_helpers(database)


def resumed(server: Server, database: PsycopgDatabase, run_id: int) -> Command:
    """A resume by the command, some hops further than before."""
    command = Command(server.dsn, "resume", str(run_id))
    runs.wait_for_hops(database, run_id, server.check_hops(database, run_id) + 10, command)
    return command


def kill_client(server: Server, database: PsycopgDatabase, run_id: int, command: Command) -> None:
    """The run's sessions end with the process, and it shows as interrupted."""
    kill(command.pid)
    assert command.wait() == -signal.SIGKILL
    runs.no_helpers(database, 10)
    assert runs.status(database, run_id) == "interrupted"
    server.check_hops(database, run_id)
