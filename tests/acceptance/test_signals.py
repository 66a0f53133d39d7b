"""Threads that libraries start inside a backend never take the server's signals."""

from __future__ import annotations

import signal
from typing import List, Tuple

import pytest

from cerebro_db.client import PsycopgDatabase
from cerebro_db.engines import on_greenplum
from tests import runs
from tests.processes import threads
from tests.runs import sql

#: What a thread cannot block: KILL and STOP by the kernel's rule, 32 to 34 kept by the C library for itself.
UNBLOCKABLE = {int(signal.SIGKILL), int(signal.SIGSTOP), 32, 33, 34}
EVERY = {number for number in range(1, 65) if number not in UNBLOCKABLE}


def born_blocked(pid: int) -> int:
    """Fail unless every thread but the main one blocks every signal; gives how many there are besides it."""
    others = {tid: blocked for tid, blocked in threads(pid).items() if tid != pid}
    for tid, blocked in others.items():
        assert blocked >= EVERY, f"thread {tid} of {pid} takes signals {sorted(EVERY - blocked)}"
    return len(others)


def watched(pg: PsycopgDatabase, dsn: str, count: int) -> Tuple[List[int], int]:
    """Threads beside the main one in each of two training sessions, and in the coordinator, during a run."""
    runs.make_images(pg, "images", 400, side=32)
    runs.pack(pg, "images", "packed", segments=2)
    arch = {"model": "mlp", "hidden": [256]}
    runs.make_selection(pg, "two", dict.fromkeys((1, 2), (arch, runs.ADAM, "batch_size=200")))
    running, run_id = runs.start_fit(dsn, pg, "packed", "out", "two", 500, threads=count, hops=6)
    sessions = runs.training_processes(pg)
    assert len(sessions) == 2
    found = [max(born_blocked(pid) for pid in pids) for pids in sessions], born_blocked(running.pid)
    if not on_greenplum(pg):  # where they wait until the coordinator looks
        assert not threads(running.pid)[running.pid] & {int(signal.SIGINT), int(signal.SIGTERM), int(signal.SIGUSR1)}
    pg.rows(sql("select madlib_mop_cancel(%(run_id)s::int)"), run_id=run_id)
    assert running.failed().pgcode == "57014"
    assert born_blocked(running.pid) == found[1]
    assert threads(running.pid)[running.pid] == threads(pg.connection.info.backend_pid)[pg.connection.info.backend_pid]
    running.close()
    return found


@pytest.mark.parametrize("count", [1, 2])
def test_every_thread_but_the_main_one_blocks_every_signal_during_a_run(
    pg: PsycopgDatabase, pg_dsn: str, count: int
) -> None:
    trainers, _ = watched(pg, pg_dsn, count)
    assert all(others >= count - 1 for others in trainers), trainers


def test_a_caller_that_packs_arrays_has_no_thread_that_takes_signals(pg: PsycopgDatabase) -> None:
    pg.script(
        sql(
            "create table arrays as select array[i, i + 1]::float4[] as x, i % 2 as label"
            "  from generate_series(1, 50) i"
        )
    )
    runs.pack(pg, "arrays", "arrays_packed", segments=2, features="x", normalizing_const=1.0)
    pid = pg.connection.info.backend_pid
    born_blocked(pid)
    assert not threads(pid)[pid] & {int(signal.SIGINT), int(signal.SIGTERM), int(signal.SIGUSR1)}


def test_a_caller_that_predicts_has_no_thread_that_takes_signals(pg: PsycopgDatabase) -> None:
    runs.make_images(pg, "images", 400, side=32)
    runs.pack(pg, "images", "packed", segments=1)
    runs.make_selection(pg, "one", {1: ({"model": "mlp", "hidden": [256]}, runs.ADAM, "batch_size=200")})
    runs.fit(pg, "packed", "out", "one", 1)
    pg.rows(sql("select madlib_mop_predict('out', 'images', 'id', 'img', 'predicted', 'response')"))
    pid = pg.connection.info.backend_pid
    assert born_blocked(pid) >= 1  # the libraries did start threads
    assert not threads(pid)[pid] & {int(signal.SIGINT), int(signal.SIGTERM), int(signal.SIGUSR1)}
