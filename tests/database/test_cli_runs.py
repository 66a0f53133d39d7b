"""The commands about data and runs, against a real server; training is played by a stand-in."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any, List, Optional

import pytest
from typer.testing import CliRunner

from cerebro_db import calls
from cerebro_db.cli import app, watch
from cerebro_db.cli import runs as commands
from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.errors import CancelledError
from cerebro_db.options import Options
from cerebro_db.sqltext import Fragment
from tests.database.test_report import store
from tests.unit.simulated import simulated

#: Stands for the call of madlib_mop_fit: it lasts as long as the test holds the lock.
HELD = Fragment("select 5 as run_id from (select pg_advisory_xact_lock(1) offset 0) held")
COORDINATE = Fragment("update cerebro_private.run set coordinator_pid = %(pid)s, status = 'running'")


def run(dsn: str, *arguments: str) -> Any:
    return CliRunner().invoke(app, [*arguments, "--dsn", dsn])


def test_status_of_no_run(pg_dsn: str) -> None:
    assert run(pg_dsn, "status").stdout == "no runs yet\n"
    assert json.loads(run(pg_dsn, "status", "--json").stdout) == []


def test_status_of_runs(pg: PsycopgDatabase, pg_dsn: str) -> None:
    store(pg, simulated(4, 2, 2))
    lines = run(pg_dsn, "status").stdout.splitlines()
    assert lines[1].split()[:6] == ["7", "fashion-mnist", "demo", "finished", "16/16", "100"]
    (row,) = json.loads(run(pg_dsn, "status", "--json").stdout)
    assert (row["run_id"], row["status"], row["hops_done"], row["percent"]) == (7, "finished", 16, 100.0)
    one_run = run(pg_dsn, "status", "7").stdout
    assert one_run.splitlines()[0].split()[:2] == ["run", "7"]
    assert f"#{row['best_mst_key']}" in next(line for line in one_run.splitlines() if line.startswith(">"))
    assert json.loads(run(pg_dsn, "status", "7", "--json").stdout)["run_id"] == 7


def test_the_configuration_file_names_the_server(pg: PsycopgDatabase, pg_dsn: str, tmp_path: Path) -> None:
    store(pg, simulated(2, 2, 1))
    config = tmp_path / "c.toml"
    config.write_text(f"dsn = '{pg_dsn}'\n", "utf-8")
    result = CliRunner().invoke(app, ["--config", str(config), "status", "--json"])
    assert [row["run_id"] for row in json.loads(result.stdout)] == [7]
    config.write_text("[fit]\nsed = 1\n", "utf-8")
    result = CliRunner().invoke(app, ["--config", str(config), "fit", "a", "b", "c"])
    assert result.exit_code == 1
    assert result.stderr == f"cerebro-db: unknown key of [fit] in {config} 'sed': did you mean 'seed'? known are " + (
        ", ".join(sorted(item.name for item in fields(Options))) + "\n"
    )


def test_an_unknown_run_is_one_line(pg_dsn: str, tmp_path: Path) -> None:
    for command in (["status", "5"], ["report", "5", "--output", str(tmp_path / "x.html")]):
        result = run(pg_dsn, *command)
        assert result.exit_code == 1
        assert result.stderr.startswith("cerebro-db: run 5 does not exist")


def test_a_database_without_cerebro(empty_dsn: str) -> None:
    result = run(empty_dsn, "status")
    assert result.exit_code == 1
    assert "is not installed in database" in result.stderr
    assert "cerebro-db install" in result.stderr


def test_report_writes_where_it_is_asked(pg: PsycopgDatabase, pg_dsn: str, tmp_path: Path) -> None:
    store(pg, simulated(2, 2, 1))
    target = tmp_path / "page.html"
    assert run(pg_dsn, "report", "7", "--output", str(target)).stdout.strip() == str(target)
    assert target.read_text("utf-8").startswith("<!doctype html>")
    assert json.loads(run(pg_dsn, "report", "7", "-o", str(target), "--json").stdout) == {
        "run_id": 7, "path": str(target),
    }  # fmt: skip


def test_fit_names_the_error_of_the_server(pg_dsn: str) -> None:
    result = run(pg_dsn, "fit", "no_such_table", "out", "no_such_selection")
    assert result.exit_code == 1
    assert "no_such" in result.stderr.splitlines()[-1]
    assert result.stdout == ""


class Recorder:
    """A display that remembers, and does something at the first snapshot of the run."""

    def __init__(self, then: Any) -> None:
        self.shown: List[Optional[watch.Snapshot]] = []
        self.closed = False
        self._then = then

    def show(self, snapshot: Optional[watch.Snapshot]) -> None:
        self.shown.append(snapshot)
        if snapshot is not None and self._then is not None:
            then, self._then = self._then, None
            then()

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def held(pg: PsycopgDatabase, pg_dsn: str) -> Any:
    """Run 7 on its way in a session that waits for a lock: (watch, release)."""
    store(pg, simulated(2, 2, 1))
    blocker, worker = connect(pg_dsn), connect(pg_dsn)
    blocker.script(Fragment("select pg_advisory_lock(1)"))
    pid = worker.connection.info.backend_pid
    pg.script(Fragment("delete from cerebro_private.delivery"))
    pg.rows(COORDINATE, pid=pid)
    worker.script(Fragment("select pg_advisory_lock(cerebro_private.lock_class(), 7)"))
    statement = calls.Statement(worker, HELD, {})
    yield watch.Watch(pg, statement), lambda: blocker.script(Fragment("select pg_advisory_unlock(1)"))
    blocker.close()
    worker.close()


def test_watch_finds_the_run_of_its_session(held: Any) -> None:
    watching, release = held
    display = Recorder(then=release)
    assert watching.follow(display, poll_seconds=0.01)["run_id"] == 5
    assert watching.run_id == 7
    assert display.closed
    assert display.shown[0] is not None
    assert display.shown[0].progress["hops_done"] == 4


def interrupt() -> None:
    raise KeyboardInterrupt


def test_ctrl_c_cancels_the_statement(held: Any) -> None:
    watching, _ = held
    display = Recorder(then=interrupt)
    with pytest.raises(KeyboardInterrupt):
        watching.follow(display, poll_seconds=0.01)
    assert display.closed
    with pytest.raises(CancelledError, match="canceling statement"):
        watching._call.result()


def test_a_watcher_without_a_session_lets_the_run_go_on(held: Any, pg: PsycopgDatabase) -> None:
    watching, release = held

    def lose_session() -> None:
        release()
        pg.close()

    display = Recorder(then=lose_session)
    assert watching.follow(display, poll_seconds=0.01)["run_id"] == 5


def test_fit_exits_130_and_says_how_to_go_on(pg: PsycopgDatabase, pg_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: watch.Watch, display: watch.Display) -> None:
        self.run_id = 7
        raise KeyboardInterrupt

    monkeypatch.setattr(commands.Watch, "follow", interrupted)
    store(pg, simulated(2, 2, 1))
    result = run(pg_dsn, "resume", "7")
    assert result.exit_code == 130
    assert "go on with: cerebro-db resume 7" in result.stderr
