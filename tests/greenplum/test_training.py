"""Training in the processes of Greenplum's segments: which of them, what they keep, and what happens when they go."""

from __future__ import annotations

import os
import socket
import time
from functools import partial
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Sequence, Tuple

import psycopg2
import pytest
import torch

from cerebro_db import remote
from cerebro_db.catalog import Catalog
from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.messages import Message
from cerebro_db.remote import Channel, RemoteWorker
from cerebro_db.sqltext import Fragment, TableName, fill, ident, numbered, query
from cerebro_db.visits import Place
from tests import plain, runs
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
#: What this session's statements run in, on every segment but not as this statement's own.
_TRAINING = (
    "select pid, sess_id from gp_dist_random('pg_stat_activity')"
    " where datname = current_database() and pid <> pg_backend_pid() and state = 'active' and query ~ 'in_segment'"
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
    database.script(sql("set plan_cache_mode = force_generic_plan"))
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
    running.database.connection.cancel()
    running.failed(30)
    running.close()
    return run_id


class Watched(Channel):
    """Notes which process answers."""

    pids: List[int]

    def tell(self, message: Message) -> Message:
        answer = super().tell(message)
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
            assert segment.hop(key, epoch, True)["rows"] in (67, 68)
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


def idle(data: PsycopgDatabase, database: PsycopgDatabase, pid: int) -> None:
    """Let the server end the processes of a session because it does nothing."""
    database.script(sql("set gp_vmem_idle_resource_timeout = '50ms'"))
    gone(data, pid)
    database.script(sql("reset gp_vmem_idle_resource_timeout"))


@pytest.mark.parametrize("way", ["terminated", "idle"])
def test_a_process_that_is_gone_is_noticed_and_filled_again(
    data: PsycopgDatabase, database: PsycopgDatabase, cancelled: int, watched: List[int], way: str
) -> None:
    segment = worker(Plainly(database), cancelled)
    segment.hop(1, 90_001, False)
    (first,) = set(watched)
    if way == "idle":
        idle(data, database, first)
    else:
        terminated(data, first)
    again = 0
    while len(set(watched)) == 1:  # the server may fail the first statement that finds it gone
        try:
            segment.hop(1, 90_002, True)
        except psycopg2.Error:
            again += 1
            assert again < 3
    assert watched[-1] != first
    assert {row["epoch"] for row in runs.hops(database, cancelled)} >= {90_001, 90_002}
