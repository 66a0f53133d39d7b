"""training_preprocessor_dl, by SQL and by Python: what it packs."""

from __future__ import annotations

from functools import partial
from typing import Any, List

import numpy as np
import pytest

from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.engines import on_greenplum
from cerebro_db.sqltext import Fragment
from tests.decoding import decode
from tests.preprocessing import ROWS, TRAIN, Pack, emptied, refused, relations, run


@pytest.fixture
def pg(pg_module: PsycopgDatabase) -> PsycopgDatabase:
    return emptied(pg_module)


@pytest.fixture(params=sorted(TRAIN))
def pack(request: pytest.FixtureRequest, pg: PsycopgDatabase) -> Pack:
    """`pack(source, output, y, x, ...)`, through each way in."""
    return partial(TRAIN[request.param], pg)


@pytest.fixture
def t(pg: PsycopgDatabase) -> PsycopgDatabase:
    pg.rows(ROWS)
    return pg


def sorted_ids(values: Any) -> List[int]:
    return sorted(int(value) for value in values)


# -- what is packed --------------------------------------------------------------------------------


def test_every_row_is_packed_once_with_all_its_values(t: PsycopgDatabase, pack: Pack) -> None:
    pack("t", "p", "y", "id, f, w, x, b")
    got = decode(t, "p")
    ids = got.column("id").astype(int)
    assert sorted(ids) == list(range(1, 101))
    np.testing.assert_array_equal(got.column("f"), ids * np.float32(0.5))
    np.testing.assert_array_equal(got.inputs["x"], np.stack([ids, ids + 1], 1))
    np.testing.assert_array_equal(got.inputs["b"], np.stack([ids // 256, ids % 256], 1))
    np.testing.assert_array_equal(got.column("w"), ids % 4 + 1)
    np.testing.assert_array_equal(got.target, ids % 3)
    kinds = [(item.column, item.kind, item.dtype, item.shape) for item in got.layout.inputs]
    assert kinds == [
        ("numeric_features", "numeric", ">f4", (2,)),
        ("categorical_features", "categorical", ">i4", (1,)),
        ("x", "array", ">f4", (2,)),
        ("b", "array", "|u1", (2,)),
    ]
    assert got.layout.inputs[1].vocabulary == (("w0", "w1", "w2", "w3"),)
    assert got.layout.inputs[0].mean == (50.5, 25.25)
    deviation = np.std(np.arange(100))
    assert got.layout.inputs[0].deviation == pytest.approx((deviation, deviation / 2))
    assert got.layout.target.classes == ("0", "1", "2")
    assert got.layout.features == ("id", "f", "w", "x", "b")
    assert list(ids) != sorted(ids)


def test_the_summary_has_madlibs_columns(t: PsycopgDatabase, pack: Pack) -> None:
    pack("t", "p", "y", "x", 10, 255, [5])
    (row,) = t.rows(Fragment("select * from p_summary"))
    assert {name: row[name] for name in list(row)[:10]} == {
        "source_table": "public.t",
        "output_table": "public.p",
        "dependent_varname": ["y"],
        "independent_varname": ["x"],
        "dependent_vartype": ["integer"],
        "y_class_values": [0, 1, 2, None, None],
        "buffer_size": 10,
        "normalizing_const": 255.0,
        "num_classes": [5],
        "distribution_rules": "all_segments",
    }
    ours = [row[name] for name in ("rows", "segments", "seed", "nulls", "dropped_rows")]
    assert ours == [100, 2, 0, "refuse", 0]
    assert decode(t, "p").layout.target.outputs == 5


@pytest.mark.parametrize(
    ("rows", "segments", "size"),
    [(100, 3, 7), (7, 4, None), (2, 5, None), (1000, 7, 2), (13, 13, 5), (99, 2, 50)],
)
def test_buffers_and_segments_are_even(
    pg: PsycopgDatabase, pack: Pack, rows: int, segments: int, size: Any
) -> None:
    pg.rows(Fragment("create table t as select i as id, i %% 2 as y from generate_series(1, %(n)s)"
                     " i"), n=rows)
    pack("t", "p", "y", "id", size, segments=segments)
    got = decode(pg, "p")
    assert sorted_ids(got.column("id")) == list(range(1, rows + 1))
    assert max(got.buffers) - min(got.buffers) <= 1
    per_segment = [sum(n for n, s in zip(got.buffers, got.segments) if s == k) for k in range(segments)]
    assert max(per_segment) - min(per_segment) <= 1
    assert len(got.buffers) % segments == 0 or rows < segments
    assert size is None or max(got.buffers) <= size
    assert set(got.segments) <= set(range(segments))


def test_one_seed_gives_the_same_bytes_and_another_does_not(t: PsycopgDatabase, pack: Pack) -> None:
    pack("t", "p", "y", "id, w, x", seed=3)
    pack("t", "q", "y", "id, w, x", seed=3)
    pack("t", "r", "y", "id, w, x", seed=4)
    rows = [t.rows(Fragment(f"select * from {name} order by buffer_id")) for name in "pqr"]
    assert rows[0] == rows[1]
    assert rows[0] != rows[2]


def test_storage_index_and_owner(t: PsycopgDatabase, pack: Pack) -> None:
    pack("t", "p", "y", "x")
    storage = t.rows(Fragment(
        "select attname, attstorage from pg_attribute where attrelid = 'p'::regclass and attname in ('x',"
        " 'y')"
    ))
    assert {row["attname"]: row["attstorage"] for row in storage} == {"x": "e", "y": "e"}
    (index,) = t.rows(Fragment("select indexdef from pg_indexes where tablename = 'p'"))
    assert index["indexdef"].endswith("(__dist_key__, buffer_id)")


@pytest.mark.parametrize("kind", ["int2", "int4", "int8", "float4", "float8", "numeric"])
def test_a02_arrays_of_every_number_type(pg: PsycopgDatabase, pack: Pack, kind: str) -> None:
    run(pg, f"create table a02 as select i as id, (select array_agg((i * j) % 7) from generate_series(1,"
            f" 1200) j)"
            f"::{kind}[] as x, i % 2 as y from generate_series(1, 30) i")
    pack("a02", "p", "y", "id, x")
    got = decode(pg, "p")
    ids = got.column("id").astype(int)
    np.testing.assert_array_equal(got.inputs["x"], ids[:, None] * np.arange(1, 1201) % 7)
    assert got.layout.inputs[1].dtype == ("|u1" if kind.startswith("int") else ">f4")


@pytest.mark.parametrize(("kind", "dtype"), [("int2", ">i2"), ("int4", ">f4")])
def test_integer_arrays_widen_when_a_late_row_needs_it(
    pg: PsycopgDatabase, pack: Pack, kind: str, dtype: str
) -> None:
    run(pg, f"create table t as select i as id, array[i % 256, case when i = 500 then -300 else 1"
            f" end]::{kind}[] as x"
            ", i % 2 as y from generate_series(1, 500) i")
    pack("t", "p", "y", "id, x")
    got = decode(pg, "p")
    assert got.layout.inputs[1].dtype == dtype
    last = got.column("id") == 500
    np.testing.assert_array_equal(got.inputs["x"][last], [[500 % 256, -300]])


def test_a04_mixed_case_names_and_null_labels(pg: PsycopgDatabase, pack: Pack) -> None:
    run(pg, 'create table a04 ("SepalLength" float8, "PetalWidth" float8, "Class" text)',
            "insert into a04 select i % 5, i % 7, case when i % 10 = 0 then null else concat('k', i % 3) end"
            " from generate_series(1, 150) i")
    call = ("a04", "p", '"Class"', '"SepalLength", "PetalWidth"')
    with refused(pg, "'Class' has 15 NULLs in 150 rows", '"drop"'):
        pack(*call)
    pack(*call, nulls="drop")
    got = decode(pg, "p")
    assert got.layout.target.classes == ("k0", "k1", "k2")
    assert len(got.target) == 135
    assert pg.rows(Fragment("select dropped_rows from p_summary")) == [{"dropped_rows": 15}]


def test_dropped_rows_are_told(pg_module_dsn: str, pg: PsycopgDatabase) -> None:
    run(pg, "create table t as select nullif(i, 7) as f, i % 2 as y from generate_series(1, 20) i")
    told: List[str] = []
    with connect(pg_module_dsn, on_notice=told.append) as session:
        TRAIN["sql"](session, "t", "p", "y", "f", nulls="drop")
    assert [line for line in told if "left out" in line] == ["left out 1 of 20 rows with a NULL: 1 in 'f'"]


def test_a06_the_text_null_is_a_class(pg: PsycopgDatabase, pack: Pack) -> None:
    run(pg, "create table a06 as select i as id, (array['NULL', 'a', null])[1 + i % 3] as y from"
            " generate_series(1, 90) i")
    with refused(pg, "'y' has 30 NULLs"):
        pack("a06", "p", "y", "id")
    pack("a06", "p", "y", "id", nulls="drop")
    got = decode(pg, "p")
    assert got.layout.target.classes == ("NULL", "a")
    assert got.label_texts() == [["NULL", "a", None][int(i) % 3] for i in got.column("id")]


def test_a08_more_than_32767_rows_in_a_buffer(pg: PsycopgDatabase, pack: Pack) -> None:
    run(pg, "create table a08 as select array[i % 2, i % 3]::float4[] as x, i % 2 as y from"
            " generate_series(1, 70000) i")
    pack("a08", "p", "y", "x", 70000, segments=1)
    got = decode(pg, "p")
    assert got.buffers == [70000]
    np.testing.assert_array_equal(got.inputs["x"][:, 0], got.target)


def test_a09_timestamps_are_refused_with_a_hint(pg: PsycopgDatabase, pack: Pack) -> None:
    run(pg, "create table a09 as select timestamp '2020-01-01' as ts, '{}'::json as j, i * 1.0 as f, i %"
            " 2 as y"
            " from generate_series(1, 9) i")
    with refused(pg, "'ts' (timestamp without time zone)", "'j' (json)", "extract(epoch from ts)"):
        pack("a09", "p", "y", "ts, f, j")


def test_a10_numeric_and_bigint_become_float32(pg: PsycopgDatabase, pack: Pack) -> None:
    run(pg, "create table a10 as select i as id, (i / 3.0)::numeric(12, 4) as n1, i::bigint * 5000000000"
            " as n2"
            ", i % 2 as y from generate_series(1, 100) i")
    pack("a10", "p", "y", "*")
    got = decode(pg, "p")
    ids = got.column("id").astype(int)
    np.testing.assert_array_equal(got.column("n1"), np.round(ids / 3, 4).astype("f4"))
    np.testing.assert_array_equal(got.column("n2"), (ids * 5_000_000_000).astype("f4"))


def test_a12_booleans_as_feature_and_label(pg: PsycopgDatabase, pack: Pack) -> None:
    run(pg, "create table a12 as select i as id, i % 3 = 0 as b, i % 5 = 0 as y from generate_series(1,"
            " 120) i")
    pack("a12", "p", "y", "id, b")
    got = decode(pg, "p")
    ids = got.column("id").astype(int)
    assert got.layout.inputs[1].vocabulary == (("false", "true"),)
    np.testing.assert_array_equal(got.column("b"), (ids % 3 == 0) + 1)
    assert got.layout.target.classes == ("false", "true")
    np.testing.assert_array_equal(got.target, ids % 5 == 0)
    assert pg.rows(Fragment("select y_class_values as v from p_summary")) == [{"v": [False, True]}]


def test_a14_twelve_hundred_columns(pg: PsycopgDatabase, pack: Pack) -> None:
    names = [f"c{i}" for i in range(1, 1201)]
    run(pg, f"create table a14 (y int, {', '.join(name + ' float4' for name in names)})",
            "insert into a14 (y, c1, c1200) select i % 2, i, i from generate_series(1, 20) i")
    with refused(pg, "'c2' has 20 NULLs", "'c11' has 20 NULLs in 20 rows and 1188 more"):
        pack("a14", "p", "y", "*")
    sums = ", ".join(f"{k} + i as {name}" for k, name in enumerate(names))
    run(pg, f"create table wide as select i as id, i % 2 as y, {sums} from generate_series(1, 20) i")
    pack("wide", "p", "y", "*")
    got = decode(pg, "p")
    ids = got.column("id").astype(int)
    np.testing.assert_array_equal(got.inputs["numeric_features"][:, 1:], ids[:, None] + np.arange(1200))


def test_a16_bigint_labels_keep_all_digits(pg: PsycopgDatabase, pack: Pack) -> None:
    run(pg, "create table a16 as select i as id, 9007199254740993 + (i % 2) as y from generate_series(1,"
            " 100) i")
    pack("a16", "p", "y", "id")
    got = decode(pg, "p")
    assert got.layout.target.classes == ("9007199254740993", "9007199254740994")
    assert got.label_texts() == [str(9007199254740993 + int(i) % 2) for i in got.column("id")]


def test_a17_nan_and_infinity_are_counted(pg: PsycopgDatabase, pack: Pack) -> None:
    run(pg, "create table a17 as select array[case when i = 3 then 'NaN'::float4 when i = 4 then"
            " 'Infinity' else i end, 1]"
            "::float4[] as x, case when i = 9 then '-Infinity'::float8 when i = 8 then 1e300 else i end as f"
            ", i % 2 as y from generate_series(1, 100) i")
    with refused(pg, "'x' has 1 NaN and 1 Infinity", "view"):
        pack("a17", "p", "y", "x")
    with refused(pg, "'f' has 1 Infinity and 1 value beyond float32", "'x' has 1 NaN and 1 Infinity"):
        pack("a17", "p", "y", "x, f")


def test_a22_other_schemas_with_an_odd_search_path(pg: PsycopgDatabase, pack: Pack) -> None:
    run(pg, "create schema s22", "create table s22.t as select i as id, i % 2 as y from"
                                 " generate_series(1, 60) i",
            "create table t (other text)")
    before = relations(pg)
    run(pg, "set search_path = pg_catalog")
    pack("s22.t", "s22.out", "y", "id")
    assert sorted_ids(decode(pg, "s22.out").column("id")) == list(range(1, 61))
    made = pg.rows(Fragment(
        "select n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace"
        " where c.oid::text || ' ' || c.relname <> all(%(before)s) and c.relkind = 'r'"), before=before)
    assert {(row["nspname"], row["relname"]) for row in made} == {("s22", "out"), ("s22", "out_summary")}
    with refused(pg, "pg_catalog", "schema.out"):
        pack("s22.t", "out", "y", "id")
    with refused(pg, "t does not exist"):
        pack("t", "s22.q", "y", "id")


def test_a23_views_materialised_views_and_partitions(pg: PsycopgDatabase, pack: Pack) -> None:
    parts = ["create table a23 (id int, x float4[], y int) partition by list (y)",
             "create table a23_0 partition of a23 for values in (0)",
             "create table a23_1 partition of a23 for values in (1)"]
    if on_greenplum(pg):
        parts = [f"{parts[0]} (partition a values (0), partition b values (1))"]
    run(pg, *parts, "insert into a23 select i, array[i], i % 2 from generate_series(1, 90) i",
            "create view a23v as select * from a23 where id < 80",
            "create materialized view a23m as select * from a23")
    for name, rows in (("a23", 90), ("a23v", 79), ("a23m", 90)):
        pack(name, name + "_p", "y", "x")
        assert sorted_ids(decode(pg, name + "_p").inputs["x"][:, 0]) == list(range(1, rows + 1))


def test_a26_array_labels_stay_float32(pg: PsycopgDatabase, pack: Pack) -> None:
    run(pg, "create table a26 as select i as id, array[i % 3 = 0, i % 3 = 1, i % 3 = 2]::int[] as y"
            ", array[i * 0.25, 40000 + i]::float8[] as z from generate_series(1, 60) i")
    pack("a26", "p", "y", "id")
    got = decode(pg, "p")
    ids = got.column("id").astype(int)
    np.testing.assert_array_equal(got.target, np.eye(3)[ids % 3])
    target = got.layout.target
    assert (target.kind, target.dtype, target.outputs) == ("vector", ">f4", 3)
    pack("a26", "q", "z", "id")
    got = decode(pg, "q")
    ids = got.column("id")
    np.testing.assert_array_equal(got.target, np.stack([ids * 0.25, ids + 40000], 1))
    with refused(pg, "num_classes is 4", "array of 3"):
        pack("a26", "r", "y", "id", num_classes=[4])


def test_a27_arrays_of_two_dimensions_and_stated_shapes(pg: PsycopgDatabase, pack: Pack) -> None:
    run(pg, "create table a27 as select i as id, array[[i % 2, 1, 2], [3, i % 5, 5], [6, 7, 8]]::int2[]"
            " as img"
            ", decode(lpad(to_hex(i), 12, '0'), 'hex') as raw, i % 2 as y from generate_series(1, 64) i")
    pack("a27", "p", "y", "id, img, raw[1, 2,3]")
    got = decode(pg, "p")
    ids = got.column("id").astype(int)
    assert got.inputs["img"].shape == (64, 3, 3)
    np.testing.assert_array_equal(got.inputs["img"][:, 1, 1], ids % 5)
    assert got.inputs["raw"].shape == (64, 1, 2, 3)
    np.testing.assert_array_equal(got.inputs["raw"][:, 0, 1, 2], ids)
    with refused(pg, "[2, 2]", "'raw'", "4 elements", "holds 6"):
        pack("a27", "q", "y", "raw[2,2]")
    with refused(pg, "'id'", "only arrays and bytea have shapes"):
        pack("a27", "q", "y", "id[1]")


def test_numeric_labels_are_values_unless_classes_are_asked_for(t: PsycopgDatabase, pack: Pack) -> None:
    pack("t", "p", "f", "id")
    got = decode(t, "p")
    assert (got.layout.target.kind, got.layout.target.dtype) == ("value", ">f4")
    np.testing.assert_array_equal(got.target, got.column("id") * 0.5)
    run(t, "create table c as select i as id, 1.5 - (i % 3) * 1.5::float8 as y from generate_series(1, 30) i")
    pack("c", "q", "y", "id", num_classes=[3])
    assert decode(t, "q").layout.target.classes == ("-1.5", "0", "1.5")


def test_classes_are_in_the_order_of_their_type(pg: PsycopgDatabase, pack: Pack) -> None:
    run(pg, "create type mood as enum ('sad', 'ok', 'happy')",
            "create table t as select i as id, (array[-10, 9, 100])[1 + i % 3] as n, (array['b', 'B',"
            " 'ä'])[1 + i % 3] as w"
            ", (array['happy', 'sad', 'ok'])[1 + i % 3]::mood as m, (array['x ', 'y', 'z'])[1 + i %"
            " 3]::char(3) as c"
            " from generate_series(1, 30) i")
    for label, classes in (("n", ("-10", "9", "100")), ("w", ("B", "b", "ä")), ("m", ("sad", "ok", "happy")),
                           ("c", ("x", "y", "z"))):
        pack("t", label + "_p", label, "id")
        got = decode(pg, label + "_p")
        assert got.layout.target.classes == classes
        shown = {row["id"]: row["v"].strip() for row in pg.rows(Fragment(f"select id, {label}::text as v"
            f" from t"))}
        assert got.label_texts() == [shown[int(i)] for i in got.column("id")]


def test_impute_puts_the_mean_and_code_zero(pg: PsycopgDatabase, pack: Pack) -> None:
    run(pg, "create table t as select i as id, nullif(i, 4)::float4 as f, nullif('w' || i % 2, 'w0') as w"
            ", i % 2 as y from generate_series(1, 10) i")
    with refused(pg, "'f' has 1 NULL in 10 rows", "'w' has 5 NULLs", '"impute"'):
        pack("t", "p", "y", "id, f, w")
    pack("t", "p", "y", "id, f, w", nulls="impute")
    got = decode(pg, "p")
    mean = np.float32((55 - 4) / 9)
    np.testing.assert_array_equal(got.column("f"), [mean if i == 4 else i for i in got.column("id")])
    np.testing.assert_array_equal(got.column("w"), got.column("id") % 2)
    assert got.layout.imputed == pytest.approx((5.5, 51 / 9))
    assert pg.rows(Fragment("select imputed::text as i from p_summary")) == [{"i": '{"f": 1, "w": 5}'}]
    run(pg, "alter table t add column n float4, add column a float4[]", "update t set y = null where id = 1")
    with refused(pg, "'n' has 10 NULLs", "'a' has 10 NULLs", "'y' has 1 NULL"):
        pack("t", "q", "y", "n, a", nulls="impute")


def test_tiny_floats_become_zero(pg: PsycopgDatabase, pack: Pack) -> None:
    run(pg, "create table t as select 1e-60::float8 as f, (1e-200)::numeric as n, array[1e-60]::float8[] as a"
            ", i % 2 as y from generate_series(1, 4) i")
    pack("t", "p", "y", "f, n, a")
    got = decode(pg, "p")
    assert not got.inputs["numeric_features"].any()
    assert not got.inputs["a"].any()


def test_quoted_and_foreign_names(pg: PsycopgDatabase, pack: Pack) -> None:
    run(pg, 'create schema "Schéma"',
            'create table "Schéma"."Ta""ble %s" as select i as "Größe %", array[i]::int4[] as "my {x}"'
            ', i % 2 as "Y y" from generate_series(1, 40) i')
    pack('"Schéma"."Ta""ble %s"', '"Schéma"."Out %(x)s"', '"Y y"', '"Größe %", "my {x}"')
    got = decode(pg, '"Schéma"."Out %(x)s"')
    np.testing.assert_array_equal(got.inputs["my {x}"][:, 0], got.column("Größe %"))
    (row,) = pg.rows(Fragment('select "Y y_class_values" as v, source_table from "Schéma"."Out'
                              ' %%(x)s_summary"'))
    assert row == {"v": [0, 1], "source_table": '"Schéma"."Ta""ble %s"'}


def test_domains_and_varchar_are_what_they_stand_for(pg: PsycopgDatabase, pack: Pack) -> None:
    run(pg, "create domain pos as int check (value > 0)", "create domain code as varchar(3)",
            "create table t as select i::pos as d, ('c' || i % 2)::code as y from generate_series(1, 10) i")
    pack("t", "p", "y", "d")
    assert decode(pg, "p").layout.target.classes == ("c0", "c1")
