"""generate_model_configs: grids, random search, extending a table, and what is refused."""

from __future__ import annotations

import psycopg2
import pytest

from cerebro_db import names, selection
from cerebro_db.client import connect
from cerebro_db.params import CompileParams, FitParams
from cerebro_db.sqltext import Fragment, TableName

COMPILE = """{'loss': ['cross_entropy'], 'metrics': ['accuracy'],
    'optimizer_params_list': [{'optimizer': ['Adam'], 'lr': [0.001, 0.0001], 'weight_decay': [0, 1e-4]}]}"""
SAMPLED = """{"loss": ["cross_entropy"], "optimizer_params_list": [
    {"optimizer": ["adam"], "lr": [0.0001, 0.1, "log"]},
    {"optimizer": ["sgd"], "lr": [0.001, 1, "linear"], "momentum": [0.5, 0.99, "log_near_one"]}]}"""
FIT = "{'batch_size': [64, 256], 'epochs': [1]}"
GENERATE = Fragment("""
    select generate_model_configs(%(arch)s, %(mst)s, %(ids)s::integer[], %(compile)s, %(fit)s,
                                  %(search)s, %(count)s::integer, %(seed)s::integer)""")


@pytest.fixture
def pg(pg_dsn):
    with connect(pg_dsn) as database:
        yield with_models(database)


@pytest.fixture(scope="module")
def shared(pg_module_dsn):
    """One database for the calls that leave nothing behind."""
    columns = "mst_key integer, model_id integer, compile_params text, fit_params text"
    with connect(pg_module_dsn) as database:
        database.script(Fragment("create table old_summary (x integer)"))
        database.script(Fragment(f"create table bare ({columns})"))
        yield with_models(database)


def with_models(database):
    for name in ("arch", "arch", "other"):
        selection.load_model_arch(database, name, '{"model": "mlp"}')
    return database


def generate(database, **changes):
    given = {
        "arch": "arch", "mst": "mst", "ids": [1, 2], "compile": COMPILE, "fit": FIT,
        "search": "grid", "count": None, "seed": None, **changes,
    }  # fmt: skip
    database.rows(GENERATE, **given)


def random(database, **changes):
    generate(database, **{"search": "random", "compile": SAMPLED, "count": 5, "seed": 0, **changes})


def stored(database, mst="mst"):
    configs = selection.read_selection(database, mst)
    return [
        (config.mst_key, config.model_id, CompileParams.parse(config.compile_params), fit(config))
        for config in configs
    ]


def fit(config):
    return FitParams.parse(config.fit_params)


def test_the_grid_of_sixteen(pg):
    pg.rows(
        Fragment("select generate_model_configs('arch', 'mst', array[1, 2], %(compile)s, %(fit)s)"),
        compile=COMPILE,
        fit=FIT,
    )
    configs = stored(pg)
    assert [key for key, *_ in configs] == list(range(1, 17))
    assert len({config[1:] for config in configs}) == 16
    assert configs[0][1:] == (
        1,
        CompileParams("adam", (("lr", 0.001), ("weight_decay", 0.0)), "cross_entropy", "accuracy"),
        FitParams(64, 1),
    )
    first = pg.rows(Fragment("select compile_params, fit_params from mst where mst_key = 1"))[0]
    optimizer = "optimizer='Adam(lr=0.001, weight_decay=0)'"
    assert first["compile_params"] == f"loss='cross_entropy', metrics=['accuracy'], {optimizer}"
    assert first["fit_params"] == "batch_size=64, epochs=1"


@pytest.mark.parametrize("search", ["g", "GRID", None, "gri"])
def test_any_beginning_of_grid(pg, search):
    generate(pg, search=search)
    assert len(stored(pg)) == 16


@pytest.mark.parametrize("seed", [0, 1, -3])
def test_random_search_repeats_by_its_seed(pg, seed):
    random(pg, seed=seed)
    random(pg, seed=seed, mst="again", search="r")
    random(pg, seed=seed + 1, mst="differs", search="Rand")
    assert stored(pg) == stored(pg, "again")
    assert stored(pg) != stored(pg, "differs")
    assert len(stored(pg)) == 5


def test_without_a_seed_draws_differ(pg):
    random(pg, seed=None)
    random(pg, seed=None, mst="again")
    assert stored(pg) != stored(pg, "again")


def test_duplicates_are_drawn_again(pg):
    random(pg, compile=COMPILE, count=16)
    assert len({config[1:] for config in stored(pg)}) == 16
    assert len(stored(pg)) == 16


def test_a_table_is_extended_without_repeating_itself(pg):
    generate(pg, ids=[1])
    generate(pg, ids=[1, 2])
    keys = [config[:2] for config in stored(pg)]
    assert keys == [(key, 1) for key in range(1, 9)] + [(key, 2) for key in range(9, 17)]
    generate(pg)
    assert len(stored(pg)) == 16
    assert pg.rows(Fragment("select * from mst_summary")) == [
        {"model_arch_table": "public.arch", "object_table": None}
    ]


def test_keys_go_on_behind_the_largest(pg):
    random(pg, count=2)
    pg.rows(Fragment("update mst set mst_key = 40 where mst_key = 1"))
    random(pg, count=1, seed=9)
    assert [config[0] for config in stored(pg)] == [2, 40, 41]


def test_the_number_added_is_told(pg_dsn):
    told = []
    with connect(pg_dsn, on_notice=told.append) as database:
        selection.load_model_arch(database, "arch", '{"model": "mlp"}')
        generate(database, ids=[1])
        generate(database, ids=[1])
    assert told == ["8 configs added to public.mst", "0 configs added to public.mst"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"count": 3}, "num_configs is given, but a grid search takes every point"),
        ({"seed": 0}, "random_state is given, but a grid search"),
        ({"compile": SAMPLED}, "which has no grid"),
        ({"search": "random"}, "num_configs is NULL"),
        ({"search": "random", "count": 0}, "num_configs of a random search is 0, expected a whole"),
        ({"search": "random", "count": -1}, "num_configs of a random search is -1"),
        ({"search": "random", "count": 17}, "num_configs is 17, but the grids hold only 16"),
        ({"search": "rundom", "count": 1}, "unknown search_type 'rundom': did you mean 'random'"),
        ({"search": ""}, "unknown search_type ''"),
        ({"search": "gridd"}, "unknown search_type 'gridd': did you mean 'grid'"),
        ({"compile": None}, "compile_params_grid is NULL"),
        ({"compile": "{'loss': [x]}"}, "no literal"),
        ({"compile": "{'loss': 'mse'}"}, "expected a list"),
        ({"compile": "{'lr': [1]}"}, "those of an optimizer stand in optimizer_params_list"),
        ({"compile": "{'loss': ['mse'], 'optimizer_params_list': [{}]}"}, "entry 1 is {}"),
        ({"fit": None}, "fit_params_grid is NULL"),
        ({"fit": "{'batch_size': [0]}"}, "batch_size is 0"),
        ({"ids": None}, "model_id_list is NULL"),
        ({"ids": []}, "model_id_list is []"),
        ({"ids": [3]}, "model_id 3 of model_id_list is not in model_arch_table public.arch"),
        ({"arch": "nothing"}, "model_arch_table nothing does not exist"),
        ({"mst": "arch"}, "lacks the columns mst_key, compile_params, fit_params"),
        ({"mst": "old"}, "public.old_summary already exist"),
        ({"mst": "bare"}, "bare_summary does not exist"),
    ],
)
def test_refused_before_anything_exists(shared, changes, message):
    with pytest.raises(psycopg2.Error) as caught:
        generate(shared, **changes)
    assert message in str(caught.value)
    left = [name for name in ("mst", "mst_summary", "old") if names.find(shared, TableName(None, name))]
    assert left == []


def test_another_arch_table_is_refused(pg):
    generate(pg)
    with pytest.raises(psycopg2.Error, match="its models are in public.arch, not in public.other"):
        generate(pg, arch="other", ids=[1])
    assert len(stored(pg)) == 16


def test_a_broken_config_in_the_table_is_named(pg):
    generate(pg)
    pg.rows(Fragment("update mst set fit_params = 'epochs=none' where mst_key = 5"))
    with pytest.raises(psycopg2.Error, match="mst_key 5 of model_selection_table public.mst: fit_params"):
        generate(pg)


def test_torch_is_not_loaded(pg):
    generate(pg)
    pg.script(
        Fragment("""
        create function pg_temp.loaded() returns boolean language plpython3u as $$
            import sys
            return "torch" in sys.modules
        $$""")
    )
    assert pg.rows(Fragment("select pg_temp.loaded() as loaded")) == [{"loaded": False}]
