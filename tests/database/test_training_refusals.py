"""training_preprocessor_dl, by SQL and by Python: what it refuses, with nothing left behind.

Numbers in names are those of the list of bad inputs that other products let through or report badly.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import psycopg2
import pytest

from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.engines import on_greenplum
from cerebro_db.sqltext import Fragment
from tests.decoding import decode
from tests.preprocessing import ROWS, TRAIN, Pack, emptied, refused, run


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


@pytest.mark.parametrize("source", [None, "", "  ", "null"])
def test_1_source_null_or_empty(t: PsycopgDatabase, source: Any, pack: Pack) -> None:
    with refused(t, "source table", "expected a name"):
        pack(source, "p", "y", "x")


def test_2_source_missing(t: PsycopgDatabase, pack: Pack) -> None:
    run(t, "create table flights (a int)")
    with refused(t, "source table flihgts does not exist", "did you mean 'flights'?"):
        pack("flihgts", "p", "y", "x")
    with refused(t, "nowhere.t does not exist"):
        pack("nowhere.t", "p", "y", "x")


def test_3_source_empty(pg: PsycopgDatabase, pack: Pack) -> None:
    run(pg, "create table a24 (id int, x float4[], y int)")
    with refused(pg, "a24 has no rows"):
        pack("a24", "p", "y", "x")
    run(pg, "insert into a24 values (1, null, 0), (2, null, 1)")
    with refused(pg, "NULL in each of its 2 rows"):
        pack("a24", "p", "y", "x", nulls="drop")


def test_4_output_names(t: PsycopgDatabase, pack: Pack) -> None:
    for wrong in (None, "", "null", "1out", "a.b.c", "out put"):
        with refused(t, "output table"):
            pack("t", wrong, "y", "x")
    with refused(t, "too long", "63"):
        pack("t", "n" * 60, "y", "x")
    with refused(t, "schema 'nowhere'", "does not exist"):
        pack("t", "nowhere.p", "y", "x")
    run(t, "create view p as select 1 as a", "create table q_summary (a int)", "create type r as (a int)")
    for taken, shown in (("p", "public.p"), ("q", "public.q_summary"), ("r", "public.r")):
        with refused(t, f"{shown} already exists", "drop it"):
            pack("t", taken, "y", "x")


def test_5_missing_columns(t: PsycopgDatabase, pack: Pack) -> None:
    run(t, "alter table t add column distance int")
    with refused(t, "feature column 'distanse' does not exist in table public.t", "did you mean 'distance'?"):
        pack("t", "p", "y", "x, distanse")
    with refused(t, "label column 'Y' does not exist in table public.t", "did you mean 'y'?"):
        pack("t", "p", '"Y"', "x")


@pytest.mark.parametrize("size", [0, -5])
def test_6_buffer_size(t: PsycopgDatabase, pack: Pack, size: int) -> None:
    with refused(t, f"buffer_size is {size}"):
        pack("t", "p", "y", "x", size)


@pytest.mark.parametrize("const", [0.0, -1.0, float("nan"), float("inf")])
def test_7_normalizing_const(t: PsycopgDatabase, pack: Pack, const: float) -> None:
    with refused(t, "normalizing_const is", "above 0"):
        pack("t", "p", "y", "x", normalizing_const=const)


def test_8_and_9_num_classes(t: PsycopgDatabase, pack: Pack) -> None:
    with refused(t, "num_classes is 2", "3 distinct classes"):
        pack("t", "p", "y", "x", num_classes=[2])
    with refused(t, "num_classes has 2 entries, expected 1"):
        pack("t", "p", "y", "x", num_classes=[3, 3])
    with refused(t, "num_classes has 0 entries"):
        pack("t", "p", "y", "x", num_classes=[])


def test_18_unfit_arrays_and_bytes_in_one_message(pg: PsycopgDatabase, pack: Pack) -> None:
    run(pg, "create table t as select i as id, case when i = 5 then array[1]::int4[] else array[i, 2] end"
            " as ragged"
            ", case when i = 1 then '{}' else array[1.5]::float8[] end as hollow"
            ", array[1, nullif(i, 2), nullif(i, 3)]::int2[] as holes, nullif(array[i], array[7])::int8[]"
            " as gone"
            ", decode(case when i = 2 then 'ff' else 'ffff' end, 'hex') as b, i % 2 as y from"
            " generate_series(1, 9) i")
    told = ["'ragged' has", "[2] in 8 rows, [1] in 1 rows", "'hollow' has", "no elements in 1 rows",
            "'holes' has 2 NULL element", "'gone' has 1 NULL in 9 rows", "'b' has", "[2] in 8 rows"]
    with refused(pg, *told):
        pack("t", "p", "y", "ragged, hollow, holes, gone, b")
    for name in ("ragged", "hollow", "holes", "b"):
        with refused(pg, f"'{name}' has"):
            pack("t", "p", "y", name)


def test_lower_bounds_of_arrays_do_not_matter(pg: PsycopgDatabase, pack: Pack) -> None:
    run(pg, "create table t as select i as id, case when i < 5 then '[0:1]={1,2}' else '{1,2}'"
            " end::int4[] as x"
            ", i % 2 as y from generate_series(1, 9) i")
    pack("t", "p", "y", "x")
    np.testing.assert_array_equal(decode(pg, "p").inputs["x"], [[1, 2]] * 9)


def test_20_and_23_labels(t: PsycopgDatabase, pack: Pack) -> None:
    with refused(t, "names 2 labels, expected one"):
        pack("t", "p", "y, f", "x")
    with refused(t, "label column 'b' has type bytea"):
        pack("t", "p", "b", "x")
    run(t, "update t set y = 1")
    with refused(t, "one class only ('1')"):
        pack("t", "p", "y", "x")


def test_21_a_buffer_beyond_what_a_value_can_hold(pg: PsycopgDatabase, pack: Pack) -> None:
    run(pg, "create table t as select convert_to(repeat('a', 30000000), 'UTF8') as x, i % 2 as y"
            " from generate_series(1, 20) i")
    with refused(pg, "a buffer of 20 rows would take 572 MB", "buffer_size of at most 17"):
        pack("t", "p", "y", "x", 100_000)


def test_more_than_ten_thousand_classes(pg: PsycopgDatabase, pack: Pack) -> None:
    run(pg, "create table t as select i as y, i as f from generate_series(1, 10001) i")
    with refused(pg, "'y' has more than 10000 distinct classes", "y::float8"):
        pack("t", "p", "y", "f")


def test_lists_of_columns(t: PsycopgDatabase, pack: Pack) -> None:
    for text, words in (
        ("x, x", "'x' more than once"),
        ("x, y", "'y' is both the label and a feature"),
        ("*, x", "'x' more than once"),
        ("x,", "is not a list of columns"),
        ("x + 1", "is not a list of columns"),
        ("x[0]", "shape [0] of x is not valid"),
        (None, "independent_varname"),
        ("", "independent_varname"),
        ("x; drop table t", "is not a list of columns"),
    ):
        with refused(t, words):
            pack("t", "p", "y", text)


def test_names_that_collide_with_the_packed_table(pg: PsycopgDatabase, pack: Pack) -> None:
    run(pg, 'create table t as select array[1] as buffer_id, array[1] as x, array[1] as x_shape, i as f,'
            ' i % 2 as y'
            ', array[1] as numeric_features, array[1] as "' + "n" * 58 + '" from generate_series(1, 4) i')
    for features, words in (
        ("buffer_id", "'buffer_id' collides"),
        ("x, x_shape", "'x_shape' collides"),
        ("f, numeric_features", "'numeric_features' collides"),
        ("n" * 58, "more than 63 bytes"),
    ):
        with refused(pg, words):
            pack("t", "p", "y", features)


def test_options_and_rules(t: PsycopgDatabase, pack: Pack) -> None:
    with refused(t, "unknown preprocessor option 'sead': did you mean 'seed'?"):
        pack("t", "p", "y", "x", sead=1)
    with refused(t, "unknown value of the option nulls 'dorp': did you mean 'drop'?"):
        pack("t", "p", "y", "x", nulls="dorp")
    for key, value in (("seed", -1), ("seed", "a"), ("segments", 0), ("segments", True)):
        with refused(t, f"option {key} is {value!r}"):
            pack("t", "p", "y", "x", **{key: value})
    with refused(t, "distribution_rules is 'gpu_segments'", "'all_segments'"):
        pack("t", "p", "y", "x", distribution_rules="gpu_segments")
    with refused(t, "give one of them"):
        pack("t", "p", "y", "x", distribution_rules="3", segments=4)
    pack("t", "p", "y", "x", distribution_rules="3")
    assert set(decode(t, "p").segments) == {0, 1, 2}


def test_a_packed_table_is_not_packed_again(t: PsycopgDatabase, pack: Pack) -> None:
    pack("t", "p", "y", "x")
    with refused(t, "public.p is packed already"):
        pack("p", "q", "y", "x")


def test_rights_are_the_callers(pg_dsn: str, role: Any) -> None:
    alice = role("alice")()
    with connect(pg_dsn) as admin:
        admin.rows(ROWS)
        relation = "relation" if on_greenplum(admin) else "table"  # by the words of version 9.4
        with pytest.raises(psycopg2.errors.InsufficientPrivilege, match=f"permission denied for {relation} t"):
            TRAIN["sql"](alice, "t", "p", "y", "x")
        run(admin, "grant select on t to public")
        TRAIN["sql"](alice, "t", "p", "y", "x, id, w")
        (owner,) = admin.rows(Fragment("select tableowner from pg_tables where tablename = 'p'"))
        assert owner["tableowner"].startswith("alice")
        with pytest.raises(psycopg2.errors.InsufficientPrivilege, match="permission denied"):
            TRAIN["sql"](role("bob", member=False)(), "t", "q", "y", "x")
