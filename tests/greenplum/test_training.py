"""Training in the processes of Greenplum's segments: which of them, what they keep, and what happens when they go."""

from __future__ import annotations

import signal
import socket
import time
from contextlib import suppress
from functools import partial
from typing import Any, Iterator, List, Sequence

import psycopg2
import pytest
import torch

from cerebro_db import remote
from cerebro_db.catalog import Catalog
from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.messages import Message
from cerebro_db.remote import Channel, RemoteWorker
from cerebro_db.sqltext import Fragment, ident, numbered, query
from cerebro_db.visits import Place
from tests import plain, runs
from tests.processes import threads
from tests.runs import FIT, RESUME, Running, sql
from tests.support import wait_until

SEGMENTS = 3
CONFIGS: runs.Configs = {
    1: (runs.MLP, runs.ADAM, "batch_size=16"),
    2: ({"model": "mlp", "hidden": [8], "dropout": 0.5}, runs.ADAM, "batch_size=7"),
}
PLAIN = {
    1: plain.Config(plain.mlp(16, 8, 3), partial(torch.optim.Adam, lr=0.01), 16),
    2: plain.Config(plain.mlp(16, 8, 3, dropout=0.5), partial(torch.optim.Adam, lr=0.01), 7),
}
#: Processes of segments that train at this moment.
_TRAINING = sql(
    "select pid from gp_dist_random('pg_stat_activity')"
    " where datname = current_database() and state = 'active' and query ~ 'cerebro_private.in_segment'"
    "   and query !~ 'gp_dist_random'"
)


@pytest.fixture(scope="module")
def data(gp_server: str, pg_module: PsycopgDatabase) -> PsycopgDatabase:
    """203 images in three segments of several buffers, twice: to train on and to validate on."""
    runs.make_images(pg_module, "images", 203)
    runs.pack(pg_module, "images", "packed", SEGMENTS, buffer_size=9)
    pg_module.rows(sql("select validation_preprocessor_dl('images', 'checked', 'label', 'img', 'packed')"))
    runs.make_selection(pg_module, "two", CONFIGS)
    return pg_module


@pytest.fixture
def database(data: PsycopgDatabase, pg_module_dsn: str) -> Iterator[PsycopgDatabase]:
    """A session of the test's own; what runs have left in the module's database is removed first."""
    for row in data.rows(sql("select output from (select distinct model_output_table as output from cerebro.run) r")):
        data.script(sql("drop table if exists {0}, {0}_info, {0}_summary".format(row["output"])))
    with connect(pg_module_dsn) as session:
        yield session


def same_as_plain(database: PsycopgDatabase, run_id: int, output: str) -> None:
    """Fail unless the models are those of a plain loop in the order of the hops."""
    packed, hops = plain.read(database.connection, "packed"), runs.hops(database, run_id)
    for key, config in PLAIN.items():
        expected = plain.train(packed, config, key, plain.visits(hops, key))
        plain.same_bits(runs.weights(database, output, key), expected)


# -- which process ---------------------------------------------------------------------------------


def explained(database: PsycopgDatabase, statement: Fragment, types: Sequence[str], arguments: str) -> List[str]:
    """The plan of a statement as the sessions of a run have it: prepared once, its values left out."""
    remote.prepare(database)
    text, _ = numbered(statement)
    database.script(sql(f"prepare looked ({', '.join(types)}) as {text}"))
    rows = database.rows(sql(f"explain execute looked ({arguments})"))
    return [next(iter(row.values())) for row in rows]


PARTS = {"packed": ident("packed")}


@pytest.mark.parametrize(
    ("name", "types", "arguments"),
    [
        ("tell", ["text", "bytea[]"], "'{}', '{}'"),
        ("bring", ["text", "bigint[]"], "'{}', '{1,2}'"),
        ("first_buffer", ["text"], "''"),
    ],
)
def test_a_statement_goes_to_one_segment_and_moves_no_rows_there(
    database: PsycopgDatabase, name: str, types: List[str], arguments: str
) -> None:
    """Whatever planner the server prefers."""
    with suppress(psycopg2.Error):  # a server may be built without it
        database.script(sql("set optimizer = on"))
    (key,) = database.rows(sql("select __dist_key__ as key, min(buffer_id) as first from packed group by 1 limit 1"))
    parts = {"key": Fragment(str(key["key"])), "buffer": Fragment(str(key["first"])), "columns": sql("p.img, p.label")}
    plan = explained(database, query("remote", name, **PARTS, **parts), types, arguments)
    motions = [line.strip() for line in plan if "Motion" in line]
    assert len(motions) == 1, plan
    assert "Gather Motion 1:1  (slice1; segments: 1)" in motions[0]


@pytest.fixture
def cancelled(database: PsycopgDatabase, pg_module_dsn: str) -> int:
    """A run that was cancelled in its middle, whose states are there."""
    running, run_id = runs.start_fit(
        pg_module_dsn, database, "packed", "never", "two", 10_000, threads=1, validation="checked"
    )
    running.cancelled(30)
    return run_id


class Watched(Channel):
    """Notes which process answers."""

    pids: List[int]

    def _answer(self, sql: Fragment, **values: Any) -> Message:
        answer = super()._answer(sql, **values)
        if "pid" in answer.head:
            self.pids.append(answer.head["pid"])
        return answer


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> List[int]:
    pids: List[int] = []
    monkeypatch.setattr(Watched, "pids", pids, raising=False)
    monkeypatch.setattr(remote, "Channel", Watched)
    return pids


def worker(database: PsycopgDatabase, run_id: int, segment_id: int = 0) -> RemoteWorker:
    """The session's side of a segment, in this process."""
    remote.prepare(database)
    return RemoteWorker(database, Place(run_id, Catalog(database, run_id).plan(), segment_id))


def test_all_hops_of_a_segment_are_trained_in_one_process(
    database: PsycopgDatabase, cancelled: int, watched: List[int]
) -> None:
    """Also when states are written, rows are read and the catalog is asked in between."""
    segment = worker(database, cancelled)
    for epoch in (90_001, 90_002):
        for key in CONFIGS:
            assert segment.hop((key,), epoch, True)["diverged"] == []
    assert len(watched) == 5  # opened, and four hops
    assert len(set(watched)) == 1
    home = one_value(database, "select pg_backend_pid() as pid")
    assert watched[0] != home


def one_value(database: PsycopgDatabase, text: str, **values: Any) -> Any:
    (row,) = database.rows(sql(text), **values)
    return next(iter(row.values()))


# -- when it goes ----------------------------------------------------------------------------------


class Plainly:
    """A session without temporary tables, as a backend's: the server ends the idle processes of no other."""

    def __init__(self, database: PsycopgDatabase) -> None:
        self.rows, self.stream, self.notice = database.rows, database.stream, database.notice
        self.transaction = database.transaction


def terminated(database: PsycopgDatabase, pid: int) -> None:
    """End a segment's process by its number there, and wait until it is gone."""
    where = f"from gp_dist_random('pg_stat_activity') where pid = {pid}"
    assert database.rows(sql(f"select pg_terminate_backend(pid) as done {where}")) == [{"done": True}]
    gone(database, pid)


def gone(database: PsycopgDatabase, pid: int) -> None:
    text = sql(f"select pid from gp_dist_random('pg_stat_activity') where pid = {pid}")
    wait_until(lambda: not database.rows(text), 30, f"process {pid} is gone")


def test_a_process_that_is_gone_is_noticed_and_filled_again(
    data: PsycopgDatabase, database: PsycopgDatabase, cancelled: int, watched: List[int]
) -> None:
    segment = worker(Plainly(database), cancelled)
    segment.hop((1,), 90_001, False)
    (first,) = set(watched)
    terminated(data, first)
    again = 0
    while len(set(watched)) == 1:  # the server may fail the first statement that finds it gone
        try:
            segment.hop((1,), 90_002, True)
        except psycopg2.Error:
            again += 1
            assert again < 3
    assert watched[-1] != first
    assert {row["epoch"] for row in runs.hops(database, cancelled)} >= {90_001, 90_002}


@pytest.fixture(scope="module")
def long_job(data: PsycopgDatabase) -> PsycopgDatabase:
    """Two configs whose hops take seconds: 3000 images of 32 x 32 in batches of 4, five passes a hop."""
    runs.make_images(data, "large", 3000, side=32)
    runs.pack(data, "large", "large_packed", SEGMENTS)
    arch = {"model": "mlp", "hidden": [256]}
    runs.make_selection(data, "long", dict.fromkeys((1, 2), (arch, runs.ADAM, "batch_size=4, epochs=50")))
    return data


def busy(database: PsycopgDatabase) -> List[int]:
    return [row["pid"] for row in database.rows(_TRAINING)]


def in_a_hop(dsn: str, database: PsycopgDatabase, **options: Any) -> Running:
    """A fit of the long job in the middle of its first hops."""
    values = runs.fit_values("large_packed", "never", "long", 50, **{"threads": 1, **options})
    running = Running(dsn, FIT, **values)

    def both_train() -> bool:
        return len(runs.trainers(database)) == len(busy(database)) == 2 or not running.running

    wait_until(both_train, 120, "two segments train")
    assert running.running, running.error
    return running


def all_idle(database: PsycopgDatabase, seconds: float) -> None:
    wait_until(lambda: not busy(database), seconds, "no segment trains any more")


@pytest.mark.parametrize("strategy", ["in_rdbms", "hybrid"])
@pytest.mark.parametrize("cache", [1024, 0])
def test_a_cancel_ends_hops_on_the_segments_in_time(
    long_job: PsycopgDatabase, pg_module_dsn: str, strategy: str, cache: int
) -> None:
    running = in_a_hop(pg_module_dsn, long_job, strategy=strategy, cache_mb=cache, window_mb=1)
    asked = time.monotonic()
    running.database.connection.cancel()
    assert running.failed(30).pgcode == "57014"
    all_idle(long_job, 3)
    assert time.monotonic() - asked < 3
    running.close()
    runs.no_helpers(long_job)


def test_a_statement_timeout_ends_hops_on_the_segments_in_time(
    long_job: PsycopgDatabase, pg_module_dsn: str
) -> None:
    with connect(pg_module_dsn, options="-c statement_timeout=20s") as database:
        asked = time.monotonic()
        with pytest.raises(psycopg2.Error) as info:
            runs.fit(database, "large_packed", "never", "long", 50, threads=1)
        assert info.value.pgcode == "57014"
        assert 20 <= time.monotonic() - asked < 23
    all_idle(long_job, 3)
    runs.no_helpers(long_job)


def test_every_thread_but_the_main_one_blocks_every_signal_on_a_segment(
    long_job: PsycopgDatabase, pg_module_dsn: str
) -> None:
    hosts = long_job.rows(sql("select distinct hostname as host from gp_segment_configuration"))
    if {row["host"] for row in hosts} - {"localhost", "127.0.0.1", socket.gethostname()}:
        pytest.skip("the segments are on other hosts")
    running = in_a_hop(pg_module_dsn, long_job, threads=2)
    signals = {int(number) for number in signal.valid_signals()} - {signal.SIGKILL, signal.SIGSTOP}
    for pid in busy(long_job):
        others = {tid: blocked for tid, blocked in threads(pid).items() if tid != pid}
        assert others
        for tid, blocked in others.items():
            assert blocked >= signals, tid
    running.cancelled(30)


# -- kill and resume -------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["in_rdbms", "hybrid"])
def test_a_training_session_that_is_ended_is_replaced_and_the_bits_are_the_same(
    database: PsycopgDatabase, pg_module_dsn: str, strategy: str
) -> None:
    running, run_id = runs.start_fit(
        pg_module_dsn, database, "packed", "out", "two", 20, threads=1, hops=8, strategy=strategy
    )
    (pid, *_) = runs.trainers(database)
    assert one_value(database, "select pg_terminate_backend(%(pid)s::int) as done", pid=pid) is True
    assert running.finished()["status"] == "finished"
    running.close()
    assert runs.keys(runs.hops(database, run_id)) == runs.every_hop(list(CONFIGS), 20, SEGMENTS)
    same_as_plain(database, run_id, "out")


def test_a_segment_process_that_is_ended_costs_a_hop_at_most(database: PsycopgDatabase, pg_module_dsn: str) -> None:
    running, run_id = runs.start_fit(pg_module_dsn, database, "packed", "out", "two", 30, threads=1, hops=8)
    wait_until(lambda: bool(busy(database)), 30, "a segment trains", every=0.001)
    end = sql(str(_TRAINING).replace("select pid", "select pg_terminate_backend(pid) as done"))
    wait_until(lambda: bool(database.rows(end)), 30, "a process is ended in the middle of a hop", every=0.001)
    assert running.finished()["status"] == "finished"
    running.close()
    assert runs.keys(runs.hops(database, run_id)) == runs.every_hop(list(CONFIGS), 30, SEGMENTS)
    same_as_plain(database, run_id, "out")


def test_a_run_whose_coordinator_is_ended_goes_on_to_the_same_bits(
    database: PsycopgDatabase, pg_module_dsn: str
) -> None:
    running, run_id = runs.start_fit(pg_module_dsn, database, "packed", "out", "two", 20, threads=1, hops=8)
    assert one_value(database, "select pg_terminate_backend(%(pid)s::int) as done", pid=running.pid) is True
    running.failed(30)
    # Greenplum may tell a session that it ends by cancelling its statement first.
    over = ("interrupted", "cancelled")
    wait_until(lambda: runs.status(database, run_id) in over, 30, "the run is known to be interrupted")
    done = len(runs.hops(database, run_id))
    assert 8 <= done < 120
    resumed = Running(pg_module_dsn, RESUME, run_id=run_id)
    assert resumed.finished()["status"] == "finished"
    resumed.close()
    assert runs.keys(runs.hops(database, run_id)) == runs.every_hop(list(CONFIGS), 20, SEGMENTS)
    same_as_plain(database, run_id, "out")


# -- what comes in and goes out --------------------------------------------------------------------


def test_rows_to_validate_on_may_lie_on_one_segment_each(database: PsycopgDatabase) -> None:
    """The training table itself, of which every session makes a copy for itself; equal to a replicated table."""
    found = []
    for table, caching in (("checked", True), ("packed", True), ("packed", False)):
        row = runs.fit(database, "packed", "out", "two", 1, threads=1, validation=table, caching=caching)
        database.script(sql("drop table out, out_info, out_summary"))
        last = [hop for hop in runs.hops(database, row["run_id"]) if hop["validation_rows"] is not None]
        assert [hop["validation_rows"] for hop in last] == [203, 203]
        found.append({hop["mst_key"]: hop["validation_metric"] for hop in last})
    assert found[0] == found[1] == found[2]
    left = database.rows(sql("select relname from pg_class where relname = 'cerebro_validation'"))
    assert left == []


def test_a_state_of_many_packets_hops_whole(database: PsycopgDatabase) -> None:
    """Ten million weights: 40 MB, and Adam's 80 MB, more than one chunk of 64 MB."""
    runs.make_images(database, "few", 6)
    runs.pack(database, "few", "few_packed", 1)
    runs.make_selection(database, "big", {1: ({"model": "mlp", "hidden": [3200, 3100]}, runs.ADAM, "batch_size=6")})
    row = runs.fit(database, "few_packed", "out_big", "big", 2, threads=1)
    packed = plain.read(database.connection, "few_packed")

    def make() -> torch.nn.Module:
        sizes = [torch.nn.Linear(16, 3200), torch.nn.ReLU(), torch.nn.Linear(3200, 3100), torch.nn.ReLU()]
        return torch.nn.Sequential(*sizes, torch.nn.Linear(3100, 3))

    hops = runs.hops(database, row["run_id"])
    assert hops[0]["state_bytes"] > 110_000_000
    expected = plain.train(packed, plain.Config(make, partial(torch.optim.Adam, lr=0.01), 6), 1, plain.visits(hops, 1))
    plain.same_bits(runs.weights(database, "out_big", 1), expected)
    database.script(sql("drop table out_big, out_big_info, out_big_summary"))
