"""The report read from the views of a real server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable

import pytest

from cerebro_db.client import PsycopgDatabase
from cerebro_db.errors import MissingError
from cerebro_db.report import read_run, write_report
from cerebro_db.report.record import PARTS, Record
from cerebro_db.sqltext import Fragment
from tests.unit.simulated import simulated

INSERT_RUN = Fragment("""
    insert into cerebro_private.run
           ( run_id, owner, name, description, source_table, packed_table, validation_table
           , model_output_table, model_selection_table, num_iterations, strategy, ranking
           , plan, status, started_at, trained_at)
    values ( %(run_id)s, coalesce(%(owner)s::name, current_user), %(name)s, %(description)s, %(source_table)s
           , 'packed', %(validation_table)s, %(model_output_table)s, 'mst', %(num_iterations)s, %(strategy)s
           , %(ranking)s, '{}', case %(status)s when 'finished' then 'trained' else %(status)s end
           , to_timestamp(%(started_at)s), to_timestamp(%(ended_at)s::float8))
""")
DELIVER = Fragment("insert into cerebro_private.delivery (run_id) values (%(run_id)s)")
INSERT_CONFIG = Fragment("""
    insert into cerebro_private.config
           (run_id, mst_key, model_id, compile_params, fit_params, model_arch, status)
    values (%(run_id)s, %(mst_key)s, %(model_id)s, %(compile)s, %(fit)s, %(arch)s::json, %(status)s)
""")
INSERT_SEGMENT = Fragment("""
    insert into cerebro_private.segment (run_id, segment_id, dist_key, row_count)
    values (%(run_id)s, %(segment_id)s, %(segment_id)s, 100)
""")
INSERT_HOP = Fragment("""
    insert into cerebro_private.hop
           ( run_id, mst_key, epoch, segment_id, rows, loss, metric, validation_loss, validation_metric
           , train_seconds, validate_seconds, data_seconds, hop_seconds, start_seconds, state_bytes
           , session_pid, started_at, finished_at)
    values ( %(run_id)s, %(mst_key)s, %(epoch)s, %(segment_id)s, %(rows)s, %(training_loss)s
           , %(training_metric)s, %(validation_loss)s, %(validation_metric)s, %(train)s, %(validate)s
           , %(data)s, %(hop)s, %(start)s, 5000, %(pid)s
           , to_timestamp(%(origin)s + %(started)s), to_timestamp(%(origin)s + %(finished)s))
""")


def store(pg: PsycopgDatabase, record: Record, owner: str | None = None) -> None:
    """Put a record into the catalog as a run would."""
    run = record.run
    pg.rows(INSERT_RUN, **{**vars(run), "owner": owner})
    if run.status == "finished":
        pg.rows(DELIVER, run_id=run.run_id)
    for config in record.configs:
        arguments = f"lr={config.params['lr']}, weight_decay={config.params['weight_decay']}"
        pg.rows(
            INSERT_CONFIG, run_id=run.run_id, mst_key=config.mst_key, model_id=config.model_id,
            compile=f"loss='cross_entropy', optimizer='adam({arguments})', metrics=['accuracy']",
            fit=f"batch_size={config.params['batch_size']}", arch=json.dumps({"model": config.model}),
            status=config.status,
        )  # fmt: skip
    for segment in {hop.segment_id for hop in record.hops}:
        pg.rows(INSERT_SEGMENT, run_id=run.run_id, segment_id=segment)
    results = {(epoch.mst_key, epoch.epoch): vars(epoch) for epoch in record.epochs}
    for hop in record.hops:
        pg.rows(
            INSERT_HOP, run_id=run.run_id, origin=run.started_at, segment_id=hop.segment_id, rows=hop.rows,
            pid=hop.session_pid, started=hop.started, finished=hop.finished,
            **results[hop.mst_key, hop.epoch], **dict(zip(PARTS, hop.parts)),
        )  # fmt: skip


def test_a_run_is_read_as_it_was_stored(pg: PsycopgDatabase) -> None:
    stored = simulated(4, 2, 2)
    store(pg, stored)
    found = read_run(pg, stored.run.run_id)
    assert (found.run.name, found.run.status, found.run.hops_total) == ("fashion-mnist demo", "finished", 16)
    assert found.run.seconds == pytest.approx(stored.run.seconds, abs=1e-5)
    assert [(config.mst_key, config.model, config.params) for config in found.configs] == [
        (config.mst_key, config.model, config.params) for config in stored.configs
    ]
    assert {config.state_bytes for config in found.configs} == {5000}
    assert [(hop.mst_key, hop.epoch, hop.segment_id, hop.rows) for hop in found.hops] == [
        (hop.mst_key, hop.epoch, hop.segment_id, hop.rows)
        for hop in sorted(stored.hops, key=lambda hop: (hop.started, hop.mst_key))
    ]
    assert found.hops[0].parts == pytest.approx(stored.hops[0].parts)
    assert found.hops[0].started == pytest.approx(stored.hops[0].started, abs=1e-5)
    for mine, theirs in zip(found.epochs, stored.epochs):
        assert list(vars(mine).values()) == pytest.approx(list(vars(theirs).values()))


def test_the_page_is_written(pg: PsycopgDatabase, tmp_path: Path) -> None:
    store(pg, simulated(4, 2, 2))
    path = write_report(pg, 7, tmp_path / "run.html")
    assert path == tmp_path / "run.html"
    page = path.read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert "fashion-mnist demo" in page


def test_a_run_before_its_first_hop(pg: PsycopgDatabase, tmp_path: Path) -> None:
    made = simulated(2, 2, 1)
    store(pg, Record(made.run, made.configs))
    found = read_run(pg, 7)
    assert (found.hops, found.epochs, found.run.hops_total) == ((), (), 0)
    assert "No hop has finished yet." in write_report(pg, 7, tmp_path / "run.html").read_text("utf-8")


def test_an_interrupted_run_ends_with_its_last_hop(pg: PsycopgDatabase) -> None:
    made = simulated(2, 2, 1, status="running", ended_at=None)
    store(pg, made)
    run = read_run(pg, 7).run
    assert run.status == "interrupted"
    assert run.seconds == pytest.approx(max(hop.finished for hop in made.hops), abs=1e-5)


def test_an_unknown_run(pg: PsycopgDatabase, tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="run 99 does not exist"):
        write_report(pg, 99, tmp_path / "run.html")
    assert list(tmp_path.iterdir()) == []


def test_another_roles_run_does_not_exist(pg: PsycopgDatabase, role: Callable[..., Any]) -> None:
    mine, other = role("mine"), role("other")
    store(pg, simulated(2, 2, 1), owner=mine.name)
    assert read_run(mine(), 7).run.name == "fashion-mnist demo"
    with pytest.raises(MissingError, match="run 7"):
        read_run(other(), 7)
