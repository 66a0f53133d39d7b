"""Packed tables as others read them, and raw rows encoded as a packed table was."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np
import pytest

from cerebro_db.client import PsycopgDatabase
from cerebro_db.columns import describe, select
from cerebro_db.encoding import encode, gather
from cerebro_db.engines import on_greenplum
from cerebro_db.errors import DataError, MissingError, UsageError
from cerebro_db.layout import Layout
from cerebro_db.packing import (
    PackOptions,
    PackRequest,
    buffers_sql,
    fingerprint,
    is_packed,
    pack_training,
    read_packed,
)
from cerebro_db.sqltext import Fragment, TableName, fill, join
from tests.decoding import decode
from tests.preprocessing import emptied

T = TableName("public", "t")


@pytest.fixture
def pg(pg_module: PsycopgDatabase) -> PsycopgDatabase:
    return emptied(pg_module)


@pytest.fixture
def t(pg: PsycopgDatabase) -> PsycopgDatabase:
    pg.rows(Fragment(
        "create table t as select i as id, i * 0.25 as f, 'w' || i %% 3 as w, array[[i, 1], [2,"
        " 3]]::float8[] as x"
        ", decode(lpad(to_hex(i), 4, '0'), 'hex') as b, i %% 2 as y from generate_series(1, 50) i"
    ))
    return pg


def pack(database: PsycopgDatabase, features: str = "id, f, w, x, b", **options: Any) -> Layout:
    request = PackRequest("t", "p", "y", features, options=PackOptions.checked(options))
    return pack_training(database, request)


def test_read_packed(t: PsycopgDatabase) -> None:
    layout = pack(t, segments=4, seed=5)
    packed = read_packed(t, "p")
    assert packed.layout == layout
    assert (packed.table, packed.source) == (TableName("public", "p"), T)
    assert (packed.rows, packed.segment_count, packed.seed) == (50, 4, 5)
    assert [(s.segment_id, s.rows) for s in packed.segments] == [(0, 12), (1, 13), (2, 12), (3, 13)]
    if not on_greenplum(t):  # where a key is one that lands on its primary
        assert [s.dist_key for s in packed.segments] == [0, 1, 2, 3]
    assert [{"oid": packed.oid}] == t.rows(Fragment("select 'p'::regclass::oid::bigint as oid"))
    assert is_packed(t, packed.table)
    assert not is_packed(t, T)


def test_read_packed_says_what_is_wrong(t: PsycopgDatabase) -> None:
    with pytest.raises(MissingError, match="source table nothing does not exist"):
        read_packed(t, "nothing")
    with pytest.raises(UsageError, match="source table public.t is not packed: it has no column"
                                         " buffer_id; run training"):
        read_packed(t, "t")
    pack(t)
    t.rows(Fragment("insert into p_summary select * from p_summary"))
    with pytest.raises(UsageError, match="summary public.p_summary has 2 rows, expected 1"):
        read_packed(t, "p")
    t.rows(Fragment("drop table p_summary"))
    with pytest.raises(MissingError, match="summary public.p_summary does not exist; run"
                                           " training_preprocessor_dl"):
        read_packed(t, "p")


def test_empty_segments_are_left_out(t: PsycopgDatabase) -> None:
    t.rows(Fragment("delete from t where id > 3"))
    pack(t, segments=5)
    assert [(s.segment_id, s.rows) for s in read_packed(t, "p").segments] == [(0, 1), (1, 1), (2, 1)]


def test_buffers_sql_reads_one_segment_in_order(t: PsycopgDatabase) -> None:
    pack(t, segments=3)
    packed = read_packed(t, "p")
    all_rows = t.rows(Fragment("select * from p order by buffer_id"))
    for segment in packed.segments:
        got = list(t.stream(buffers_sql(packed), dist_key=segment.dist_key))
        want = [row for row in all_rows if row["__dist_key__"] == segment.dist_key]
        assert got == [{key: row[key] for key in got[0]} for row in want]
        assert set(got[0]) == set(all_rows[0]) - {"__dist_key__"}


def test_fingerprint_changes_with_the_rows(t: PsycopgDatabase) -> None:
    first = fingerprint(t, T)
    assert first is not None
    assert fingerprint(t, T) == first
    seen = {first}
    for change in (
        "update t set f = f where id = 3",
        "delete from t where id = 4",
        "insert into t select * from t where id = 5",
        "create table u as select * from t; drop table t; alter table u rename to t",
    ):
        t.script(Fragment(change))
        seen.add(fingerprint(t, T))
    assert len(seen) == 5
    t.script(Fragment("create view v as select * from t"))
    assert fingerprint(t, TableName("public", "v")) is None


def encoded_rows(database: PsycopgDatabase, layout: Layout, table: str, features: str) -> Dict[str, Any]:
    name = TableName("public", table)
    known = describe(database, name)
    encoded = encode(layout, select(known, name, "y", features), with_target=False)
    columns = join(", ", (Fragment(f"{sql} as v{k}") for k, sql in enumerate(encoded.sent)))
    rows = database.rows(
        fill(
            Fragment("select s.id, {columns} from (select source.id, {inner} from {table} as source"
                     " {beside} offset 0)"
                     " as s {joins} order by s.id"),
            columns=columns,
            inner=encoded.inner,
            table=name.sql(),
            beside=encoded.beside,
            joins=encoded.joins,
        ),
        **encoded.values,
    )
    ids = [row["id"] for row in rows]
    found = {}
    for k, (item, wire) in enumerate(zip(layout.inputs, encoded.wires)):
        data = gather(item, wire, [row[f"v{k}"] for row in rows], ids)
        found[item.column] = np.frombuffer(data, item.dtype).reshape(len(rows), *item.shape)
    return found


@pytest.mark.parametrize("nulls", ["refuse", "drop", "impute"])
def test_raw_rows_are_encoded_to_the_bytes_of_the_packed_table(t: PsycopgDatabase, nulls: str) -> None:
    layout = pack(t, nulls=nulls)
    got = encoded_rows(t, layout, "t", "id, f, w, x, b")
    packed = decode(t, "p")
    order = np.argsort(packed.column("id"))
    for name, values in packed.inputs.items():
        np.testing.assert_array_equal(got[name], values[order])


def test_raw_rows_with_null_are_refused_or_imputed_as_in_training(t: PsycopgDatabase) -> None:
    layout = pack(t)
    t.script(Fragment("create table n as select * from t; update n set f = null, w = 'new' where id = 2"))
    with pytest.raises(DataError, match="row 2 has a NULL in id, f"):
        encoded_rows(t, layout, "n", "id, f, w, x, b")
    t.script(Fragment("drop table p, p_summary"))
    got = encoded_rows(t, pack(t, nulls="impute"), "n", "id, f, w, x, b")
    assert got["numeric_features"][1].tolist() == [2, 6.375]
    assert got["categorical_features"][1].tolist() == [0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("x = array[[1, 2, 3], [4, 5, 6]]", "row 3 has an array in x that is not \\[2, 2\\] finite numbers"),
        ("x = array[[1, 'NaN'::float8], [4, 5]]", "row 3 has an array in x"),
        ("x = array[[1, null], [4, 5]]", "row 3 has an array in x"),
        ("x = null", "row 3 has a NULL in x"),
        ("b = '\\x01'", "row 3 has 1 bytes in b, expected 2"),
    ],
)
def test_raw_rows_that_do_not_fit_are_named(t: PsycopgDatabase, change: str, words: str) -> None:
    layout = pack(t)
    t.script(Fragment(f"update t set {change} where id = 3"))
    with pytest.raises(DataError, match=words):
        encoded_rows(t, layout, "t", "id, f, w, x, b")


def test_a_failed_packing_leaves_nothing_even_when_found_late(t: PsycopgDatabase) -> None:
    t.script(Fragment("update t set x = array[[1, 2], [3, 'NaN'::float8]] where id = 50"))
    with pytest.raises(DataError, match="'x' has 1 NaN"):
        pack(t)
    assert t.rows(Fragment("select 1 from pg_class where relname in ('p', 'p_summary')")) == []


def test_the_session_goes_on_as_before(t: PsycopgDatabase) -> None:
    names = [
        "work_mem", "statement_mem", "jit", "enable_hashagg", "synchronize_seqscans", "max_parallel_workers_per_gather"
    ]  # fmt: skip
    shown = Fragment("select s.name, s.setting from pg_settings s where s.name = any(%(names)s) order by 1")
    before = t.rows(shown, names=names)
    assert len(before) >= 4
    drawn = set()
    for _ in range(2):
        with t.transaction():
            pack(t)
            drawn.add(t.rows(Fragment("select random() as r"))[0]["r"])
            assert t.rows(shown, names=names) == before
        t.script(Fragment("drop table p, p_summary"))
    assert len(drawn) == 2
