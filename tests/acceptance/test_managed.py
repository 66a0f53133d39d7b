"""`cerebro-db` against a server without plpython3u: install, pack, configs, evaluate, predict, status, check."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Iterator

import pytest

from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.database import one
from cerebro_db.selection import read_selection
from cerebro_db.sqltext import Fragment, ident
from tests.acceptance.shell import Shell
from tests.database.test_managed import put_model
from tests.managed import LANGUAGES, Managed
from tests.runs import make_images, sql
from tests.support import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.postgresql("a server of its own")]

TOML = """
search_type = "random"
num_configs = 5
random_state = 1

[[architectures]]
name = "small"
model = "mlp"
hidden = [8]

[[architectures]]
model = "mlp"
hidden = [16]

[compile_params_grid]
loss = ["cross_entropy"]
metrics = ["accuracy"]
[[compile_params_grid.optimizer_params_list]]
optimizer = ["adam"]
lr = [0.0001, 0.1, "log"]

[fit_params_grid]
batch_size = [16, 32]
"""


@pytest.fixture
def shell(managed: Managed, tmp_path: Path) -> Shell:
    return Shell(managed.user, tmp_path)


@pytest.fixture
def user(managed: Managed, tmp_path: Path) -> Iterator[PsycopgDatabase]:
    """rows: 120 images of 3 classes; the administrator has installed by the command."""
    done = Shell(managed.admin, tmp_path)("install")
    assert done.stdout == f"cerebro-db 0.1.0 is installed in database {managed.admin.split('dbname=')[1].split()[0]}\n"
    (line,) = done.stderr.splitlines()
    assert line.startswith("installed without functions in PL/Python, because this role is no superuser: ")
    with connect(managed.admin) as admin:
        admin.script(Fragment(f"grant cerebro_user to {ident(managed.user_name)}"))
        admin.script(Fragment(f"grant create on schema public to {ident(managed.user_name)}"))
    with connect(managed.user) as session:
        make_images(session, "rows", 120)
        yield session


def test_a_job_around_training(shell: Shell, user: PsycopgDatabase, tmp_path: Path) -> None:
    words = ["-y", "label", "-x", "img", "--normalizing-const", "255", "--segments", "2"]
    packed = shell("pack", "rows", "packed", *words)
    assert packed.stdout == "public.packed: 120 rows in 2 buffers on 2 segments\n"
    like = shell.json("pack", "rows", "tested", "--training", "packed", "--buffer-size", "20")
    assert (like["rows"], like["segments"], like["buffer_size"], like["buffers"]) == (120, 2, 20, 6)
    (tmp_path / "grid.toml").write_text(TOML, "utf-8")
    made = shell.json("configs", "grid.toml", "configs")
    assert made == {"selection_table": "public.configs", "arch_table": "public.configs_arch", "models": 2, "configs": 5}
    assert len(read_selection(user, "configs")) == 5
    put_model(user, "packed", "models")
    row = shell.json("evaluate", "models", "tested", "ev")
    assert (row["rows"], row["mst_key"], row["loss_type"]) == (120, 1, "cross_entropy")
    assert "accuracy" in shell("evaluate", "models", "packed", "ev2").stdout
    assert shell("predict", "models", "rows", "id", "guess", "--type", "response").stdout == (
        "guess: predictions of 120 rows\n"
    )
    both = sql("select avg((g.class_value = r.label)::int)::float8 as a from guess g join rows r using (id)")
    right = one(user, both)
    assert right["a"] == pytest.approx(row["metric"])
    assert shell.json("status") == []


def test_lists_and_json(shell: Shell, user: PsycopgDatabase, tmp_path: Path) -> None:
    wanted = {
        "architectures": [{"model": "mlp", "hidden": [4], "description": "tiny"}],
        "compile_params_list": ["loss='mse', optimizer='sgd(lr=0.1)'", {"loss": "mse", "optimizer": "adam"}],
        "fit_params_list": [{"batch_size": 8}],
    }  # fmt: skip
    (tmp_path / "lists.json").write_text(json.dumps(wanted), "utf-8")
    assert shell("configs", "lists.json", "c", "--arch-table", "a").stdout == (
        "public.c: 2 configs of 1 models in public.a\n"
    )
    assert one(user, sql("select description from a")) == {"description": "tiny"}


def test_check_says_what_is_missing(shell: Shell, user: PsycopgDatabase) -> None:
    rows = {row["item"]: row for row in shell.json("check")}
    assert rows["plpython3u"]["ok"] is True
    assert "in_rdbms, hybrid and the madlib_mop functions of SQL do not" in rows["plpython3u"]["value"]
    assert rows["plpython3u"]["remedy"].startswith("for the others have plpython3u installed on the server, and run ")
    assert rows["roles"]["value"].endswith(" has cerebro_user")
    assert {"torch", "numpy", "safetensors", "psycopg2", "sessions", "server"} <= set(rows)


def test_what_is_wrong_is_one_line_and_leaves_nothing(shell: Shell, user: PsycopgDatabase, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"architectures": [{"model": "mlp"}], "compile_grid": {}}', "utf-8")
    grid = {
        "compile_params_grid": {"loss": ["mse"], "optimizer_params_list": [{"optimizer": ["adm"]}]},
        "fit_params_grid": {"batch_size": [8]},
    }
    (tmp_path / "adm.json").write_text(json.dumps({"architectures": [{"model": "mlp"}], **grid}), "utf-8")
    (tmp_path / "not.toml").write_text("a = ", "utf-8")
    refused = {
        "--label is missing": ["pack", "rows", "p"],
        "--seed is given, but rows packed like": ["pack", "rows", "p", "--training", "x", "--seed", "1"],
        "feature column 'imgs' does not exist in table public.rows (did you mean 'img'?)":
            ["pack", "rows", "p", "-y", "label", "-x", "imgs"],
        "unknown value of the option nulls 'dorp'": ["pack", "rows", "p", "-y", "label", "--nulls", "dorp"],
        "unknown key of bad.json 'compile_grid': did you mean": ["configs", "bad.json", "c"],
        "unknown optimizer 'adm'": ["configs", "adm.json", "c"],
        "file not.toml is not valid": ["configs", "not.toml", "c"],
        "model_table m does not exist": ["predict", "m", "rows", "id", "out"],
        "test_table p does not exist": ["evaluate", "m", "p", "out"],
    }  # fmt: skip
    before = tables(user)
    told = {message: shell.error(*words) for message, words in refused.items()}
    assert {message: line for message, line in told.items() if message not in line} == {}
    assert tables(user) == before


def test_ctrl_c_ends_a_packing_and_leaves_nothing(shell: Shell, user: PsycopgDatabase) -> None:
    user.script(sql("create view slow as select r.*, pg_sleep(1)::text as s from rows r"))
    before = tables(user)
    process = shell.start("pack", "slow", "p", "-y", "label", "-x", "img, s")
    busy = sql("select count(*)::int as n from pg_stat_activity"
               " where query like '%%\"slow\" as source%%'"
               " and state = 'active' and pid <> pg_backend_pid()")
    wait_until(lambda: bool(one(user, busy)["n"] or process.poll() is not None), 60, "the packing has begun")
    process.send_signal(signal.SIGINT)
    stdout, _ = process.communicate(timeout=30)
    assert (process.returncode, stdout) == (130, "")
    assert tables(user) == before


def tables(database: PsycopgDatabase) -> int:
    counted = sql("select count(*)::int as n from pg_class where relnamespace = 'public'::regnamespace")
    return int(one(database, counted)["n"])


@pytest.fixture
def configs(shell: Shell, user: PsycopgDatabase, tmp_path: Path) -> Shell:
    """packed: the rows over 2 segments; configs: five of them."""
    words = ["-y", "label", "-x", "img", "--normalizing-const", "255", "--segments", "2"]
    shell("pack", "rows", "packed", *words)
    (tmp_path / "grid.toml").write_text(TOML, "utf-8")
    shell("configs", "grid.toml", "configs")
    return shell


def test_the_whole_job_by_streaming(configs: Shell, user: PsycopgDatabase) -> None:
    shell = configs
    words = ["-n", "2", "--validation", "packed", "--strategy", "streaming"]
    row = shell.json("fit", "packed", "models", "configs", *words)
    assert (row["status"], row["configs"]) == ("finished", 5)
    status = shell.json("status", str(row["run_id"]))
    assert (status["status"], status["hops_done"], status["hops_total"]) == ("finished", 20, 20)
    best = shell.json("evaluate", "models", "packed", "ev")
    assert (best["mst_key"], best["rows"]) == (row["best_mst_key"], 120)
    assert best["metric"] == pytest.approx(row["best_metric"], abs=1e-6)
    assert shell.json("predict", "models", "rows", "id", "guess", "--type", "response")["rows"] == 120
    both = sql("select avg((g.class_value = r.label)::int)::float8 as a from guess g join rows r using (id)")
    assert one(user, both)["a"] == pytest.approx(best["metric"])
    assert one(user, LANGUAGES) == {"functions": 0}


def test_a_killed_coordinator_is_resumed_to_the_same_bits(configs: Shell, user: PsycopgDatabase) -> None:
    shell = configs
    words = ["packed", "{}", "configs", "-n", "30", "--strategy", "streaming"]
    process = shell.start("fit", *[word.format("killed") for word in words])
    hops = sql("select count(*)::int as n from cerebro.hop")
    wait_until(lambda: bool(one(user, hops)["n"] > 3 or process.poll() is not None), 120, "training has begun")
    process.kill()
    process.communicate(timeout=30)
    wait_until(lambda: shell.json("status", "1")["status"] == "interrupted", 60, "the run shows as interrupted")
    assert shell.json("resume", "1")["status"] == "finished"
    shell("fit", *[word.format("whole") for word in words])
    same = sql("select count(*)::int as n from killed k join whole w using (mst_key)"
               " where k.model_weights = w.model_weights and k.optimizer_state = w.optimizer_state")
    assert one(user, same) == {"n": 5}


def test_strategies_in_the_server_say_what_is_missing(configs: Shell, user: PsycopgDatabase) -> None:
    before = tables(user)
    for strategy in ("in_rdbms", "hybrid"):
        line = configs.error("fit", "packed", "models", "configs", "--strategy", strategy)
        assert "plpython3u" in line, line
    assert tables(user) == before
