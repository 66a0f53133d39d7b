"""load_model_arch: ids, columns, what is stored, and what is refused with nothing left behind."""

from __future__ import annotations

import json
import threading

import psycopg2
import pytest

from cerebro_db import names, selection
from cerebro_db.client import connect
from cerebro_db.errors import UsageError
from cerebro_db.sqltext import Fragment, TableName

MLP = '{"model": "mlp", "hidden": [8]}'
LOAD = Fragment("select load_model_arch(%(table)s, %(arch)s::text::json) as model_id")


@pytest.fixture
def pg(pg_dsn):
    """A session that has the functions on its search path."""
    with connect(pg_dsn) as database:
        yield database


@pytest.fixture(scope="module")
def shared(pg_module_dsn):
    """One database for the calls that leave nothing behind."""
    with connect(pg_module_dsn) as database:
        yield database


def load(database, table="arch", arch=MLP):
    return database.rows(LOAD, table=table, arch=arch)[0]["model_id"]


def test_the_first_call_makes_the_table(pg):
    assert [load(pg), load(pg), load(pg)] == [1, 2, 3]
    assert names.columns(pg, TableName("public", "arch")) == {
        "model_id": "integer", "model_arch": "json", "model_weights": "bytea",
        "name": "text", "description": "text",
    }  # fmt: skip
    rows = pg.rows(Fragment("select * from arch where model_id = 1"))
    assert rows == [
        {"model_id": 1, "model_arch": MLP, "model_weights": None, "name": None, "description": None}
    ]
    with pytest.raises(psycopg2.errors.UniqueViolation):
        pg.rows(Fragment("insert into arch select * from arch where model_id = 1"))


def test_all_arguments_are_stored(pg):
    call = Fragment(
        "select load_model_arch('arch', '{\"model\": \"cnn\"}', model_weights := '\\x0001', name := 'n', "
        "description := 'it''s') as model_id"
    )
    assert pg.rows(call) == [{"model_id": 1}]
    rows = pg.rows(Fragment("select model_weights, name, description from arch"))
    assert rows == [{"model_weights": b"\0\1", "name": "n", "description": "it's"}]


def test_ids_go_on_behind_the_largest(pg):
    load(pg)
    pg.rows(Fragment("update arch set model_id = 41"))
    assert load(pg) == 42


def test_quoted_names_and_schemas(pg):
    pg.script(Fragment('create schema "My Models"'))
    assert load(pg, '"My Models"."Arch;--"') == 1
    assert load(pg, '"My Models"."Arch;--"') == 2
    assert pg.rows(Fragment('select count(*) as n from "My Models"."Arch;--"')) == [{"n": 2}]


def test_two_sessions_at_once_get_different_ids(pg_dsn):
    def work():
        with connect(pg_dsn) as database:
            found.extend(load(database) for _ in range(5))

    found = []
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(1, 16))


def test_the_same_from_a_client(pg):
    assert selection.load_model_arch(pg, "arch", MLP, b"\1", "n") == 1
    assert load(pg) == 2
    with pytest.raises(UsageError, match="model_arch is NULL"):
        selection.load_model_arch(pg, "arch", None)


@pytest.mark.parametrize(
    ("table", "arch", "message"),
    [
        (None, MLP, "model_arch_table is None, expected a name"),
        ("", MLP, "model_arch_table is '', expected a name"),
        ("1arch", MLP, "model_arch_table '1arch' is not a valid SQL name"),
        ("a.b.c", MLP, "has 3 parts"),
        ("nowhere.arch", MLP, "nowhere"),
        ("arch", None, "model_arch is NULL"),
        ("arch", '{"a": 1}', "expected 'model'"),
        ("arch", '{"model": "mpl"}', "did you mean 'mlp'"),
        ("arch", '{"model": "mlp", "model": "cnn"}', "key 'model' twice"),
        ("arch", '{"model": "sequential", "layers": [["Linaer", 1, 2]]}', "did you mean 'Linear'"),
        ("arch", json.dumps({"class_name": "Sequential", "config": {}}), "as of a Keras model"),
    ],
)
def test_refused_before_anything_exists(shared, table, arch, message):
    with pytest.raises(psycopg2.Error) as caught:
        load(shared, table, arch)
    assert caught.value.diag.message_primary.startswith("cerebro: ")
    assert message in caught.value.diag.message_primary
    assert names.find(shared, TableName(None, "arch")) is None


def test_an_existing_table_without_the_columns(pg):
    pg.script(Fragment("create table arch (model_id integer, model_arch json, name text)"))
    with pytest.raises(psycopg2.Error) as caught:
        load(pg)
    assert "public.arch lacks the columns model_weights, description; expected model_id" in str(caught.value)
    assert pg.rows(Fragment("select * from arch")) == []


def test_a_plain_role_owns_what_it_makes(role):
    alice = role("alice")
    session = alice()
    assert load(session) == 1
    owner = Fragment("select tableowner::text as owner from pg_tables where tablename = 'arch'")
    assert session.rows(owner) == [{"owner": alice.name}]


def test_a_role_without_cerebro_user_may_not_call(role):
    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
        role("eve", member=False)().rows(
            Fragment("select cerebro.load_model_arch('arch', '{\"model\": \"mlp\"}')")
        )
