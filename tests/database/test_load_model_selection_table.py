"""load_model_selection_table, and read_selection on what it makes and on tables made by hand."""

from __future__ import annotations

import psycopg2
import pytest

from cerebro_db import names, selection
from cerebro_db.client import connect
from cerebro_db.errors import CerebroError
from cerebro_db.selection import Config
from cerebro_db.sqltext import Fragment, TableName

MLP = '{"model": "mlp"}'
CNN = '{"model": "cnn"}'
ADAM = "loss='mse', optimizer='adam(lr=0.1)', metrics=['mae']"
SGD = '{"loss": "mse", "optimizer": "sgd"}'
LOAD = Fragment(
    "select load_model_selection_table(%(arch)s, %(mst)s, %(ids)s::integer[], %(compile)s::text[], "
    "%(fit)s::text[])"
)
MADE = ("mst", "mst_summary")


@pytest.fixture
def pg(pg_dsn):
    with connect(pg_dsn) as database:
        yield with_models(database)


@pytest.fixture(scope="module")
def shared(pg_module_dsn):
    """One database for the calls that leave nothing behind."""
    with connect(pg_module_dsn) as database:
        database.script(Fragment("create table old_summary (x integer)"))
        yield with_models(database)


@pytest.fixture
def undone(shared):
    """The shared database; what the test does is rolled back."""
    shared.script(Fragment("begin"))
    yield shared
    shared.script(Fragment("rollback"))


def with_models(database):
    selection.load_model_arch(database, "arch", MLP, b"\7")
    selection.load_model_arch(database, "arch", CNN)
    return database


def load(database, **changes):
    given = {
        "arch": "arch", "mst": "mst", "ids": [1, 2],
        "compile": [ADAM, SGD], "fit": ["batch_size=8", "epochs=2"], **changes,
    }  # fmt: skip
    database.rows(LOAD, **given)


def made(database):
    return [name for name in MADE if names.find(database, TableName(None, name))]


def test_every_combination_once(pg):
    again = "metrics = ['mean_absolute_error'],optimizer=Adam(lr=1e-1),loss='MSE'"
    load(pg, ids=[2, 1, 2], compile=[ADAM, again, f" {SGD}\n"])
    rows = pg.rows(Fragment("select mst_key, model_id, compile_params, fit_params from mst order by mst_key"))
    assert [tuple(row.values()) for row in rows] == [
        (1, 2, ADAM, "batch_size=8"), (2, 2, ADAM, "epochs=2"),
        (3, 2, SGD, "batch_size=8"), (4, 2, SGD, "epochs=2"),
        (5, 1, ADAM, "batch_size=8"), (6, 1, ADAM, "epochs=2"),
        (7, 1, SGD, "batch_size=8"), (8, 1, SGD, "epochs=2"),
    ]  # fmt: skip
    summary = pg.rows(Fragment("select * from mst_summary"))
    assert summary == [{"model_arch_table": "public.arch", "object_table": None}]
    assert names.columns(pg, TableName("public", "mst")) == {
        "mst_key": "integer", "model_id": "integer",
        "compile_params": "character varying", "fit_params": "character varying",
    }  # fmt: skip


def test_madlib_s_own_call(pg):
    pg.rows(
        Fragment("""
        select load_model_selection_table('arch', 'mst', array[1],
            array[$$loss='categorical_crossentropy',optimizer='Adam(lr=0.1)',metrics=['accuracy']$$],
            array[$$batch_size=4,epochs=1$$, $$batch_size=8,epochs=1$$])""")
    )
    assert [config.mst_key for config in selection.read_selection(pg, "mst")] == [1, 2]


def test_reading_gives_the_models_too(pg):
    load(pg, ids=[2, 1], compile=[SGD], fit=["epochs=2"])
    pg.script(Fragment("set search_path = pg_catalog"))  # the summary names the schema
    assert selection.read_selection(pg, "public.mst") == [
        Config(1, 2, CNN, None, SGD, "epochs=2"),
        Config(2, 1, MLP, b"\7", SGD, "epochs=2"),
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arch": "arc"}, "model_arch_table arc does not exist (did you mean 'arch'?)"),
        ({"arch": None}, "model_arch_table is None"),
        ({"arch": "pg_class"}, "lacks the columns model_id, model_arch, model_weights"),
        ({"mst": None}, "model_selection_table is None"),
        ({"mst": "arch"}, "model_selection_table public.arch already exists"),
        ({"mst": "old"}, "public.old_summary already exists"),
        ({"ids": None}, "model_id_list is NULL, expected ids"),
        ({"ids": []}, "model_id_list is [], expected ids"),
        ({"ids": [1, None]}, "model_id NULL of model_id_list is not in"),
        ({"ids": [1, 7]}, "7 of model_id_list is not in model_arch_table public.arch, which holds 1, 2"),
        ({"compile": None}, "compile_params_list is NULL"),
        ({"compile": []}, "compile_params_list is [], expected a list"),
        ({"compile": [SGD, None]}, "compile_params_list[2] NULL: compile_params is NULL"),
        ({"compile": [SGD, "loss='mse', optimizer='a'"]}, "list[2] \"loss='mse', optimizer='a'\": unknown"),
        ({"compile": ["loss='mse', optimizer='adm'"]}, "did you mean 'adam'"),
        ({"compile": ["loss='mse', optimizer='adam', los_weights=1"]}, "'los_weights': did you mean"),
        ({"compile": ["loss=mse, optimizer='adam'"]}, "holds 'mse', no literal"),
        ({"fit": None}, "fit_params_list is NULL"),
        ({"fit": ["epochs=0"]}, "fit_params_list[1] 'epochs=0': fit_params: epochs is 0"),
        ({"fit": ["callbacks=[1]"]}, "'callbacks', which is not supported"),
    ],
)
def test_refused_before_anything_exists(shared, changes, message):
    with pytest.raises(psycopg2.Error) as caught:
        load(shared, **changes)
    assert message in str(caught.value)
    assert made(shared) == []


BY_HAND = Fragment("""
create table mst (mst_key integer, model_id {id_type}, compile_params text, fit_params text);
create table mst_summary (model_arch_table text);
insert into mst_summary values ('arch');
insert into mst values (7, '2', $$loss='mse',optimizer='sgd'$$, 'epochs=1');
insert into mst values (3, '1', $$loss='mse',optimizer='sgd'$$, '');
""")


@pytest.mark.parametrize("id_type", ["integer", "bigint", "varchar"])
def test_tables_made_by_hand(undone, id_type):
    undone.script(Fragment(BY_HAND.replace("{id_type}", id_type)))
    assert selection.read_selection(undone, "mst") == [
        Config(3, 1, MLP, b"\7", "loss='mse',optimizer='sgd'", ""),
        Config(7, 2, CNN, None, "loss='mse',optimizer='sgd'", "epochs=1"),
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("drop table mst", "model_selection_table mst does not exist"),
        ("drop table mst_summary", "summary of model_selection_table public.mst_summary does not exist"),
        ("alter table mst drop column fit_params", "lacks the column fit_params; expected mst_key"),
        ("alter table mst_summary rename model_arch_table to a", "lacks the column model_arch_table"),
        ("delete from mst_summary", "names none, expected exactly one model_arch_table"),
        ("insert into mst_summary values ('other')", "names 'arch', 'other', expected exactly one"),
        ("update mst_summary set model_arch_table = null", "is None, expected a name"),
        ("update mst_summary set model_arch_table = 'gone'", "named by public.mst_summary gone does not"),
        ("alter table mst_summary add object_table text default 'o'", "names the object_table 'o'"),
        ("delete from mst", "public.mst has no configs"),
        ("update mst set mst_key = 7", "mst_key 7 is twice in"),
        ("update mst set mst_key = null where mst_key = 7", "has NULL in the row"),
        ("update mst set compile_params = null where mst_key = 7", "has NULL in the row"),
        ("update mst set model_id = 'one'", "model_id in model_selection_table public.mst is 'one'"),
        ("update mst set model_id = '9'", "9 is not in model_arch_table public.arch, which holds 1, 2"),
        ("update mst set compile_params = 'loss=1'", "table public.mst: compile_params 'loss=1'"),
        ("update mst set fit_params = 'epoch=1' where mst_key = 7", "did you mean 'epochs'"),
        ("update arch set model_arch = '{\"a\": 1}' where model_id = 2", "model_id 2 of public.arch"),
        ("alter table arch drop column model_weights", "lacks the column model_weights"),
    ],
)
def test_reading_refuses(undone, change, message):
    undone.script(Fragment(BY_HAND.replace("{id_type}", "varchar")))
    undone.script(Fragment(change))
    with pytest.raises(CerebroError) as caught:
        selection.read_selection(undone, "mst")
    assert message in str(caught.value)


def test_a_null_object_table_is_fine(undone):
    undone.script(Fragment(BY_HAND.replace("{id_type}", "integer")))
    undone.script(Fragment("alter table mst_summary add object_table text"))
    assert len(selection.read_selection(undone, "mst")) == 2


def test_a_plain_role_makes_its_own(role):
    session = role("alice")()
    session.rows(Fragment("select load_model_arch('arch', '{\"model\": \"mlp\"}')"))
    load(session, ids=[1])
    assert len(selection.read_selection(session, "mst")) == 4
