"""What containers run, run here: the scripts against a server of this machine, with this interpreter's packages."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Dict, Iterator, List

import psycopg2
import pytest
from psycopg2 import extensions

from cerebro_db.client import connect, make_dsn
from cerebro_db.postgres import find_binaries
from cerebro_db.sqltext import Fragment
from tests.managed import private_installation, server_with_extension

pytestmark = [
    pytest.mark.slow,
    pytest.mark.postgresql("the scripts run on a server of the test's own"),
]

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT / "docker" / "shared"
VARIANTS = ("postgresql", "greenplum", "greenplum-cluster")
PASSWORD = "it's a \\ secret: $HOME :'x'"

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="not root, as a container is when it starts")


def ran(script: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "CEREBRO", "PYTHONPATH"))}
    return subprocess.run(
        [str(script), *words], env={**kept, **environment}, capture_output=True, text=True, check=False
    )


# -- the database ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with server_with_extension(log_statement="all", log_min_duration_statement="0") as dsn:
        yield dsn


@pytest.fixture
def environment(server: str, tmp_path: Path) -> Dict[str, str]:
    """As the image has it: programs, the server, the packages' folder, and the file with the password."""
    parts = extensions.parse_dsn(server)
    venv = tmp_path / "venv" / "bin"
    venv.mkdir(parents=True)
    programs = {
        "cerebro-db": f'exec "{sys.executable}" -m cerebro_db.cli "$@"',
        "gosu": 'shift; exec "$@"',
    }
    for name, line in programs.items():
        (venv / name).write_text(f"#!/bin/sh\nexport PYTHONPATH={ROOT}\n{line}\n", "utf-8")
        (venv / name).chmod(0o755)
    (tmp_path / "password").write_text(PASSWORD + "\n", "utf-8")
    return {
        "PATH": f"{venv}:{find_binaries().folder}:{os.environ['PATH']}",
        "PGHOST": parts["host"], "PGPORT": parts["port"], "PGUSER": parts["user"],
        "CEREBRO_VENV": str(venv.parent), "CEREBRO_PASSWORD": str(tmp_path / "password"),
        "CEREBRO_OS_USER": parts["user"],
    }  # fmt: skip


def test_the_database_is_made_ready(server: str, environment: Dict[str, str]) -> None:
    for _ in range(2):  # again is fine
        done = ran(SHARED / "init_database.sh", **environment)
        assert (done.returncode, done.stderr) == (0, "")
        said = [line for line in done.stdout.splitlines() if line.startswith("cerebro: ")]
        assert said == [
            "cerebro: the superuser's password", "cerebro: database cerebro", "cerebro: extension cerebro",
            "cerebro: check",
        ]  # fmt: skip
        assert "cerebro in SQL" in done.stdout
    over_tcp = make_dsn(server, host="127.0.0.1", dbname="cerebro", password=PASSWORD)
    with connect(over_tcp) as database:
        assert database.rows(Fragment("select extname from pg_extension where extname = 'cerebro'"))
        log = Path(database.rows(Fragment("show data_directory"))[0]["data_directory"]).parent / "log" / "server.log"
    told = log.read_text("utf-8")
    assert "create extension if not exists cerebro" in told
    assert "alter role" not in told
    assert PASSWORD.replace("'", "''") not in told
    assert PASSWORD not in told


def test_a_wrong_password_stays_wrong(server: str, environment: Dict[str, str]) -> None:
    ran(SHARED / "init_database.sh", **environment)
    with pytest.raises(psycopg2.OperationalError, match="password authentication failed"):
        psycopg2.connect(make_dsn(server, host="127.0.0.1", password="another"))


def test_what_the_check_misses_is_told_and_does_not_stop_the_server(environment: Dict[str, str]) -> None:
    program = Path(environment["CEREBRO_VENV"]) / "bin" / "cerebro-db"
    program.write_text("#!/bin/sh\necho -- torch missing\nexit 1\n", "utf-8")
    done = ran(SHARED / "init_database.sh", **environment)
    assert done.returncode == 0
    assert done.stdout.splitlines()[-2:] == [
        "-- torch missing", "cerebro: something is missing, see above; the server starts all the same",
    ]  # fmt: skip


def test_healthy_means_that_the_database_has_it(environment: Dict[str, str]) -> None:
    ran(SHARED / "init_database.sh", **environment)
    assert ran(SHARED / "healthcheck.sh", **environment).returncode == 0
    assert ran(SHARED / "healthcheck.sh", **environment, CEREBRO_DATABASE="postgres").returncode != 0
    assert ran(SHARED / "healthcheck.sh", **{**environment, "PGPORT": "1"}).returncode != 0


# -- the start of a container ----------------------------------------------------------------------


@as_root
def test_the_password_reaches_a_file_and_no_environment(tmp_path: Path) -> None:
    secret, handed = tmp_path / "secret", tmp_path / "handed"
    secret.write_text(PASSWORD + "\n", "utf-8")
    names = {"CEREBRO_OS_USER": "nobody", "CEREBRO_SECRET": str(secret), "CEREBRO_HANDED": str(handed)}
    outputs: List[Dict[str, str]] = []
    for _ in range(2):
        done = ran(SHARED / "entrypoint.sh", "env", **names)
        assert (done.returncode, done.stderr) == (0, "")
        assert "secret: $HOME" not in done.stdout
        outputs.append(dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line))
    assert outputs[0]["POSTGRES_PASSWORD"] == outputs[0]["GREENPLUM_PASSWORD"] != outputs[1]["POSTGRES_PASSWORD"]
    assert len(outputs[0]["POSTGRES_PASSWORD"]) == 32
    file = handed / "password"
    assert file.read_text("utf-8") == PASSWORD + "\n"
    assert (file.owner(), stat.S_IMODE(file.stat().st_mode)) == ("nobody", 0o400)
    assert (handed.owner(), stat.S_IMODE(handed.stat().st_mode)) == ("nobody", 0o700)


@as_root
@pytest.mark.parametrize(
    ("content", "complaint"), [(None, "is empty or missing"), ("", "is empty or missing"), ("a\nb\n", "more than one")]
)
def test_a_secret_that_is_none_is_refused(tmp_path: Path, content: str, complaint: str) -> None:
    secret = tmp_path / "secret"
    if content is not None:
        secret.write_text(content, "utf-8")
    names = {"CEREBRO_OS_USER": "nobody", "CEREBRO_SECRET": str(secret), "CEREBRO_HANDED": str(tmp_path / "handed")}
    done = ran(SHARED / "entrypoint.sh", "env", **names)
    assert (done.returncode, done.stdout) == (1, "")
    assert complaint in done.stderr


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen")
def test_keys_of_a_cluster_are_made_once(tmp_path: Path) -> None:
    keys = []
    for _ in range(2):
        assert ran(SHARED / "make_keys.sh", str(tmp_path)).returncode == 0
        keys.append((tmp_path / "id_rsa").read_text("utf-8"))
    assert keys[0] == keys[1]
    assert stat.S_IMODE((tmp_path / "id_rsa").stat().st_mode) == 0o600


# -- a host ----------------------------------------------------------------------------------------


def test_a_host_that_lacks_something_is_told(tmp_path: Path) -> None:
    script = ROOT / "scripts" / "install_host.sh"
    done = ran(script, PG_CONFIG="/nowhere/pg_config")
    assert done.returncode == 1
    assert "/nowhere/pg_config does not run; set PG_CONFIG" in done.stderr
    bare = private_installation(tmp_path, without="plpython")
    done = ran(script, PG_CONFIG=str(bare.program("pg_config")))
    assert done.returncode == 1
    assert "the server has no plpython3u: " in done.stderr
    done = ran(script, PG_CONFIG=str(find_binaries().program("pg_config")), PYTHON="/bin/true")
    assert done.returncode == 1
    assert "plpython3u embeds Python 3" in done.stderr
    assert "unknown step x" in ran(script, "x").stderr


# -- compose ---------------------------------------------------------------------------------------


def compose_command() -> List[str]:
    """Docker's own reader of compose files, if there is one; it asks no engine."""
    plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False) if shutil.which(
        "docker") else None
    if plugin is not None and plugin.returncode == 0:
        return ["docker", "compose"]
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    pytest.skip("neither docker compose nor docker-compose is here")


@pytest.mark.parametrize("variant", VARIANTS)
def test_compose_reads_the_file(variant: str) -> None:
    folder = ROOT / "docker" / variant
    text = (folder / "compose.yaml").read_text("utf-8")
    named = "\n".join(line for line in text.splitlines() if not line.startswith("name:"))  # unknown to version 1
    command = [*compose_command(), "-f", "-", "config"]
    done = subprocess.run(command, cwd=folder, input=named, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "cerebro-healthy" in done.stdout
