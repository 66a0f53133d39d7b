"""A dump and restore in the middle of things: what must be there afterwards, and go on."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import List

from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.install import install
from tests import runs
from tests.runs import ADAM, MLP, Running, sql
from tests.support import wait_until

#: Enough hops to be in the middle of a run however late it is ended: 2 x 30 x 2.
CONFIGS: runs.Configs = {1: (MLP, ADAM, "batch_size=8"), 2: (MLP, {**ADAM, "lr": 0.001}, "batch_size=8")}
EPOCHS = 30
SEGMENTS = 2


def survives(source: str, target: str, programs: Path, folder: Path, by_extension: bool) -> None:
    """Train, break a run off, dump `source` into `target`, and go on there."""
    _create(source, by_extension)
    with connect(source) as database:
        runs.make_images(database, "images", 200)
        runs.pack(database, "images", "packed", segments=SEGMENTS)
        runs.make_selection(database, "two", CONFIGS)
        database.rows(sql("select register_factory('torchvision.models:resnet18')"))
        whole = runs.fit(database, "packed", "whole", "two", EPOCHS, threads=1, seed=3)
        run_id = _break_off(source, database)
        assert run_id == whole["run_id"] + 1
        # Greenplum lets a session that is ended write down that it was.
        assert runs.status(database, run_id) in ("interrupted", "cancelled")
        before = _facts(database)
    _restore(source, target, programs, folder)
    if not by_extension:  # what a database sets is not in its dump
        _create(target, by_extension)
    with connect(target) as database:
        assert _facts(database) == before
        assert runs.resume(database, run_id)["status"] == "finished"
        for mst_key in CONFIGS:
            assert runs.weights(database, "broken", mst_key) == runs.weights(database, "whole", mst_key)
        database.rows(sql("select madlib_mop_predict('whole', 'images', 'id', 'img', 'predicted', 'response')"))
        assert database.rows(sql("select count(*)::int as n from predicted")) == [{"n": 200}]
        assert runs.fit(database, "packed", "next", "two", 1, threads=1)["run_id"] == run_id + 1


def _create(dsn: str, by_extension: bool) -> None:
    with connect(dsn) as database:
        if by_extension:  # 9.4 knows no cascade
            database.script(sql("create extension if not exists plpython3u"))
            database.script(sql("create extension cerebro"))
        else:
            install(database)


def _break_off(dsn: str, database: PsycopgDatabase) -> int:
    """A run whose coordinator is killed in the middle of it."""
    running, run_id = runs.start_fit(dsn, database, "packed", "broken", "two", EPOCHS, hops=5, threads=1, seed=3)
    _end_session(database, running)
    wait_until(lambda: runs.status(database, run_id) != "running", 30, "the run does not run")
    runs.no_helpers(database)
    return run_id


def _end_session(database: PsycopgDatabase, running: Running) -> None:
    database.rows(sql("select pg_terminate_backend(%(pid)s::int)"), pid=running.pid)
    running.failed()
    running.close()


def _facts(database: PsycopgDatabase) -> List[object]:
    """What a user sees of all runs."""
    views = ("run", "config", "segment", "hop", "metric")
    rows = [database.rows(sql(f"select * from cerebro.{view} order by 1, 2, 3, 4")) for view in views]
    return [*rows, database.rows(sql("select * from cerebro_private.factories() as f"))]


def _restore(source: str, target: str, programs: Path, folder: Path) -> None:
    """What the server's own pg_dump tells of one database, in another."""
    file = folder / "dump"
    _run(programs, "pg_dump", "-Fc", "-f", str(file), source)
    _run(programs, "pg_restore", "--exit-on-error", "-d", target, str(file))


def _run(programs: Path, name: str, *words: str) -> None:
    environment = {**os.environ, "LD_LIBRARY_PATH": str(programs.parent / "lib")}
    done = subprocess.run(
        [str(programs / name), *words], env=environment, capture_output=True, text=True, check=False
    )
    errors = [line for line in done.stderr.splitlines() if "WARNING" not in line]  # Greenplum's of foreign keys
    assert (done.returncode, errors) == (0, [])
