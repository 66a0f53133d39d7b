"""What a call keeps for its caller's next one: used again under the same rights, clean, and never for long."""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Any, Callable, Iterator, List, Set

import psycopg2
import pytest

import cerebro_db
from cerebro_db import crew
from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.client_sessions import ClientSessions, Stop
from cerebro_db.executors import local
from tests import runs
from tests.conftest import Role
from tests.processes import all_gone, worker_pids
from tests.runs import sql
from tests.support import wait_until

pytestmark = pytest.mark.postgresql("older servers end no idle session by themselves, so none is kept there")

SEGMENTS = 2
CONFIGS: runs.Configs = {1: (runs.MLP, runs.ADAM, "batch_size=8"), 2: (runs.MLP, runs.ADAM, "batch_size=16")}
LONG, SHORT = 60, 1


@pytest.fixture(scope="module")
def packed(pg_module: PsycopgDatabase) -> PsycopgDatabase:
    prepare(pg_module, "")
    return pg_module


@pytest.fixture
def own(packed: PsycopgDatabase, pg_module_dsn: str) -> Iterator[PsycopgDatabase]:
    """A session of its own, which takes with it what it keeps."""
    with connect(pg_module_dsn) as session:
        yield session
    wait_until(lambda: kept(packed) == set(), 10, f"kept sessions are gone: {kept(packed)}")


def prepare(database: PsycopgDatabase, prefix: str, rows: int = 80) -> None:
    runs.make_images(database, f"{prefix}images", rows)
    runs.pack(database, f"{prefix}images", f"{prefix}packed", SEGMENTS)
    runs.make_selection(database, f"{prefix}two", CONFIGS)


def kept(database: PsycopgDatabase) -> Set[int]:
    """Processes of sessions that wait for the next call."""
    rows = database.rows(
        sql("select pid from pg_stat_activity where application_name = 'cerebro kept' and datname = current_database()")
    )
    return {row["pid"] for row in rows}


_numbers = iter(range(1000))


def fit(database: PsycopgDatabase, keep_seconds: float, prefix: str = "", **options: Any) -> int:
    """A fit of one epoch; gives its run."""
    output = f"{prefix}out_{next(_numbers)}"
    row = runs.fit(
        database, f"{prefix}packed", output, f"{prefix}two", 1, threads=1, keep_seconds=keep_seconds, **options
    )
    assert row["status"] == "finished"
    return int(row["run_id"])


def sessions_of(database: PsycopgDatabase, run_id: int) -> Set[int]:
    """Processes that the hops of a run were trained by, as the catalog has them."""
    return {hop["session_pid"] for hop in runs.hops(database, run_id)}


def output_of(database: PsycopgDatabase, run_id: int) -> str:
    (row,) = database.rows(
        sql("select model_output_table as name from cerebro.run where run_id = %(run_id)s"), run_id=run_id
    )
    return str(row["name"])


def same_weights(database: PsycopgDatabase, one: int, other: int) -> None:
    for key in CONFIGS:
        first, second = (runs.weights(database, output_of(database, run_id), key) for run_id in (one, other))
        assert first == second


def test_the_next_fit_trains_in_the_same_sessions_to_the_same_bits(own: PsycopgDatabase) -> None:
    first = fit(own, LONG, seed=3)
    assert kept(own) == sessions_of(own, first)
    second = fit(own, LONG, seed=3)
    assert sessions_of(own, second) == sessions_of(own, first)
    last = fit(own, 0, seed=3)  # takes them, and keeps none
    assert sessions_of(own, last) == sessions_of(own, first)
    runs.no_helpers(own)
    assert kept(own) == set()
    cold = fit(own, 0, seed=3)
    assert not sessions_of(own, cold) & sessions_of(own, first)
    for run_id in (second, last, cold):
        same_weights(own, first, run_id)


def test_idle_sessions_end_by_themselves_and_in_time(own: PsycopgDatabase, packed: PsycopgDatabase) -> None:
    first = fit(own, SHORT)
    wait_until(lambda: kept(packed) == set(), 20, "idle sessions have ended while nobody used the caller's")
    second = fit(own, 0)
    assert not sessions_of(own, first) & sessions_of(own, second)


def test_a_kept_session_forgets_the_run_before(own: PsycopgDatabase, packed: PsycopgDatabase) -> None:
    """The same names with other rows, and nothing of the first run's locks, settings, tables or statements."""
    prepare(own, "again_", 60)
    first = fit(own, LONG, "again_", strategy="hybrid")
    (facts,) = packed.rows(
        sql(
            "select count(*) as locks from pg_locks l join pg_stat_activity a using (pid)"
            " where a.application_name = 'cerebro kept' and a.datname = current_database()"
        )
    )
    assert facts["locks"] == 0
    states = packed.rows(
        sql(
            "select distinct state, query, backend_xmin is null as free from pg_stat_activity"
            " where application_name = 'cerebro kept' and datname = current_database()"
        )
    )
    assert [(row["state"], row["free"]) for row in states] == [("idle", True)]
    own.script(sql("drop table again_packed, again_packed_summary, again_images"))
    runs.make_images(own, "again_images", 100, classes=2)
    runs.pack(own, "again_images", "again_packed", SEGMENTS)
    second = fit(own, LONG, "again_", strategy="hybrid")
    assert sessions_of(own, second) == sessions_of(own, first)
    assert sum(hop["rows"] for hop in runs.hops(own, second)) == 100 * len(CONFIGS)
    cold = fit(own, 0, "again_")
    same_weights(own, second, cold)


def test_what_is_kept_of_a_plain_role_lets_nobody_in(pg: PsycopgDatabase, role: Callable[..., Role]) -> None:
    alice = role("alice")
    session = alice()
    prepare(session, "")
    login = sql("select rolcanlogin, rolpassword is null as bare from pg_authid where rolname like 'cerebro_session%%'")
    first = fit(session, LONG)
    assert kept(pg) == sessions_of(session, first)
    assert pg.rows(login) == [{"rolcanlogin": False, "bare": True}]
    second = fit(session, LONG)
    assert sessions_of(session, second) == sessions_of(session, first)
    assert pg.rows(login) == [{"rolcanlogin": False, "bare": True}]
    session.close()
    wait_until(lambda: kept(pg) == set(), 10, "kept sessions end with their caller's")
    fit(alice(), 0)  # whoever calls next drops it
    assert pg.rows(login) == []


def test_no_other_role_of_the_same_session_gets_them(pg: PsycopgDatabase, role: Callable[..., Role]) -> None:
    alice, bob = role("alice"), role("bob")
    used: List[Set[int]] = []
    for name in (alice.name, bob.name):
        pg.script(sql(f"set session authorization {name}"))
        prepare(pg, f"{name}_")
        used.append(sessions_of(pg, fit(pg, LONG, f"{name}_")))
        pg.script(sql("reset session authorization"))
        wait_until(lambda: kept(pg) == used[-1], 10, "those of the other role have ended")
    assert not used[0] & used[1]
    pg.script(sql(f"set role {alice.name}"))
    used.append(sessions_of(pg, fit(pg, 0, f"{alice.name}_")))
    assert not used[2] & (used[0] | used[1])
    pg.script(sql("reset role"))
    wait_until(lambda: kept(pg) == set(), 10, "nothing is kept")
    assert runs.session_roles(pg) == []


def test_after_a_cancel_nothing_is_kept_and_the_next_run_starts_anew(
    own: PsycopgDatabase, packed: PsycopgDatabase, pg_module_dsn: str
) -> None:
    first = sessions_of(own, fit(own, LONG))
    assert kept(packed) == first
    timer = threading.Timer(3, own.connection.cancel)
    timer.start()
    with pytest.raises(psycopg2.errors.QueryCanceled):
        runs.fit(own, "packed", "cancelled", "two", 500, threads=1, keep_seconds=LONG)
    timer.join()
    runs.no_helpers(packed, 10)
    assert kept(packed) == set()
    assert not sessions_of(own, fit(own, 0)) & first


def test_a_refused_call_leaves_what_was_kept(own: PsycopgDatabase, packed: PsycopgDatabase) -> None:
    first = sessions_of(own, fit(own, LONG))
    wrong = json.dumps({"threads": 1, "keep_seconds": LONG})
    for arguments, options in (("'packed', 'x', 'nothing', 1", wrong), ("'packed', 'x', 'two', 0", wrong)):
        with pytest.raises(psycopg2.Error) as info:
            own.rows(sql(f"select madlib_mop_fit({arguments}, options := %(options)s::jsonb)"), options=options)
        assert info.value.pgcode in ("42704", "22023")
        assert kept(packed) == first
    assert sessions_of(own, fit(own, 0)) == first


def test_a_refused_cold_call_leaves_nothing(own: PsycopgDatabase, packed: PsycopgDatabase) -> None:
    with pytest.raises(psycopg2.errors.InvalidParameterValue, match="num_iterations is 0"):
        runs.fit(own, "packed", "x", "two", 0, keep_seconds=LONG)
    runs.no_helpers(packed, 10)
    assert kept(packed) == set()


def test_sessions_that_start_ahead_are_those_that_train(own: PsycopgDatabase, packed: PsycopgDatabase) -> None:
    importing = sql(
        "select pid from pg_stat_activity"
        " where query like '%%warm_up(%%' and application_name = 'cerebro' and datname = current_database()"
    )
    with ClientSessions(own, Stop(), 10.0) as sessions:
        sessions.ahead(SEGMENTS)
        wait_until(lambda: len(packed.rows(importing)) == SEGMENTS, 20, "sessions import what training needs")
        ahead = {row["pid"] for row in packed.rows(importing)}
        first = sessions.start()
        assert first.warm
        assert first.connection.info.backend_pid in ahead
        sessions.ahead(0)
        wait_until(lambda: len(runs.helpers(packed)) == 1, 20, "the one that nobody took is closed")
        assert first.done(time.monotonic() + 60)
        assert not sessions.start().warm
    runs.no_helpers(packed, 20)


def test_a_kept_session_that_was_ended_is_replaced(own: PsycopgDatabase, packed: PsycopgDatabase) -> None:
    first = sessions_of(own, fit(own, LONG))
    lost = min(first)
    packed.rows(sql("select pg_terminate_backend(%(pid)s::int)"), pid=lost)
    wait_until(lambda: lost not in kept(packed), 10, "it is gone")
    second = sessions_of(own, fit(own, 0))
    assert len(second) == SEGMENTS
    assert second & first == first - {lost}


def test_what_is_idle_gives_way_where_connections_are_few(pg: PsycopgDatabase, role: Callable[..., Role]) -> None:
    session = role("alice")()
    prepare(session, "")
    fit(session, LONG)
    wait_until(lambda: len(kept(pg)) == SEGMENTS, 10, "sessions are kept")
    database = pg.rows(sql("select current_database()::text as name, count(*) as n from pg_stat_activity"
                           " where datname = current_database()"))[0]  # fmt: skip
    pg.script(sql(f"alter database {database['name']} connection limit {database['n'] + 4}"))
    # The coordinator has two, and each of its workers and their readers has one: more than are free beside idle ones.
    assert len(sessions_of(session, fit(session, 0, strategy="streaming"))) == SEGMENTS


def test_listed_code_is_imported_anew_by_every_call(pg: PsycopgDatabase) -> None:
    factory = "torch.nn.modules.linear:Linear"
    pg.rows(sql("select register_factory(%(factory)s)"), factory=factory)
    arch = {"factory": factory, "params": {"in_features": 16, "out_features": 3}}
    runs.make_images(pg, "images", 40)
    runs.pack(pg, "images", "packed", SEGMENTS)
    runs.make_selection(pg, "two", {1: (arch, runs.ADAM, "batch_size=8")})
    fit(pg, LONG)
    assert kept(pg) == set()
    runs.no_helpers(pg)


def test_worker_processes_are_used_again_and_end_by_themselves(own: PsycopgDatabase, packed: PsycopgDatabase) -> None:
    backend = own.connection.info.backend_pid
    assert worker_pids(backend) == []
    first = fit(own, LONG, strategy="streaming", seed=3)
    workers = worker_pids(backend)
    assert len(workers) == SEGMENTS
    runs.no_helpers(packed)  # they rest without a session
    second = fit(own, LONG, strategy="export", seed=3)
    assert worker_pids(backend) == workers
    third = fit(own, SHORT, strategy="streaming", seed=3)
    all_gone(workers, 20)
    cold = fit(own, 0, strategy="streaming", seed=3)
    assert worker_pids(backend) == []
    for run_id in (second, third, cold):
        same_weights(own, first, run_id)


def test_workers_end_with_their_caller_and_are_not_another_roles(
    pg: PsycopgDatabase, pg_dsn: str, role: Callable[..., Role]
) -> None:
    alice = role("alice")
    with connect(pg_dsn) as session:
        backend = session.connection.info.backend_pid
        prepare(session, "")
        fit(session, LONG, strategy="streaming")
        workers = worker_pids(backend)
        session.script(sql(f"set session authorization {alice.name}"))
        prepare(session, "alice_")
        fit(session, LONG, "alice_", strategy="streaming")
        others = set(worker_pids(backend)) - set(workers)
        assert len(others) == SEGMENTS
    all_gone([*workers, *others], 20)


@pytest.mark.parametrize("strategy", ["hybrid", "streaming"])
def test_a_client_keeps_them_per_server_and_role(packed: PsycopgDatabase, pg_module_dsn: str, strategy: str) -> None:
    used = []
    for seconds in (LONG, LONG, 0):
        options = {"threads": 1, "keep_seconds": seconds}
        run = cerebro_db.fit(
            pg_module_dsn, "packed", f"client_{next(_numbers)}", "two", 1, strategy=strategy, options=options
        )
        if strategy == "hybrid":
            used.append(sessions_of(packed, run.run_id))
            assert kept(packed) == (used[-1] if seconds else set())
        else:
            used.append(set(worker_pids_here()) or used[-1])
    assert len(used[0]) == SEGMENTS
    assert used[0] == used[1] == used[2]
    assert worker_pids_here() == []
    assert crew.SHELF.count == local.SHELF.count == 0


def worker_pids_here() -> List[int]:
    return worker_pids(os.getpid())
