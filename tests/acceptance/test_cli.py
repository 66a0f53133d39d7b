"""`cerebro-db` as a user runs it: processes of their own, their output, exit codes and Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Dict, List

import pytest

from cerebro_db import __version__
from cerebro_db.client import PsycopgDatabase
from cerebro_db.database import one
from tests.acceptance.shell import Shell
from tests.runs import ADAM, MLP, make_images, make_selection, no_helpers, pack, sql
from tests.support import wait_until

pytestmark = pytest.mark.slow

SELECTION = {key: (MLP, {**ADAM, "lr": lr}, "batch_size=16") for key, lr in ((1, 0.01), (2, 0.001))}
#: Hops of the run that is stopped by Ctrl-C: long enough to be stopped, short enough to be finished.
LONG_EPOCHS, LONG_HOPS = 100, 2 * 2 * 100


@pytest.fixture
def shell(pg_dsn: str, tmp_path: Path) -> Shell:
    return Shell(pg_dsn, tmp_path)


@pytest.fixture
def data(pg: PsycopgDatabase) -> PsycopgDatabase:
    """rows: 120 images, packed: the same over 2 segments, s: two configs."""
    make_images(pg, "rows", 120)
    pack(pg, "rows", "packed", segments=2)
    make_selection(pg, "s", SELECTION)
    return pg


def test_a_whole_job(shell: Shell, data: PsycopgDatabase, tmp_path: Path) -> None:
    done = shell("fit", "packed", "out", "s", "-n", "2", "--validation", "packed", "--name", "it's", "--echo")
    assert done.stdout.startswith("run 1 finished: 2 configs in ")
    assert "name := 'it''s');" in done.stderr
    assert "100.0 %  8 / 8 hops" in done.stderr
    assert "epoch 2/2  #2 " in done.stderr
    row = one(data, sql("select run_id, name, num_iterations from out_summary"))
    assert row == {"run_id": 1, "name": "it's", "num_iterations": 2}
    status = shell.json("status", "1")
    assert (status["status"], status["hops_done"], status["best_mst_key"] in (1, 2)) == ("finished", 8, True)
    assert [run["run_id"] for run in shell.json("status")] == [1]
    assert shell("status").stdout.splitlines()[1].split()[:4] == ["1", "it's", "finished", "8/8"]
    target = tmp_path / "cerebro-run-1.html"
    assert shell("report", "1").stdout.strip() == str(target)
    assert target.read_text("utf-8").startswith("<!doctype html>")
    assert shell.json("report", "1", "-o", "other.html") == {"run_id": 1, "path": str(tmp_path / "other.html")}


def test_fit_on_rows_that_are_not_packed(shell: Shell, data: PsycopgDatabase) -> None:
    options = {"dependent_varname": "label", "independent_varname": "img", "normalizing_const": 255, "segments": 2}
    row = shell.json("fit", "rows", "out", "s", "--options", json.dumps(options))
    assert (row["run_id"], row["status"], row["configs"]) == (1, "finished", 2)
    assert one(data, sql("select packed_table from out_summary")) == {"packed_table": "public.rows_packed"}


@pytest.mark.parametrize(("strategy", "number", "code"), [
    ("in_rdbms", signal.SIGINT, 130), ("hybrid", signal.SIGINT, 130), ("hybrid", signal.SIGTERM, 143),
])  # fmt: skip
def test_a_signal_then_resume(shell: Shell, data: PsycopgDatabase, strategy: str, number: int, code: int) -> None:
    process = shell.start("fit", "packed", "out", "s", "--iterations", str(LONG_EPOCHS), "--strategy", strategy)
    hops = sql("select count(*)::int as hops from cerebro.hop")
    wait_until(lambda: bool(one(data, hops)["hops"] > 3 or process.poll() is not None), 60, "training has begun")
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (code, "")
    no_helpers(data, 10)
    assert stderr.splitlines()[-1] == (
        "run 1 was cancelled; its finished hops are kept, go on with: cerebro-db resume 1"
    )
    before = shell.json("status", "1")
    assert (before["status"], 0 < before["hops_done"] < LONG_HOPS) == ("cancelled", True)
    assert one(data, sql("select to_regclass('out')::text as made")) == {"made": None}

    assert shell("resume", "1").stdout.startswith("run 1 finished: 2 configs in ")
    after = shell.json("status", "1")
    assert (after["status"], after["hops_done"]) == ("finished", LONG_HOPS)
    assert one(data, sql("select count(*)::int as models from out")) == {"models": 2}
    assert shell.error("resume", "1") == "cerebro-db: run 1 has finished; its models are in public.out"


def test_the_configuration_file(shell: Shell, data: PsycopgDatabase, tmp_path: Path) -> None:
    (tmp_path / "cerebro.toml").write_text("[fit]\nstrategy = 'hybrid'\nseed = 5\nthreads = 1\n", "utf-8")
    assert shell.json("fit", "packed", "out", "s", "--options", '{"seed": 6}')["status"] == "finished"
    given = sql("select strategy, options ->> 'seed' as seed, options ->> 'threads' as threads from out_summary")
    assert one(data, given) == {"strategy": "hybrid", "seed": "6", "threads": "1"}
    shell.json("fit", "packed", "other", "s", "--strategy", "in_rdbms")
    row = one(data, sql("select strategy, options ->> 'seed' as seed from other_summary"))
    assert row == {"strategy": "in_rdbms", "seed": "5"}


def test_cancel_from_another_shell(shell: Shell, data: PsycopgDatabase) -> None:
    words = ["fit", "packed", "out", "s", "--iterations", str(LONG_EPOCHS)]
    hops = sql("select count(*)::int as hops from cerebro.hop where run_id = %(run_id)s")
    for number, strategy in enumerate(("in_rdbms", "hybrid"), start=1):
        process = shell.start(*words, "--strategy", strategy)
        wait_until(lambda run_id=number: one(data, hops, run_id=run_id)["hops"] > 0, 60, "training has begun")
        assert shell("cancel", str(number)).stdout.startswith(f"run {number} is being cancelled")
        assert process.wait(10) == 130
        assert f"run {number} was cancelled; its finished hops are kept" in process.communicate()[1]
        assert shell.json("status", str(number))["status"] == "cancelled"
        assert shell.error("cancel", str(number)).startswith(f"cerebro-db: run {number} is cancelled, not running")


REFUSED: Dict[str, List[str]] = {
    "unknown data set 'mnist': did you mean 'fashion-mnist'?": ["load", "mnist"],
    "schema 'nope' does not exist": ["load", "flights", "--schema", "nope"],
    "run 9 does not exist": ["status", "9"],
    "run 9 does not exist or": ["resume", "9"],
    "run 9 does not exist or is": ["report", "9"],
    "folder /nope does not exist": ["report", "9", "--output", "/nope/x.html"],
    "source_table nope does not exist": ["fit", "nope", "out", "s"],
    "model_selection_table t does not exist": ["fit", "packed", "out", "t"],
    "--options is 'seed=1', expected a JSON object": ["fit", "packed", "out", "s", "--options", "seed=1"],
    "unknown option 'sed': did you mean 'seed'?": ["fit", "packed", "out", "s", "--options", '{"sed": 1}'],
    "unknown strategy 'in_rdms': did you mean 'in_rdbms'?": ["fit", "packed", "out", "s", "--strategy", "in_rdms"],
    "num_iterations is 0, expected 1 or more": ["fit", "packed", "out", "s", "-n", "0"],
}  # fmt: skip


def test_what_is_wrong_is_one_line(shell: Shell, data: PsycopgDatabase) -> None:
    told = {message: shell.error(*words) for message, words in REFUSED.items()}
    assert {message: line for message, line in told.items() if not line.startswith(f"cerebro-db: {message}")} == {}
    assert shell.json("status") == []


@pytest.mark.parametrize("words", [
    ["fit", "packed"], ["fit", "a", "b", "c", "-n", "x"], ["status", "x"], ["nosuch"], ["load"], ["status", "--jsn"],
])
def test_wrong_usage_exits_2(shell: Shell, words: List[str]) -> None:
    assert "Usage: " in shell(*words, code=2).stderr


def test_load_twice_says_so(shell: Shell) -> None:
    first = shell.json("load", "flights")
    assert [(table["table"], table["rows"], table["unlabelled"], table["created"]) for table in first] == [
        ("public.flights", 336_776, 9_430, True),
        ("public.flights_train", 303_099, 8_487, True),
        ("public.flights_test", 33_677, 943, True),
    ]
    assert "was there, reused" in shell("load", "flights").stdout


def test_version() -> None:
    words = [sys.executable, "-m", "cerebro_db.cli", "--version"]
    done = subprocess.run(words, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True)
    assert done.stdout == f"cerebro-db {__version__}\n"
