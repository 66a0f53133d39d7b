"""madlib_mop_fit: one clear error for every wrong input, with nothing left behind; odd data that must work."""

from __future__ import annotations

import json
import math
from typing import Any, Dict, Iterator

import psycopg2
import pytest

from cerebro_db.client import PsycopgDatabase, connect
from tests import runs
from tests.runs import sql

ADAM = runs.ADAM
COLUMNS = {"dependent_varname": "label", "independent_varname": "x"}
GOOD: Dict[str, Any] = {"source": "packed", "output": "out", "selection": "good", "epochs": 2}


@pytest.fixture(scope="module")
def bench(pg_module: PsycopgDatabase) -> PsycopgDatabase:
    """Good tables and bad ones."""
    runs.make_images(pg_module, "images", 40)
    runs.pack(pg_module, "images", "packed", segments=1)
    runs.make_selection(pg_module, "good", {1: (runs.MLP, ADAM, "batch_size=8")})
    pg_module.script(
        sql(
            "create table numbers as select i as id, array[i, i + 1]::float4[] as x, i % 2 as label"
            "  from generate_series(1, 20) i;"
            "create table empty as select * from numbers where false;"
            "create table with_null as select id, case when id <> 3 then x end as x, label from numbers;"
            "create table with_nan as select id, case when id = 3 then '{NaN,1}' else x end as x, label from numbers;"
            "create table ragged as select id, case when id = 3 then '{1,2,3}' else x end as x, label from numbers;"
            "create table one_class as select id, x, 1 as label from numbers;"
            "create table there (x int); create table half_info (x int); create table half2_summary (x int);"
            "create table bare as table packed"
        )
    )
    return pg_module


def call(database: PsycopgDatabase, arguments: Dict[str, Any]) -> Any:
    """madlib_mop_fit by named arguments."""
    given = ", ".join(f"{name} := {literal}" for name, literal in arguments.items())
    return database.rows(sql(f"select * from madlib_mop_fit({given})"))


def quoted(value: Any) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, (bool, int)) else "'" + str(value).replace("'", "''") + "'"


def with_arguments(**changed: Any) -> Dict[str, str]:
    names = {"source": "source_table", "output": "model_output_table", "selection": "model_selection_table",
             "epochs": "num_iterations", "validation": "validation_table", "frequency": "metrics_compute_frequency"}
    return {names.get(name, name): quoted(value) for name, value in {**GOOD, **changed}.items()}


def refused(database: PsycopgDatabase, arguments: Dict[str, str], words: str, code: str) -> None:
    """Fail unless the call is refused in these words, and everything is as it was before."""
    before = runs.relations(database)
    with pytest.raises(psycopg2.Error, match=f"cerebro: .*{words}") as info:
        call(database, arguments)
    assert info.value.pgcode == code, info.value
    assert runs.relations(database) == before
    assert "Traceback" not in str(info.value.diag.message_primary)
    assert "\n" not in info.value.diag.message_primary


WRONG = {
    "no source": ({"source": None}, "source_table is None", "22023"),
    "empty source name": ({"source": ""}, "source_table is ''", "22023"),
    "missing source": ({"source": "pakced"}, "source_table pakced does not exist.*did you mean 'packed'", "42704"),
    "no output": ({"output": None}, "model_output_table is None", "22023"),
    "not a name": ({"output": "1out"}, "'1out' is not a valid SQL name", "22023"),
    "output exists": ({"output": "there"}, r"model_output_table public\.there already exists", "42710"),
    "info exists": ({"output": "half"}, "half_info already exists", "42710"),
    "summary exists": ({"output": "half2"}, "half2_summary already exists", "42710"),
    "no selection": ({"selection": None}, "model_selection_table is None", "22023"),
    "missing selection": ({"selection": "goof"}, "model_selection_table goof does not exist.*'good'", "42704"),
    "missing validation": ({"validation": "nowhere"}, "validation_table nowhere does not exist", "42704"),
    "no epochs": ({"epochs": None}, "num_iterations is None, expected 1 or more", "22023"),
    "zero epochs": ({"epochs": 0}, "num_iterations is 0, expected 1 or more", "22023"),
    "negative epochs": ({"epochs": -1}, "num_iterations is -1", "22023"),
    "zero frequency": ({"frequency": 0}, "metrics_compute_frequency is 0, expected 1 to num_iterations", "22023"),
    "frequency too large": ({"frequency": 3}, "metrics_compute_frequency is 3", "22023"),
    "gpus": ({"use_gpus": True}, "use_gpus is true, but", "58000"),
    "unknown strategy": ({"strategy": "in_rdms"}, "unknown strategy 'in_rdms': did you mean 'in_rdbms'", "22023"),
    "unknown option": ({"options": '{"sed": 1}'}, "unknown option 'sed': did you mean 'seed'", "22023"),
    "wrong option": ({"options": '{"seed": "x"}'}, "option seed is 'x', expected a number", "22023"),
    "option out of range": ({"options": '{"threads": -1}'}, "option threads is -1, expected 0 or more", "22023"),
    "warm start of nothing": ({"warm_start": True}, "model_output_table out does not exist", "42704"),
    "warm start without info": ({"warm_start": True, "output": "there"}, "there_info does not exist", "42704"),
    "not packed": ({"source": "numbers"}, "numbers is not packed: run training_preprocessor_dl first", "22023"),
    "packed without summary": ({"source": "bare"}, "bare is not packed", "22023"),
}
ROWS = {
    "no rows": ("empty", "empty", "22000"),
    "null": ("with_null", "x.*NULL", "22000"),
    "nan": ("with_nan", "x.*NaN", "22000"),
    "ragged": ("ragged", "x", "22000"),
    "one class": ("one_class", "label", "22000"),
}
COMPILED = {
    "no optimizer": ({"loss": "mse"}, "compile_params has no optimizer"),
    "unknown optimizer": ({**ADAM, "optimizer": "adm"}, "unknown optimizer 'adm': did you mean 'adam'"),
    "no loss": ({"optimizer": "adam"}, "compile_params has no loss"),
    "unknown loss": ({**ADAM, "loss": "cross_entrpy"}, "unknown loss 'cross_entrpy': did you mean 'cross_entropy'"),
    "unknown metric": ({**ADAM, "metrics": ["acuracy"]}, "unknown metric 'acuracy': did you mean 'accuracy'"),
    "two metrics": ({**ADAM, "metrics": ["accuracy", "mae"]}, "expected at most one metric"),
    "metrics by output": ({**ADAM, "metrics": {"y": "accuracy"}}, "expected at most one metric"),
    "loss weights": ({**ADAM, "loss_weights": [1]}, "'loss_weights', which is not supported"),
    "sample weights": ({**ADAM, "sample_weight_mode": "temporal"}, "'sample_weight_mode', which is not supported"),
    "target tensors": ({**ADAM, "target_tensors": 1}, "'target_tensors', which is not supported"),
    "not a mapping": ("optimizer='adam(lr=0.1', loss='mse'", "compile_params|optimizer"),
    "nothing": ("", "compile_params"),
}
FITTED = {
    "validation split": ("validation_split=0.1", "'validation_split', which is not supported"),
    "validation steps": ("validation_steps=1", "'validation_steps', which is not supported"),
    "sample weight": ("sample_weight=1", "'sample_weight', which is not supported"),
    "callbacks": ("callbacks=['x']", "'callbacks', which is not supported"),
    "zero batch": ("batch_size=0", "batch_size"),
    "unknown key": ("bach_size=8", "bach_size.*did you mean 'batch_size'"),
}
#: Found by building the model in a session of the run.
MODELS = {
    "outputs": (
        {"model": "sequential", "layers": [["Linear", 16, 5]]},
        r"gives \[rows, 5\].*needs \[rows, 3\]",
    ),
    "inputs": ({"model": "sequential", "layers": [["Linear", 9, 3]]}, r"cannot take the inputs img \[rows, 16\]"),
    "more dimensions": ({"model": "sequential", "input_shape": [5, 5], "layers": [["Flatten"]]},
                        r"input_shape \[5, 5\].*25 values a row.*\[16\]"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_argument_is_refused(bench: PsycopgDatabase, case: str) -> None:
    changed, words, code = WRONG[case]
    refused(bench, with_arguments(**changed), words, code)


@pytest.mark.parametrize("case", ROWS)
def test_unfit_rows_are_refused_when_fit_packs_them(bench: PsycopgDatabase, case: str) -> None:
    source, words, code = ROWS[case]
    refused(bench, with_arguments(source=source, options=json.dumps(COLUMNS)), words, code)


def test_a_missing_column_is_refused(bench: PsycopgDatabase) -> None:
    options = json.dumps({**COLUMNS, "independent_varname": "y"})
    refused(bench, with_arguments(source="numbers", options=options), "column.*'?y'?", "42704")


@pytest.fixture
def selection(bench: PsycopgDatabase) -> Iterator[PsycopgDatabase]:
    """Room for a selection table named `bad`."""
    yield bench
    bench.script(sql("drop table if exists bad, bad_arch, bad_summary"))


@pytest.mark.parametrize("case", COMPILED)
def test_wrong_compile_params_are_refused_before_packing(selection: PsycopgDatabase, case: str) -> None:
    compiled, words = COMPILED[case]
    runs.make_selection(selection, "bad", {1: (runs.MLP, ADAM, "batch_size=8")})
    text = compiled if isinstance(compiled, str) else json.dumps(compiled)
    selection.rows(sql("update bad set compile_params = %(text)s"), text=text)
    arguments = with_arguments(source="numbers", selection="bad", options=json.dumps(COLUMNS))
    refused(selection, arguments, words, "22023")


@pytest.mark.parametrize("case", FITTED)
def test_wrong_fit_params_are_refused_before_packing(selection: PsycopgDatabase, case: str) -> None:
    fitted, words = FITTED[case]
    runs.make_selection(selection, "bad", {1: (runs.MLP, ADAM, fitted)})
    arguments = with_arguments(source="numbers", selection="bad", options=json.dumps(COLUMNS))
    refused(selection, arguments, words, "22023")


def test_an_unknown_layer_is_refused_before_packing(selection: PsycopgDatabase) -> None:
    runs.make_selection(selection, "bad", {1: ({"model": "sequential", "layers": [["Liner", 2, 2]]}, ADAM, "")})
    arguments = with_arguments(source="numbers", selection="bad", options=json.dumps(COLUMNS))
    refused(selection, arguments, "'Liner': did you mean 'Linear'", "22023")


@pytest.mark.parametrize("case", MODELS)
def test_a_model_that_does_not_fit_the_data_is_refused(selection: PsycopgDatabase, case: str) -> None:
    arch, words = MODELS[case]
    runs.make_selection(selection, "bad", {1: (runs.MLP, ADAM, "batch_size=8"), 2: (arch, ADAM, "batch_size=8")})
    refused(selection, with_arguments(selection="bad"), words, "22023")


def test_a_model_that_does_not_fit_leaves_no_packed_copy(selection: PsycopgDatabase) -> None:
    runs.make_selection(selection, "bad", {1: ({"model": "sequential", "layers": [["Linear", 2, 7]]}, ADAM, "")})
    arguments = with_arguments(source="numbers", selection="bad", options=json.dumps(COLUMNS))
    refused(selection, arguments, r"gives \[rows, 7\].*needs \[rows, 2\]", "22023")


SELECTIONS = {
    "no configs": ("delete from bad", "bad has no configs", "22023"),
    "unknown model": ("update bad set model_id = 7", "model_id 7.*is not in|7", "42704"),
    "no model": ("update bad set model_id = null", "model_id", "22023"),
    "no summary": ("drop table bad_summary", "bad_summary", "42704"),
    "no architectures": ("drop table bad_arch", "bad_arch does not exist", "42704"),
    "no column": ("alter table bad drop column fit_params", "fit_params", "42704"),
    "a key twice": ("alter table bad drop constraint bad_pkey; insert into bad table bad", "mst_key", "22023"),
}


@pytest.mark.parametrize("case", SELECTIONS)
def test_a_selection_table_that_lacks_something_is_refused(selection: PsycopgDatabase, case: str) -> None:
    change, words, code = SELECTIONS[case]
    runs.make_selection(selection, "bad", {1: (runs.MLP, ADAM, "batch_size=8")})
    selection.script(sql(change))
    refused(selection, with_arguments(selection="bad"), words, code)


def test_rows_that_the_caller_locked_or_has_not_committed_are_refused_at_once(
    bench: PsycopgDatabase, pg_module_dsn: str
) -> None:
    """cases.md C48: the run's sessions would wait for the caller, who waits for them."""
    for begin, words in (
        ("begin; lock table packed in access exclusive mode", "locked by this very transaction"),
        ("begin; create table fresh as table packed; create table fresh_summary as table packed_summary",
         "created in this transaction, which has not committed"),
        ("begin isolation level repeatable read", "the transaction is repeatable read"),
        ("begin read only", "the transaction is read only"),
    ):
        with connect(pg_module_dsn) as session:
            session.script(sql(begin))
            with pytest.raises(psycopg2.Error, match=words):
                call(session, with_arguments(source="fresh" if "fresh" in begin else "packed"))
            session.script(sql("rollback"))


def test_a_table_that_another_session_locks_is_not_waited_for_without_end(
    bench: PsycopgDatabase, pg_module_dsn: str
) -> None:
    with connect(pg_module_dsn) as other:
        other.script(sql("begin; lock table numbers in access exclusive mode"))
        options = json.dumps({**COLUMNS, "lock_seconds": 0.2})
        with pytest.raises(psycopg2.Error, match="lock timeout") as info:
            call(bench, with_arguments(source="numbers", options=options))
        assert info.value.pgcode == "55P03"
        other.script(sql("rollback"))


def test_a_config_that_diverges_does_not_end_the_run(bench: PsycopgDatabase) -> None:
    """cases.md A18, with a worse rate. The other config finishes and is best; the bad one keeps its history."""
    bench.script(
        sql(
            "create table wild as select i as id, array[i, i * i]::float4[] as x, i % 2 as label"
            "  from generate_series(1, 200) i"
        )
    )
    sgd = {"optimizer": "sgd", "loss": "cross_entropy", "metrics": ["accuracy"]}
    fitted = "batch_size=32"
    runs.make_selection(
        bench, "wild_mst", {1: (runs.MLP, {**sgd, "lr": 1e38}, fitted), 2: (runs.MLP, {**ADAM, "lr": 1e-3}, fitted)}
    )
    row = runs.fit(bench, "wild", "wild_out", "wild_mst", 2, threads=1, segments=1, **COLUMNS)
    assert (row["status"], row["configs"], row["best_mst_key"]) == ("finished", 2, 2)
    info = {r["mst_key"]: r for r in bench.rows(sql("select * from wild_out_info"))}
    assert (info[1]["status"], info[2]["status"]) == ("diverged", "finished")
    assert "loss is not a number in epoch 1" in info[1]["error"]
    assert len(info[2]["training_loss"]) == 2
    hops = runs.hops(bench, row["run_id"])
    assert math.isfinite(hops[-1]["loss"])
    assert [h["mst_key"] for h in hops].count(1) == 1  # no hop after the one that diverged
    assert bench.rows(sql("select relname from pg_class where relname like 'state\\_%%'")) == []


def test_fewer_rows_than_a_batch_train(bench: PsycopgDatabase) -> None:
    """cases.md A01, with a boolean label; the copy that fit packed is used again."""
    bench.script(
        sql("create table a01 as select i as id, array[i, i + 1, i + 2] as x, i % 2 = 0 as label"
            "  from generate_series(1, 5) i")
    )
    configs = {key: (runs.MLP, {**ADAM, "lr": 0.01 * key}, "batch_size=256") for key in (1, 2)}
    runs.make_selection(bench, "a01_mst", configs)
    options = {**COLUMNS, "segments": 1, "threads": 1}
    row = runs.fit(bench, "a01", "a01_out", "a01_mst", 1, validation="a01", **options)
    assert row["status"] == "finished"
    assert row["best_mst_key"] in (1, 2)
    oid = bench.rows(sql("select 'a01_packed'::regclass::oid::bigint as oid"))
    assert [r["rows"] for r in runs.hops(bench, row["run_id"])] == [5, 5]
    assert [r["validation_rows"] for r in runs.hops(bench, row["run_id"])] == [5, 5]
    outputs = bench.rows(sql("select mst_key, octet_length(model_weights) as n from a01_out order by 1"))
    assert [r["mst_key"] for r in outputs] == [1, 2]
    assert oid == bench.rows(sql("select 'a01_packed'::regclass::oid::bigint as oid"))
    assert runs.helpers(bench) == {}
