"""The client gives a statement the same values and types as a backend does."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.database import one
from cerebro_db.errors import SetupError, UsageError
from cerebro_db.sqltext import Fragment


def test_values_come_back_as_they_went(pg: PsycopgDatabase) -> None:
    sent = {"i": -(2**63), "f": 0.5, "b": b"\x00\xff", "t": "50 % 'quoted'", "n": None, "flag": True}
    columns = ", ".join(f"%({name})s as {name}" for name in sent)
    assert one(pg, Fragment(f"select {columns}, 7 %% 4 as rest"), **sent) == {**sent, "rest": 3}


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1, "bigint"), (1.5, "double precision"), (True, "boolean"), ("a", "text"), (b"a", "bytea"),
        (None, "text"),
        ([1, 2], "bigint[]"), ((1.5,), "double precision[]"), ([], "text[]"), ([None, "a"], "text[]"),
        (np.float32(2.5), "double precision"), (np.int64(3), "bigint"), (np.bool_(True), "boolean"),
    ],
)  # fmt: skip
def test_values_have_the_types_they_have_in_a_backend(pg: PsycopgDatabase, value: object, kind: str) -> None:
    assert one(pg, Fragment("select pg_typeof(%(value)s)::text as kind"), value=value)["kind"] == kind


def test_statements_that_take_no_types_take_literals(pg: PsycopgDatabase) -> None:
    pg.rows(Fragment("-- A verb after a comment.\ncreate temp table t (x text default %(x)s)"), x="it's")
    assert pg.rows(Fragment("insert into t default values returning x")) == [{"x": "it's"}]
    assert pg.rows(Fragment("set cerebro.test = %(x)s"), x="a") == []


def test_lists_are_arrays_and_nan_is_kept(pg: PsycopgDatabase) -> None:
    row = one(pg, Fragment("select %(x)s as x, %(y)s as y"), x=[1.5, math.nan], y=[b"a", None])
    assert row["x"][0] == 1.5
    assert math.isnan(row["x"][1])
    assert row["y"] == [b"a", None]


def test_json_is_text(pg: PsycopgDatabase) -> None:
    row = one(pg, Fragment("""select '{"a": 1}'::json as j, '{"a": 1}'::jsonb as b, null::json as n"""))
    assert row == {"j": '{"a": 1}', "b": '{"a": 1}', "n": None}


def test_a_statement_without_rows_gives_none(pg: PsycopgDatabase) -> None:
    assert pg.rows(Fragment("create temp table t (x integer)")) == []
    made = pg.rows(Fragment("insert into t values (%(x)s), (2) returning x"), x=1)
    assert sorted(row["x"] for row in made) == [1, 2]


def test_stream_gives_every_row_once_and_leaves_no_transaction(pg: PsycopgDatabase) -> None:
    rows = pg.stream(Fragment("select g, repeat('x', 2000) as t from generate_series(1, %(n)s) g"), n=12345)
    assert [row["g"] for row in rows] == list(range(1, 12346))
    assert pg.connection.info.transaction_status == 0


def test_statements_run_between_the_rows_of_a_stream(pg: PsycopgDatabase) -> None:
    pg.rows(Fragment("create temp table seen (x bigint)"))
    for row in pg.stream(Fragment("select g from generate_series(1, 5) g")):
        pg.rows(Fragment("insert into seen values (%(x)s)"), x=row["g"])
    assert one(pg, Fragment("select sum(x)::integer as total from seen")) == {"total": 15}


def test_a_transaction_is_all_or_nothing(pg: PsycopgDatabase) -> None:
    pg.rows(Fragment("create temp table t (x integer)"))
    with pytest.raises(UsageError, match="enough"):
        _insert_and_fail(pg)
    with pg.transaction(), pg.transaction():
        pg.rows(Fragment("insert into t values (2)"))
    assert pg.rows(Fragment("select x from t")) == [{"x": 2}]


def _insert_and_fail(pg: PsycopgDatabase) -> None:
    with pg.transaction():
        pg.rows(Fragment("insert into t values (1)"))
        raise UsageError("enough")


def test_messages_of_the_server_reach_the_caller(pg_dsn: str) -> None:
    heard: list[str] = []
    with connect(pg_dsn, on_notice=heard.append) as database:
        database.script(Fragment("do $$ begin raise notice 'hop % done', 3; end $$"))
    assert heard == ["hop 3 done"]


def test_no_server_is_a_setup_error_without_the_password() -> None:
    with pytest.raises(SetupError, match="cannot connect to 'host=/nowhere port=1'") as caught:
        connect("host=/nowhere port=1 password=secret")
    assert "secret" not in str(caught.value)


def test_a_bad_dsn_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match='invalid connection option "hots"'):
        connect("hots=here")


def test_a_role_logs_in_by_password(role, pg: PsycopgDatabase) -> None:  # type: ignore[no-untyped-def]
    alice = role("alice")
    assert one(alice(), Fragment("select current_user::text as name")) == {"name": alice.name}
    member = Fragment("select pg_has_role(%(name)s, 'cerebro_user', 'member') as yes")
    assert one(pg, member, name=alice.name)["yes"]
