"""Questions asked as `make experiments` asks them: at size tiny, with the server of the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import List

import pytest

from cerebro_db.client import PsycopgDatabase, make_dsn
from cerebro_db.sqltext import Fragment
from experiments import machine
from experiments.place import SCHEMA, server_pid
from experiments.results import Codec, Outcome, Sample, read

ROOT = Path(__file__).resolve().parents[2]
_SCHEMAS = Fragment("select nspname as name from pg_namespace where nspname = %(name)s")
_PARENT = Fragment("select pg_read_file('postmaster.pid', 0, 12) as pid")


def ask(dsn: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "experiments", "--size", "tiny", "--dsn", dsn, "--results", str(folder), *words]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
@pytest.mark.postgresql("the server's first process is a parent of its sessions")
def test_questions_leave_files_and_a_page(pg: PsycopgDatabase, pg_dsn: str, tmp_path: Path) -> None:
    done = ask(pg_dsn, tmp_path, "rows", "state")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = read(tmp_path / "rows.csv", Sample)
    assert [(each.rows, each.configs, each.segments) for each in rows] == [(200, 8, 2), (400, 8, 2)]
    for each in rows:
        assert each.rows_trained == each.rows * each.configs
        assert each.hops == each.configs * each.segments
        assert 0.0 < (each.bound or 0.0) <= (each.makespan or 0.0) < each.seconds
        parts = [each.train, each.validate, each.data, each.hop, each.start, each.idle]
        assert sum(part or 0.0 for part in parts) == pytest.approx(each.workers * each.seconds, rel=1e-3)
        assert (each.cpu_seconds or 0.0) > 0.0
        assert (each.memory_mb or 0.0) > 50.0
        assert (each.network_mb or 0.0) >= 0.0
    states = read(tmp_path / "state.csv", Sample)
    assert [round((each.hopped_mb or 0.0) / each.hops) for each in states] == [1]
    assert {each.codec for each in read(tmp_path / "state_codecs.csv", Codec)} >= {"zlib 1"}
    outcomes = read(tmp_path / "outcomes.csv", Outcome)
    assert [(each.question, each.outcome) for each in outcomes] == [("rows", "measured"), ("state", "measured")]
    assert machine.read(tmp_path)["cores"] >= 1
    assert str(tmp_path / "report.html") in done.stdout
    assert "time over rows" in (tmp_path / "report.html").read_text("utf-8")
    assert pg.rows(_SCHEMAS, name=SCHEMA) == []


@pytest.mark.postgresql("the server's first process is a parent of its sessions")
def test_the_first_process_of_the_server_is_found(pg: PsycopgDatabase, pg_dsn: str) -> None:
    assert server_pid(pg_dsn) == int(pg.rows(_PARENT)[0]["pid"].splitlines()[0])


@pytest.mark.parametrize(
    ("words", "said"),
    [(["rwos"], "question 'rwos'"), (["--size", "smal"], "size 'smal'")],
)
def test_names_that_there_are_not_are_refused_before_a_server_is_asked(
    tmp_path: Path, words: List[str], said: str
) -> None:
    done = ask(make_dsn(host="/nowhere", dbname="none"), tmp_path / "never", *words)
    assert done.returncode == 2
    assert said in done.stdout
    assert not (tmp_path / "never").exists()
