"""The Python API: fit and its kin, and their tables as pandas frames."""

from __future__ import annotations

from pathlib import Path

import psycopg2
import pytest
from sqlalchemy import create_engine

import cerebro_db
from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.database import one
from cerebro_db.errors import ExistsError, MissingError, UsageError
from tests.runs import ADAM, MLP, make_images, make_selection, pack, sql

SELECTION = {key: (MLP, {**ADAM, "lr": lr}, "batch_size=16") for key, lr in ((1, 0.0001), (2, 0.02))}


@pytest.fixture(scope="module")
def data(pg_module: PsycopgDatabase) -> PsycopgDatabase:
    make_images(pg_module, "pics", 120)
    pack(pg_module, "pics", "packed", segments=2)
    make_selection(pg_module, "s", SELECTION)
    return pg_module


@pytest.fixture(scope="module")
def run(data: PsycopgDatabase, pg_module_dsn: str) -> cerebro_db.Run:
    return cerebro_db.fit(
        pg_module_dsn, "packed", "Out", "s", 3, validation_table="packed", name="first", options={"threads": 1}
    )


def test_frames_of_a_run(run: cerebro_db.Run, data: PsycopgDatabase) -> None:
    assert run.run.loc[0, ["status", "name", "model_output_table"]].tolist() == ["finished", "first", "public.out"]
    assert run.progress.loc[0, ["hops_done", "hops_total"]].tolist() == [12, 12]
    assert run.hops.groupby("mst_key").size().to_dict() == {1: 6, 2: 6}
    assert run.hops["started_at"].is_monotonic_increasing
    assert run.metrics[["mst_key", "epoch"]].values.tolist() == [[k, e] for k in (1, 2) for e in (1, 2, 3)]
    assert run.summary.loc[0, "packed_table"] == "public.packed"
    board = run.leaderboard
    assert board["mst_key"].tolist() == [2, 1]
    assert board["validation_metrics_final"].is_monotonic_decreasing
    weights = one(data, sql("select model_weights from out where mst_key = 1"))["model_weights"]
    assert run.info.set_index("mst_key").loc[1, "model_size"] == len(weights) / 1024


def test_find_status_and_report(run: cerebro_db.Run, pg_module_dsn: str, tmp_path: Path) -> None:
    assert cerebro_db.find_run(pg_module_dsn, run.run_id) == run
    assert run.run_id in cerebro_db.status(pg_module_dsn)["run_id"].tolist()
    page = run.report(tmp_path / "run.html")
    assert page.read_text("utf-8").startswith("<!doctype html>")


def test_evaluate_and_predict_agree(run: cerebro_db.Run, data: PsycopgDatabase, pg_module_dsn: str) -> None:
    row = cerebro_db.evaluate(pg_module_dsn, "out", "packed", "evaluated").iloc[0]
    assert (row["mst_key"], row["rows"]) == (2, 120)
    assert row["metric"] == run.leaderboard.loc[0, "validation_metrics_final"]
    predicted = cerebro_db.predict(pg_module_dsn, "out", "pics", "id", "predicted", pred_type="response")
    labels = {row["id"]: row["label"] for row in data.rows(sql("select id, label from pics"))}
    hits = (predicted["class_value"] == predicted["id"].map(labels)).mean()
    assert hits == pytest.approx(row["metric"], abs=1e-9)


def test_an_engine_and_a_connection(data: PsycopgDatabase, pg_module_dsn: str) -> None:
    engine = create_engine("postgresql+psycopg2://", creator=lambda: connect(pg_module_dsn).connection)
    assert cerebro_db.fit(engine, "packed", "by_engine", "s").summary.loc[0, "num_iterations"] == 1
    plain = create_engine("postgresql+psycopg2://", creator=lambda: psycopg2.connect(pg_module_dsn))
    with plain.connect() as connection:
        made = cerebro_db.fit(connection, "packed", "undone", "s")
        assert made.run.loc[0, "status"] == "finished"
        connection.rollback()
    assert one(data, sql("select to_regclass('undone')::text as made")) == {"made": None}
    # The run itself was committed by its own sessions: its tables can still be had.
    assert cerebro_db.status(plain, made.run_id).loc[0, "status"] == "trained"
    again = cerebro_db.resume(plain, made.run_id)
    assert (again.run_id, len(again.info)) == (made.run_id, 2)


def test_errors_are_the_classes_of_the_package(data: PsycopgDatabase, pg_module_dsn: str) -> None:
    with pytest.raises(MissingError, match="^source_table nope does not exist"):
        cerebro_db.fit(pg_module_dsn, "nope", "x", "s")
    with pytest.raises(UsageError, match="^unknown option 'sed': did you mean 'seed'"):
        cerebro_db.fit(pg_module_dsn, "packed", "x", "s", options={"sed": 1})
    with pytest.raises(UsageError, match="^unknown argument 'validation': did you mean 'validation_table'"):
        cerebro_db.fit(pg_module_dsn, "packed", "x", "s", validation="packed")
    with pytest.raises(UsageError, match="^unknown argument 'mst': did you mean 'mst_key'"):
        cerebro_db.predict(pg_module_dsn, "out", "pics", "id", "x", mst=1)
    with pytest.raises(MissingError, match="^run 999 does not exist"):
        cerebro_db.find_run(pg_module_dsn, 999)
    with pytest.raises(ExistsError, match="^output_table public.pics already exists"):
        cerebro_db.evaluate(pg_module_dsn, "out", "packed", "pics")
