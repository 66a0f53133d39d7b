"""Runs in worker processes: their results, and what happens when a worker, its session or its hop fails."""

from __future__ import annotations

import os
import signal
import threading
from functools import partial
from typing import Any, Callable, Dict, Iterator, List

import psycopg2
import pytest
import torch

from cerebro_db import runs as engine
from cerebro_db.catalog import Catalog
from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.database import Row
from cerebro_db.errors import UsageError
from cerebro_db.hopper import Hop
from cerebro_db.loopback import Loopback
from cerebro_db.sqltext import query
from tests import plain, runs
from tests.processes import all_gone, worker_pids
from tests.runs import Running, sql
from tests.support import wait_until

SEGMENTS, EPOCHS = 2, 15
CONFIGS: runs.Configs = {
    1: (runs.MLP, runs.ADAM, "batch_size=8"),
    2: ({"model": "mlp", "hidden": [8], "dropout": 0.5}, runs.ADAM, "batch_size=8"),
}


@pytest.fixture(scope="module")
def packed(pg_module: PsycopgDatabase) -> PsycopgDatabase:
    runs.make_images(pg_module, "images", 200)
    runs.pack(pg_module, "images", "packed", SEGMENTS)
    runs.make_selection(pg_module, "two", CONFIGS)
    return pg_module


#: Strategies whose hops run in worker processes.
STRATEGIES = ("streaming", "export", "direct")
#: Columns of a hop that take a number.
PARTS = (
    "loss", "metric", "validation_rows", "validation_loss", "validation_metric", "train_seconds", "validate_seconds",
    "data_seconds", "hop_seconds", "start_seconds",
)  # fmt: skip


class Client:
    """A fit that this process coordinates, in a thread."""

    def __init__(self, dsn: str, output: str, options: str, strategy: str) -> None:
        self.row: Row = {}
        self.error: List[BaseException] = []
        request = engine.FitRequest("packed", output, "two", EPOCHS, strategy=strategy, options=options)
        self._thread = threading.Thread(target=self._work, args=(dsn, request), daemon=True)
        self._thread.start()

    def _work(self, dsn: str, request: engine.FitRequest) -> None:
        with connect(dsn) as database:
            try:
                self.row = engine.fit(engine.Host(database, lambda: None, partial(Loopback, database)), request)
            except BaseException as error:  # told to the test's thread
                self.error.append(error)
                raise

    def finished(self) -> Row:
        self._thread.join(120)
        assert not self._thread.is_alive()
        assert (self.row.get("status"), self.error) == ("finished", [])
        return self.row


@pytest.fixture
def client(packed: PsycopgDatabase, pg_module_dsn: str) -> Iterator[Callable[..., Any]]:
    """Starts a fit, and returns in its middle, with its run_id."""

    def begin(output: str, options: str = '{"threads": 1, "seed": 7}', strategy: str = "streaming") -> Any:
        newest = sql("select coalesce(max(run_id), 0) as id from cerebro.run")
        before = packed.rows(newest)[0]["id"]
        made = Client(pg_module_dsn, output, options, strategy)
        count = sql("select count(*) as n from cerebro.hop where run_id > %(run_id)s")
        wait_until(lambda: bool(made.error) or packed.rows(count, run_id=before)[0]["n"] >= 4, 120, "4 hops are done")
        assert made.error == []
        return made, packed.rows(newest)[0]["id"]

    yield begin
    assert worker_pids(os.getpid()) == []


def downs(database: PsycopgDatabase, run_id: int) -> List[str]:
    rows = database.rows(
        sql("select reason from cerebro_private.event where kind = 'segment_down' and run_id = %(run_id)s"),
        run_id=run_id,
    )
    return [row["reason"] for row in rows]


def as_plain(database: PsycopgDatabase, run_id: int, output: str) -> None:
    """Every hop ran once, and the weights are those of a plain loop in the same order."""
    hops = runs.hops(database, run_id)
    assert runs.keys(hops) == runs.every_hop(list(CONFIGS), EPOCHS, SEGMENTS)
    packed = plain.read(database.connection, "packed")
    for key, dropout in ((1, 0.0), (2, 0.5)):
        config = plain.Config(plain.mlp(16, 8, 3, dropout), partial(torch.optim.Adam, lr=0.01), 8)
        expected = plain.train(packed, config, key, plain.visits(hops, key), seed=7)
        plain.same_bits(runs.weights(database, output, key), expected)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_killed_workers_and_lost_sessions_change_nothing(
    packed: PsycopgDatabase, client: Callable[..., Any], strategy: str
) -> None:
    output = f"broken_{strategy}"
    fit, run_id = client(output, strategy=strategy)
    killed = worker_pids(os.getpid())[0]
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: len(downs(packed, run_id)) == 1, 5, "the loss is noticed")
    assert downs(packed, run_id)[0].endswith(f"(pid {killed}) ended by signal 9, as when memory runs out")
    for ended in runs.trainers(packed):  # that of the killed worker may be among them still
        packed.rows(sql("select pg_terminate_backend(%(pid)s::int)"), pid=ended)
    assert fit.finished()["configs"] == 2
    last = downs(packed, run_id)[-1]
    assert "lost its session: " in last
    assert "terminating connection" in last or "closed the connection" in last
    as_plain(packed, run_id, output)
    runs.no_helpers(packed)


def test_a_failed_hop_leaves_its_worker_fit_for_the_next(
    packed: PsycopgDatabase, pg_module_dsn: str, client: Callable[..., Any]
) -> None:
    """Another session keeps a config's state locked, until a hop of it has failed."""
    fit, run_id = client("failed", '{"threads": 1, "seed": 7, "lock_seconds": 0.3, "max_failures": 100}')
    workers = worker_pids(os.getpid())
    failures = sql("select reason from cerebro_private.event where kind = 'hop_failed' and run_id = %(run_id)s")
    with connect(pg_module_dsn) as locker, locker.transaction():
        locker.script(sql(f"lock table cerebro_private.state_{run_id}_1 in access exclusive mode"))
        wait_until(lambda: len(packed.rows(failures, run_id=run_id)) >= 2, 30, "hops have failed")
    fit.finished()
    assert {row["reason"] for row in packed.rows(failures, run_id=run_id)} == {
        "canceling statement due to lock timeout"
    }
    assert (downs(packed, run_id), len(workers)) == ([], SEGMENTS)
    as_plain(packed, run_id, "failed")


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_whether_a_hop_is_committed_is_asked_when_its_session_has_made_up_its_mind(
    packed: PsycopgDatabase, pg_module_dsn: str, ending: str
) -> None:
    """A worker that dies as it commits leaves a session behind, which may be a moment late."""
    running, run_id = runs.start_fit(
        pg_module_dsn, packed, "packed", f"late_{ending}", "two", 10_000, strategy="streaming", threads=1
    )
    running.cancelled(10)
    hop = {"run_id": run_id, "mst_key": 1, "epoch": 9000, "segment_id": 1}
    row = {**dict.fromkeys(PARTS, 0.0), "loss": float("nan"), "row_count": 1, "state_bytes": 1, "seconds": 2.5}
    row["train_seconds"] = 2.5
    answer: List[Any] = []

    def ask() -> None:
        with connect(pg_module_dsn) as database:
            answer.append(Catalog(database, run_id).finished_hop(Hop(9000, 1, 1)))

    asking = threading.Thread(target=ask, daemon=True)
    with connect(pg_module_dsn) as late:
        late.script(sql("begin"))
        late.rows(query("catalog", "clear_state"), run_id=run_id, mst_key=1)
        asking.start()
        waits = sql("select 1 from pg_locks where not granted and relation = %(table)s::text::regclass")
        table = f"cerebro_private.state_{run_id}_1"
        wait_until(lambda: bool(packed.rows(waits, table=table)), 10, "the question waits")
        late.rows(query("catalog", "save_hop"), **hop, **row)
        late.script(sql(ending))
    asking.join(10)
    if ending == "commit":
        (found,) = answer
        assert found == {"seconds": pytest.approx(2.5, abs=0.001), "diverged": True}  # by two looks at the clock
    else:
        assert answer == [None]


def test_a_diverged_config_stops_and_the_other_goes_on(packed: PsycopgDatabase, pg_module_dsn: str) -> None:
    wild = {**runs.ADAM, "optimizer": "sgd", "lr": 1e30}
    runs.make_selection(packed, "wild", {1: CONFIGS[1], 2: (runs.MLP, wild, "batch_size=8")})
    row = runs.fit(packed, "packed", "wild_out", "wild", 2, threads=1, strategy="streaming")
    ends = packed.rows(
        sql("select mst_key, status from cerebro.config where run_id = %(run_id)s order by 1"), run_id=row["run_id"]
    )
    assert [(end["mst_key"], end["status"]) for end in ends] == [(1, "finished"), (2, "diverged")]


def test_a_misfit_is_refused_before_anything_is_made(packed: PsycopgDatabase) -> None:
    runs.make_selection(packed, "misfit", {1: ({"model": "cnn", "channels": [8]}, runs.ADAM, "batch_size=8")})
    before = runs.relations(packed)
    with pytest.raises(psycopg2.Error, match="mst_key 1|cnn") as info:
        runs.fit(packed, "packed", "never", "misfit", 1, threads=1, strategy="streaming")
    assert info.value.pgcode == UsageError.sqlstate
    assert runs.relations(packed) == before
    runs.no_helpers(packed)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_from_sql_the_workers_belong_to_the_call(
    packed: PsycopgDatabase, pg_module_dsn: str, strategy: str
) -> None:
    """Workers are children of the backend, and end with the statement."""
    options: Dict[str, Any] = {"threads": 1, "seed": 7, "order": "round"}
    running, run_id = runs.start_fit(
        pg_module_dsn, packed, "packed", f"sql_{strategy}", "two", EPOCHS, hops=2, strategy=strategy, **options
    )
    workers = worker_pids(running.pid)
    assert len(workers) == SEGMENTS
    assert running.finished()["status"] == "finished"
    assert worker_pids(running.pid) == []
    all_gone(workers, 0)
    running.close()
    as_plain(packed, run_id, f"sql_{strategy}")


def test_a_cancel_and_a_terminated_caller_end_the_workers(packed: PsycopgDatabase, pg_module_dsn: str) -> None:
    cancel, terminate = sql("select pg_cancel_backend(%(pid)s::int)"), sql("select pg_terminate_backend(%(pid)s::int)")
    running, run_id = runs.start_fit(
        pg_module_dsn, packed, "packed", "ended", "two", 10_000, hops=2, strategy="streaming", threads=1, seed=7
    )
    workers = worker_pids(running.pid)
    packed.rows(cancel, pid=running.pid)
    assert running.failed(5).pgcode == "57014"
    all_gone(workers, 0)
    runs.no_helpers(packed)
    assert runs.status(packed, run_id) == "cancelled"
    running.close()

    done = len(runs.hops(packed, run_id))
    running = Running(pg_module_dsn, runs.RESUME, run_id=run_id)
    runs.wait_for_hops(packed, run_id, done + 2, running)
    workers = worker_pids(running.pid)
    assert len(workers) == SEGMENTS
    packed.rows(terminate, pid=running.pid)
    running.failed(10)
    all_gone(workers)
    runs.no_helpers(packed)
    running.close()


def test_a_plain_role_trains_from_sql_with_its_own_rights(pg: PsycopgDatabase, role: Callable[..., Any]) -> None:
    """By every strategy, with the same state; the workers log in as a role that lasts as long as the call."""
    alice = role("alice")
    session = alice()
    runs.make_images(session, "images", 40)
    runs.pack(session, "images", "packed", SEGMENTS)
    runs.make_selection(session, "two", CONFIGS)
    states = []
    stored = "select mst_key, model_weights, optimizer_state from by_{} order by 1"
    for strategy in ("in_rdbms", *STRATEGIES):
        row = runs.fit(session, "packed", f"by_{strategy}", "two", 1, threads=1, strategy=strategy)
        assert row["status"] == "finished"
        states.append(session.rows(sql(stored.format(strategy))))
        runs.no_helpers(pg)
    assert len(states[0]) == len(CONFIGS)
    assert all(state == states[0] for state in states)
