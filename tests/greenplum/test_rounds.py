"""Order `round` on Greenplum: one statement trains a round on all segments, and states hop inside it."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import partial
from typing import Any, Callable, Dict, Iterator, List, Sequence

import psycopg2
import pytest
import torch

from cerebro_db import remote, rounds
from cerebro_db.catalog import Catalog
from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.remote import RemoteWorker
from cerebro_db.sqltext import ident, numbered, query
from cerebro_db.visits import Place
from tests import plain, runs
from tests.conftest import Role
from tests.runs import RESUME, Running, sql
from tests.support import wait_until

SEGMENTS = 3
SGD = {"optimizer": "sgd", "lr": 0.1, "momentum": 0.9, "loss": "cross_entropy", "metrics": ["accuracy"]}
DROPOUT = {"model": "mlp", "hidden": [8], "dropout": 0.5}
CONFIGS: runs.Configs = {
    1: (runs.MLP, runs.ADAM, "batch_size=16"),
    2: (DROPOUT, runs.ADAM, "batch_size=7"),
    3: (runs.MLP, SGD, "batch_size=25"),
    4: (runs.MLP, SGD, "batch_size=7, epochs=2"),
    5: (DROPOUT, runs.ADAM, "batch_size=16"),
}
_ADAM, _SGD = partial(torch.optim.Adam, lr=0.01), partial(torch.optim.SGD, lr=0.1, momentum=0.9)
_MLP, _DROPOUT = plain.mlp(16, 8, 3), plain.mlp(16, 8, 3, dropout=0.5)
PLAIN = {
    1: plain.Config(_MLP, _ADAM, 16),
    2: plain.Config(_DROPOUT, _ADAM, 7),
    3: plain.Config(_MLP, _SGD, 25),
    4: plain.Config(_MLP, _SGD, 7, passes=2),
    5: plain.Config(_DROPOUT, _ADAM, 16),
}
#: Sessions that train a round at this moment.
_ROUNDS = "pid from pg_stat_activity where datname = current_database() and application_name ~ '^cerebro run .*round'"


@pytest.fixture(scope="module")
def data(gp_server: str, pg_module: PsycopgDatabase) -> PsycopgDatabase:
    runs.make_images(pg_module, "images", 203)
    runs.pack(pg_module, "images", "packed", SEGMENTS, buffer_size=9)
    pg_module.rows(sql("select validation_preprocessor_dl('images', 'checked', 'label', 'img', 'packed')"))
    for name, count in (("two", 2), ("three", 3), ("five", 5)):
        runs.make_selection(pg_module, name, {key: CONFIGS[key] for key in list(CONFIGS)[:count]})
    return pg_module


@pytest.fixture
def database(data: PsycopgDatabase, pg_module_dsn: str) -> Iterator[PsycopgDatabase]:
    for row in data.rows(sql("select output from (select distinct model_output_table as output from cerebro.run) r")):
        data.script(sql("drop table if exists {0}, {0}_info, {0}_summary".format(row["output"])))
    with connect(pg_module_dsn) as session:
        yield session


def same_as_plain(database: PsycopgDatabase, run_id: int, keys: Sequence[int], packed: str = "packed") -> None:
    """Fail unless the models are those of a plain loop in the order of the hops."""
    rows, hops = plain.read(database.connection, packed), runs.hops(database, run_id)
    for key in keys:
        plain.same_bits(runs.weights(database, "out", key), plain.train(rows, PLAIN[key], key, plain.visits(hops, key)))


def tables_of_rounds(database: PsycopgDatabase, run_id: int) -> List[str]:
    named = sql(f"select relname as name from pg_class where relname ~ '^round_{run_id}($|_)'")
    return [row["name"] for row in database.rows(named)]


# -- the whole run ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("selection", "count"), [("two", 2), ("three", 3), ("five", 5)])
def test_the_weights_are_those_of_a_plain_loop(database: PsycopgDatabase, selection: str, count: int) -> None:
    """Fewer configs than segments, as many, and more; with validation in between."""
    keys = list(CONFIGS)[:count]
    row = runs.fit(database, "packed", "out", selection, 2, threads=1, order="round", validation="checked")
    hops = runs.hops(database, row["run_id"])
    assert runs.keys(hops) == runs.every_hop(keys, 2, SEGMENTS)
    same_as_plain(database, row["run_id"], keys)
    assert len({hop["session_pid"] for hop in hops}) == 1
    assert [hop["validation_rows"] for hop in hops if hop["validation_rows"]] == [203] * 2 * count
    for hop in hops:
        parts = ("train_seconds", "validate_seconds", "data_seconds", "hop_seconds", "start_seconds")
        assert min(hop[part] for part in parts) >= 0
        assert hop["state_bytes"] > 1000
    events = Catalog(database, row["run_id"]).events()
    assert sum(type(event).__name__ == "HopFinished" for event in events) == len(hops)
    assert sum(type(event).__name__ == "SegmentUp" for event in events) == SEGMENTS
    assert tables_of_rounds(database, row["run_id"]) == []


def test_given_weights_are_what_a_round_begins_with(database: PsycopgDatabase) -> None:
    """One config alone visits the segments in the same order in a rotation, where its state is read from its table."""
    runs.make_selection(database, "given", {3: CONFIGS[3]})
    runs.fit(database, "packed", "out", "given", 1, threads=1, order="round")
    first = runs.weights(database, "out", 3)
    database.rows(sql("update given_arch set model_weights = %(weights)s"), weights=first)
    found = []
    for order in ("round", "rotation"):
        database.script(sql("drop table out, out_info, out_summary"))
        row = runs.fit(database, "packed", "out", "given", 1, threads=1, order=order)
        assert [hop["segment_id"] for hop in runs.hops(database, row["run_id"])] == [0, 1, 2]
        found.append(runs.weights(database, "out", 3))
    assert found[0] == found[1] != first


def test_a_segment_without_rows_is_left_out(database: PsycopgDatabase) -> None:
    runs.make_images(database, "tiny", 2)
    runs.pack(database, "tiny", "tiny_packed", SEGMENTS)
    row = runs.fit(database, "tiny_packed", "out", "three", 2, threads=1, order="round")
    rows, hops = plain.read(database.connection, "tiny_packed"), runs.hops(database, row["run_id"])
    assert [segment.buffer_rows for segment in rows.segments.values()] == [[1], [1]]
    assert len(hops) == 3 * 2 * 2
    two_classes = plain.Config(plain.mlp(16, 8, 2), _ADAM, 16)
    plain.same_bits(runs.weights(database, "out", 1), plain.train(rows, two_classes, 1, plain.visits(hops, 1)))


def test_a_config_that_diverges_leaves_the_others_alone(database: PsycopgDatabase) -> None:
    wild = {"optimizer": "sgd", "lr": 1e30, "loss": "cross_entropy", "metrics": ["accuracy"]}
    configs = {1: CONFIGS[1], 2: CONFIGS[2], 9: (runs.MLP, wild, "batch_size=4")}
    runs.make_selection(database, "mixed", configs)
    row = runs.fit(database, "packed", "out", "mixed", 2, threads=1, order="round")
    found = database.rows(sql("select mst_key, status from cerebro.config where run_id = %(id)s"), id=row["run_id"])
    assert {one["mst_key"]: one["status"] for one in found} == {1: "finished", 2: "finished", 9: "diverged"}
    same_as_plain(database, row["run_id"], [1, 2])


@pytest.mark.parametrize(
    ("options", "remark"),
    [
        ({"cache_mb": 0}, r"a segment's rows take \d+ bytes, more than cache_mb := 0 keeps: each hop"),
        ({"segments": 4}, r"has several segments on one of \d+ primaries: each hop of a round is a statement"),
    ],
)
def test_what_one_statement_cannot_train_is_trained_by_sessions(
    database: PsycopgDatabase, pg_module_dsn: str, options: Dict[str, int], remark: str
) -> None:
    """Rows that are not kept, and two segments on one primary."""
    segments = options.get("segments", SEGMENTS)
    packed = f"packed_{segments}"
    runs.pack(database, "images", packed, segments, buffer_size=9)
    cache = options.get("cache_mb", 1024)
    told: List[str] = []
    with connect(pg_module_dsn, on_notice=told.append) as session:
        row = runs.fit(session, packed, "out", "two", 1, threads=1, order="round", cache_mb=cache)
    hops = runs.hops(database, row["run_id"])
    assert runs.keys(hops) == runs.every_hop([1, 2], 1, segments)
    assert len({hop["session_pid"] for hop in hops}) > 1
    assert re.search(remark, "\n".join(told))
    same_as_plain(database, row["run_id"], [1, 2], packed)


def test_a_role_without_more_rights_than_a_user_trains_rounds(
    gp_server: str, pg: PsycopgDatabase, role: Callable[..., Role]
) -> None:
    """The statement has the caller's rights, on the rows and on the states of the caller's own run."""
    user = role("analyst")()
    runs.make_images(user, "images", 203)
    runs.pack(user, "images", "packed", SEGMENTS, buffer_size=9)
    runs.make_selection(user, "five", CONFIGS)
    row = runs.fit(user, "packed", "out", "five", 1, threads=1, order="round")
    same_as_plain(user, row["run_id"], list(CONFIGS))
    assert tables_of_rounds(pg, row["run_id"]) == []


# -- the statement ---------------------------------------------------------------------------------


@pytest.fixture
def cancelled(database: PsycopgDatabase, pg_module_dsn: str) -> int:
    """A run of rounds that was cancelled in its middle, whose states are there."""
    running, run_id = runs.start_fit(
        pg_module_dsn, database, "packed", "never", "three", 10_000, threads=1, order="round"
    )
    running.cancelled(30)
    return run_id


def test_one_statement_moves_states_and_no_rows(database: PsycopgDatabase, cancelled: int) -> None:
    """One redistribute, of the states; the packed table is scanned where the function runs; only heads come back."""
    with suppress(psycopg2.Error):  # a server may be built without it
        database.script(sql("set optimizer = on"))
    remote.prepare(database)
    tables = {"target": ident(f"round_{cancelled}_0"), "states": ident(f"round_{cancelled}")}
    text, names = numbered(query("rounds", "train", packed=ident("packed"), **tables))
    assert names == ["keys", "configs", "heads", "buffers"]
    database.script(sql(f"prepare looked (bigint[], bigint[], text[], bigint[]) as {text}"))
    rows = database.rows(sql("explain verbose execute looked ('{0}', '{1}', '{\"{}\"}', '{1}')"))
    lines = [next(iter(row.values())) for row in rows]
    motions = [place for place, line in enumerate(lines) if "Motion" in line]
    (insert,) = [place for place, line in enumerate(lines) if "Insert on" in line]
    (trains,) = [place for place, line in enumerate(lines) if "Output:" in line and "in_segment(" in line]
    (scan,) = [place for place, line in enumerate(lines) if re.search(r"Scan .*\bpacked p", line)]
    gather, moved = motions
    assert "Gather Motion 3:1" in lines[gather]
    assert "state" not in lines[gather + 1] or "convert_from" in lines[gather + 1]
    assert gather < insert < trains, lines
    assert "Redistribute Motion 3:3" in lines[moved], lines
    depth = [len(line) - len(line.lstrip()) for line in lines]
    above = {at for at in motions if at < scan and all(depth[n] > depth[at] for n in range(at + 1, scan + 1))}
    assert above == {gather}, lines  # no motion between the scan of the rows and the function


def test_all_rounds_are_trained_in_the_processes_that_opened_the_segments(
    database: PsycopgDatabase, cancelled: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the statements that open them, and those of the catalog in between."""
    opened: List[int] = []
    trained: Dict[int, set[int]] = {}
    tell, answers = remote.Channel._answer, rounds._answers

    def telling(self: Any, *arguments: Any, **values: Any) -> Any:
        answer = tell(self, *arguments, **values)
        opened.extend([answer.head["pid"]] if "pid" in answer.head else [])
        return answer

    def answering(*arguments: Any) -> Any:
        found = answers(*arguments)
        for start in arguments[2]:
            trained.setdefault(start.segment_id, set()).add(found[start.mst_key]["pid"])
        return found

    monkeypatch.setattr(remote.Channel, "_answer", telling)
    monkeypatch.setattr(rounds, "_answers", answering)
    remote.prepare(database)
    plan = Catalog(database, cancelled).plan()
    workers = {n: RemoteWorker(database, Place(cancelled, plan, n)) for n in range(SEGMENTS)}
    for turn in range(4):
        starts = [rounds.Start(key, 90_000 + turn, (key + turn) % SEGMENTS, True) for key in (1, 2, 3)]
        with database.transaction():
            results = rounds.train(database, cancelled, workers, starts)
        assert [result["failed"] for result in results] == [None, None, None]
    assert len(set(opened)) == SEGMENTS
    assert trained == {segment: {pid} for segment, pid in enumerate(opened)}


# -- kill and resume -------------------------------------------------------------------------------


def test_a_session_that_is_ended_is_replaced_and_the_bits_are_the_same(
    database: PsycopgDatabase, pg_module_dsn: str
) -> None:
    running, run_id = runs.start_fit(
        pg_module_dsn, database, "packed", "out", "five", 12, threads=1, order="round", hops=8
    )
    ended = database.rows(sql(f"select pg_terminate_backend(pid) as done, {_ROUNDS}"))
    assert [row["done"] for row in ended] == [True]
    assert running.finished()["status"] == "finished"
    running.close()
    hops = runs.hops(database, run_id)
    assert len({hop["session_pid"] for hop in hops}) == 2
    assert runs.keys(hops) == runs.every_hop(list(CONFIGS), 12, SEGMENTS)
    same_as_plain(database, run_id, list(CONFIGS))
    assert tables_of_rounds(database, run_id) == []


def test_a_segment_process_that_is_ended_costs_a_round_at_most(database: PsycopgDatabase, pg_module_dsn: str) -> None:
    running, run_id = runs.start_fit(
        pg_module_dsn, database, "packed", "out", "three", 30, threads=1, order="round", hops=8
    )
    end = sql(
        "select pg_terminate_backend(pid) as done from gp_dist_random('pg_stat_activity')"
        " where datname = current_database() and state = 'active' and query ~ 'insert into cerebro_private.*in_segment'"
        "   and query !~ 'gp_dist_random' limit 1"
    )
    wait_until(lambda: bool(database.rows(end)), 30, "a process is ended in the middle of a round", every=0.001)
    assert running.finished()["status"] == "finished"
    running.close()
    assert runs.keys(runs.hops(database, run_id)) == runs.every_hop([1, 2, 3], 30, SEGMENTS)
    same_as_plain(database, run_id, [1, 2, 3])


def test_a_run_whose_coordinator_is_ended_goes_on_to_the_same_bits(
    database: PsycopgDatabase, pg_module_dsn: str
) -> None:
    running, run_id = runs.start_fit(
        pg_module_dsn, database, "packed", "out", "five", 12, threads=1, order="round", hops=8
    )
    assert database.rows(sql("select pg_terminate_backend(%(pid)s::int) as done"), pid=running.pid) == [{"done": True}]
    running.failed(30)
    over = ("interrupted", "cancelled")
    wait_until(lambda: runs.status(database, run_id) in over, 30, "the run is known to be interrupted")
    assert 8 <= len(runs.hops(database, run_id)) < 180
    assert tables_of_rounds(database, run_id) != []
    resumed = Running(pg_module_dsn, RESUME, run_id=run_id)
    assert resumed.finished()["status"] == "finished"
    resumed.close()
    assert runs.keys(runs.hops(database, run_id)) == runs.every_hop(list(CONFIGS), 12, SEGMENTS)
    same_as_plain(database, run_id, list(CONFIGS))
    assert tables_of_rounds(database, run_id) == []
