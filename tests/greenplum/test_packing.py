"""Packing on Greenplum: where rows go, and that none of them passes the coordinator."""

from __future__ import annotations

from collections import Counter
from typing import List

import numpy as np
import pytest

from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.database import one
from cerebro_db.engines import dialect
from cerebro_db.packing import PackOptions, PackRequest, ValidationRequest, pack_training, pack_validation, read_packed
from cerebro_db.sqltext import Fragment
from tests.decoding import decode
from tests.explaining import Explaining
from tests.preprocessing import IMAGES, TABULAR, emptied, run, train_by_python, validate_by_python

PRIMARIES = Fragment("select count(*) as n from gp_segment_configuration where role = 'p' and content >= 0")


@pytest.fixture
def gp(gp_server: str, pg_module: PsycopgDatabase) -> PsycopgDatabase:
    return emptied(pg_module)


def images(database: PsycopgDatabase, rows: int, stored: str = "distributed by (id)") -> None:
    run(database, f"create table raw with (appendonly=false) as {IMAGES.format(rows)} {stored}")


# -- plans -----------------------------------------------------------------------------------------


def test_images_move_once_and_never_to_the_coordinator(gp: PsycopgDatabase) -> None:
    images(gp, 600)
    session = Explaining(gp, "insert into", "select")
    pack_training(session, PackRequest("raw", "packed", "y", "img", buffer_size=40))
    plan = session.plan("insert into")
    assert plan.count("Motion") == plan.count("Redistribute Motion") == 1
    assert plan.nodes[0].startswith("Insert on")
    assert "Motion" not in plan.nodes[1]


def test_many_columns_move_once_too(gp: PsycopgDatabase) -> None:
    columns = ", ".join(f"i * {k} as c{k}, 'w' || i % {k + 2} as w{k}" for k in range(40))
    run(gp, f"create table raw with (appendonly=false) as select i as id, i % 2 as y, {columns}"
            " from generate_series(1, 200) i distributed by (id)")
    session = Explaining(gp, "insert into")
    pack_training(session, PackRequest("raw", "packed", "y", "*"))
    plan = session.plan("insert into")
    assert plan.count("Motion") == plan.count("Redistribute Motion") == 1
    assert decode(gp, "packed").inputs["numeric_features"].shape == (200, 41)


def test_checks_are_worked_out_in_two_stages(gp: PsycopgDatabase) -> None:
    run(gp, f"create table raw with (appendonly=false) as {TABULAR.format(500)} distributed randomly")
    session = Explaining(gp, "select")
    pack_training(session, PackRequest("raw", "packed", "w", "a, b, f, v", options=PackOptions(nulls="drop")))
    scans = [plan for plan in session.plans if '"raw" as source' in plan.sql]
    assert len(scans) >= 6  # NULLs, values, words, labels, elements, numbers twice
    for plan in scans:
        between = plan.above("Gather Motion", "Seq Scan on raw")
        assert between, plan.nodes
        for nodes in between:
            assert "Aggregate" in nodes or "WindowAgg" in nodes, plan.nodes


# -- where rows go ---------------------------------------------------------------------------------


@pytest.mark.parametrize("segments", [1, 2, 3, 7, 32])
def test_keys_land_in_turn_on_the_primaries(gp: PsycopgDatabase, segments: int) -> None:
    primaries = one(gp, PRIMARIES)["n"]
    keys = [row["key"] for row in gp.rows(dialect(gp, "keys_of_segments"), segments=segments)]
    assert len(set(keys)) == segments
    run(gp, "create table k (key integer) with (appendonly=false) distributed by (key)")
    gp.rows(Fragment("insert into k select unnest(%(keys)s::integer[])"), keys=keys)
    where = {row["key"]: row["at"] for row in gp.rows(Fragment("select key, gp_segment_id as at from k"))}
    assert [where[key] for key in keys] == [segment % primaries for segment in range(segments)]
    run(gp, "create table a (key integer) with (appendonly=false) distributed by (key)"
            "; insert into a select generate_series(0, 40)")
    smallest = [row["key"] for row in gp.rows(Fragment("select min(key) as key from a group by gp_segment_id order by"
                                                       " gp_segment_id"))]
    assert keys[:primaries] == smallest[:segments]


def test_segments_are_where_their_numbers_say(gp: PsycopgDatabase) -> None:
    images(gp, 300)
    primaries = one(gp, PRIMARIES)["n"]
    train_by_python(gp, "raw", "packed", "y", "img", buffer_size=10, segments=5)
    where = {row["key"]: row["at"] for row in gp.rows(Fragment(
        "select __dist_key__ as key, min(gp_segment_id) as at from packed group by 1"))}
    found = read_packed(gp, "packed").segments
    assert [(s.segment_id, s.rows) for s in found] == [(i, 60) for i in range(5)]
    assert [where[s.dist_key] for s in found] == [i % primaries for i in range(5)]


def test_one_segment_per_primary_where_nobody_says(gp: PsycopgDatabase, pg_module_dsn: str) -> None:
    images(gp, 30)
    with connect(pg_module_dsn) as session:
        run(session, "set cerebro.segments = ''")
        train_by_python(session, "raw", "packed", "y", "img")
        run(session, "set cerebro.segments = '4'")
        train_by_python(session, "raw", "four", "y", "img")
    assert len(read_packed(gp, "packed").segments) == one(gp, PRIMARIES)["n"]
    assert len(read_packed(gp, "four").segments) == 4


def test_a_table_distributed_by_its_label_gives_mixed_buffers(gp: PsycopgDatabase) -> None:
    images(gp, 3000, "distributed by (y)")
    train_by_python(gp, "raw", "packed", "y", "img", buffer_size=100, segments=3)
    got = decode(gp, "packed")
    start = 0
    for rows in got.buffers:
        labels = np.bincount(got.target[start : start + rows], minlength=3)
        assert labels.min() > 10, labels
        start += rows


@pytest.mark.parametrize(("rows", "segments", "size"), [(20_000, 3, 700), (5000, 4, 3), (4096, 3, 1)])
def test_buffers_are_even_by_the_row(gp: PsycopgDatabase, rows: int, segments: int, size: int) -> None:
    run(gp, f"create table raw as select i as id, i % 2 as y from generate_series(1, {rows}) i distributed by (id)")
    train_by_python(gp, "raw", "packed", "y", "id", buffer_size=size, segments=segments)
    got = decode(gp, "packed")
    assert sorted(got.column("id").astype(int)) == list(range(1, rows + 1))
    assert max(got.buffers) - min(got.buffers) <= 1
    per_segment = Counter[int]()
    for count, segment in zip(got.buffers, got.segments):
        per_segment[segment] += count
    assert max(per_segment.values()) - min(per_segment.values()) <= 1


def test_a_seed_gives_the_same_bytes_and_another_does_not(gp: PsycopgDatabase) -> None:
    images(gp, 500)
    packed: List[object] = []
    for name, seed in (("p", 3), ("q", 3), ("r", 4)):
        train_by_python(gp, "raw", name, "y", "id, img", buffer_size=20, seed=seed)
        packed.append(gp.rows(Fragment(f"select * from {name} order by buffer_id")))
    assert packed[0] == packed[1]
    assert packed[0] != packed[2]


# -- how tables are stored -------------------------------------------------------------------------


def stored(database: PsycopgDatabase, table: str) -> object:
    sql = Fragment(
        "select c.relstorage::text as kind, d.policytype::text as policy from pg_class c"
        " join gp_distribution_policy d on d.localoid = c.oid where c.oid = %(table)s::text::regclass"
    )
    row = one(database, sql, table=table)
    return row["kind"], row["policy"]


def test_packed_tables_are_heaps_whatever_the_default(gp: PsycopgDatabase, pg_module_dsn: str) -> None:
    images(gp, 60)
    run(gp, "create view seen as select * from raw")
    with connect(pg_module_dsn) as session:
        run(session, "set gp_default_storage_options = 'appendonly=true,orientation=column'")
        for source in ("raw", "seen"):
            pack_training(session, PackRequest(source, f"{source}_p", "y", "img"))
            pack_validation(session, ValidationRequest(source, f"{source}_v", "y", "img", f"{source}_p"))
    for source in ("raw", "seen"):
        assert stored(gp, f"{source}_p") == ("h", "p")
        assert stored(gp, f"{source}_v") == ("h", "r")
        assert stored(gp, f"{source}_p_summary") == stored(gp, f"{source}_v_summary") == ("h", "r")


def test_every_segment_has_all_validation_rows(gp: PsycopgDatabase) -> None:
    images(gp, 200)
    train_by_python(gp, "raw", "packed", "y", "id, img", segments=4)
    validate_by_python(gp, "raw", "tested", "y", "id, img", "packed", buffer_size=10)
    copies = gp.rows(Fragment(
        "select count(*) as n from gp_dist_random('tested') group by gp_execution_segment()"
    ))
    assert [row["n"] for row in copies] == [20] * one(gp, PRIMARIES)["n"]
    assert [(s.segment_id, s.dist_key, s.rows) for s in read_packed(gp, "tested").segments] == [
        (i, i, 50) for i in range(4)
    ]
    assert sorted(decode(gp, "tested").column("id").astype(int)) == list(range(1, 201))
