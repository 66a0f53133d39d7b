"""The embedded server as a user meets it: `cerebro-db up`, `dsn`, `check`, `install`, `down`."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, Iterator, List

import pytest

from cerebro_db import __version__
from cerebro_db.client import connect
from cerebro_db.cluster import Cluster
from cerebro_db.environment import embedded_dsn
from cerebro_db.errors import SetupError
from cerebro_db.sqltext import Fragment
from tests.support import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.postgresql("a server of its own")]

SETTINGS = {"shared_buffers": "64MB"}


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that every user can reach; what is started in it ends with the test."""
    folder = Path(tempfile.mkdtemp(prefix="cerebro-", dir="/var/tmp"))
    folder.chmod(0o755)
    yield folder
    Cluster(folder).remove()
    shutil.rmtree(folder)


def cli(home: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    variables = {**clean, "CEREBRO_HOME": str(home), **environment}
    command = [sys.executable, "-m", "cerebro_db.cli", *words]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=120)


def answer(home: Path, *words: str) -> Any:
    done = cli(home, *words, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def fail(home: Path, *words: str) -> str:
    """The one line on stderr of a command that must fail."""
    done = cli(home, *words)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    return line


def test_up_check_down_from_the_command_line(home: Path) -> None:
    done = cli(home, "up", "--segments", "3")
    assert done.returncode == 0, done.stderr
    dsn = answer(home, "dsn")["dsn"]
    assert dsn == embedded_dsn(home) == cli(home, "dsn").stdout.strip()

    with connect(dsn) as database:
        facts = database.rows(
            Fragment("""
            select current_setting('cerebro.segments') as segments, current_setting('search_path') as path
                 , current_setting('fsync') as fsync, current_setting('listen_addresses') as addresses""")
        )
    assert facts == [
        {"segments": "3", "path": '"$user", public, cerebro', "fsync": "on", "addresses": "127.0.0.1"}
    ]

    rows: List[Dict[str, Any]] = answer(home, "check")
    assert [row for row in rows if not row["ok"]] == []
    assert answer(home, "install") == {"database": "cerebro", "plpython": True, "version": __version__}

    again = answer(home, "up")
    assert (again["up"], again["dsn"]) == (True, dsn)
    with connect(dsn) as database:
        assert database.rows(Fragment("select current_setting('cerebro.segments') as s")) == [{"s": "3"}]

    assert answer(home, "down")["up"] is False
    assert answer(home, "down")["up"] is False
    assert fail(home, "dsn").endswith("is down; start it with 'cerebro-db up'")
    assert embedded_dsn(home) is None


def test_errors_are_one_line(home: Path) -> None:
    assert fail(home, "check", "--dsn", "host=/nowhere").startswith(
        "cerebro-db: cannot connect to 'host=/nowhere': connection to server on socket"
    )
    assert "start the embedded server with 'cerebro-db up'" in fail(home, "install")
    usage = cli(home, "up", "--segments", "0")
    assert usage.returncode == 2
    assert "Invalid value for '--segments'" in usage.stderr


def test_a_database_without_cerebro_is_named(home: Path) -> None:
    cluster = Cluster(home, SETTINGS)
    cluster.start()
    line = fail(home, "check", "--dsn", cluster.dsn("postgres"))
    assert line == (
        "cerebro-db: cerebro-db is not installed in database 'postgres'; install it with 'cerebro-db install'"
    )


def test_the_environment_of_the_shell_does_not_reach_the_server(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    cluster = Cluster(home, SETTINGS)
    variables = (Path("/proc") / str(cluster.up(1).pid) / "environ").read_bytes().decode().split("\0")
    names = dict(line.split("=", 1) for line in variables if line)
    assert "OMP_NUM_THREADS" not in names
    assert names["PYTHONNOUSERSITE"] == "1"
    assert "/nowhere" not in names["PYTHONPATH"]


def test_killed_server_comes_up_again_on_the_same_port(home: Path) -> None:
    cluster = Cluster(home, SETTINGS)
    before = cluster.up(1)
    assert before.pid is not None
    os.kill(before.pid, signal.SIGKILL)
    wait_until(lambda: not _sessions_of(home), 30, "the sessions of the killed server end")
    assert (home / "data" / "postmaster.pid").exists()
    after = cluster.up()
    assert (after.up, after.dsn) == (True, before.dsn)
    assert after.pid != before.pid


def test_a_leftover_pid_of_another_process_is_no_server(home: Path) -> None:
    cluster = Cluster(home, SETTINGS)
    cluster.up(1)
    cluster.down()
    (home / "data" / "postmaster.pid").write_text(f"{os.getpid()}\n{home / 'data'}\n")
    assert cluster.status().up is False
    assert cluster.up().up is True


def test_a_port_taken_meanwhile_is_named(home: Path) -> None:
    cluster = Cluster(home, SETTINGS)
    cluster.up(1)
    cluster.down()
    port = json.loads((home / "cluster.json").read_text())["port"]
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
        with pytest.raises(SetupError, match=f"port {port} of the embedded server is taken"):
            cluster.up()
    assert cluster.up().up is True


def test_data_of_another_version_is_named(home: Path) -> None:
    cluster = Cluster(home, SETTINGS)
    cluster.up(1)
    cluster.down()
    version = home / "data" / "PG_VERSION"
    own = version.read_text()
    version.write_text("9.6\n")
    with pytest.raises(SetupError, match="was made by PostgreSQL 9.6, .* install postgresql-plpython3-9.6"):
        cluster.up()
    version.write_text(own)


def test_a_home_too_deep_for_a_socket_is_named(home: Path) -> None:
    with pytest.raises(SetupError, match="set CEREBRO_HOME to a shorter path"):
        Cluster(home / ("x" * 100)).up()
    assert list(home.iterdir()) == []


def test_a_server_that_does_not_start_shows_its_log(home: Path) -> None:
    with pytest.raises(SetupError, match='the log ends with: .*invalid value for parameter "shared_buffers"'):
        Cluster(home, {"shared_buffers": "many"}).start()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_a_plain_os_user_has_a_server_of_its_own(home: Path) -> None:
    """As `nobody`: the server runs as that user, who is its superuser; root gets in too."""
    own = home / "own"
    own.mkdir()
    user = pwd.getpwnam("nobody")
    os.chown(own, user.pw_uid, user.pw_gid)
    command = [sys.executable, "-m", "cerebro_db.cli"]
    variables = {"PATH": os.environ["PATH"], "CEREBRO_HOME": str(own), "HOME": str(own)}
    who: Dict[str, Any] = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    package = str(Path(__file__).resolve().parents[2])
    if subprocess.run(["test", "-r", package], **who, check=False).returncode == 0:
        variables["PYTHONPATH"] = package

    def run(word: str) -> Any:
        done = subprocess.run(
            [*command, word, "--json"], **who, env=variables, cwd="/", capture_output=True, text=True,
            check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    try:
        status = run("up")
        assert Path(f"/proc/{status['pid']}").stat().st_uid == user.pw_uid
        assert [row for row in run("check") if not row["ok"]] == []
        with connect(status["dsn"]) as database:
            assert database.rows(Fragment("select current_user::text as name")) == [{"name": "nobody"}]
    finally:
        assert run("down")["up"] is False
        shutil.rmtree(own)


def _sessions_of(home: Path) -> List[str]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.readlink(entry / "cwd") == str(home / "data"):
                found.append(entry.name)
        except OSError:
            continue
    return found
