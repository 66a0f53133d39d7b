"""A server of somebody's own: which pg_hba.conf a run needs, and what the check says when it lacks a line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Dict, Iterator

import pytest

from cerebro_db.client import connect, make_dsn
from cerebro_db.cluster import Cluster, temporary_cluster
from cerebro_db.database import Row, one
from cerebro_db.install import install
from cerebro_db.sqltext import Fragment
from tests.runs import ADAM, KEEP_NOTHING, MLP, fit, make_images, make_selection, pack
from tests.support import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.postgresql("a server of its own")]

#: As Debian installs it; the map lets this test in as the superuser.
DEBIAN = """
local all postgres peer map=cerebro
local all all peer
host all all 127.0.0.1/32 scram-sha-256
host all all ::1/128 scram-sha-256
"""
PASSWORD = "not a secret"


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    with temporary_cluster({"shared_buffers": "64MB", **KEEP_NOTHING}) as cluster:
        with connect(cluster.dsn("postgres")) as database:
            install(database)
            database.script(Fragment(f"create role ana login password '{PASSWORD}'; grant cerebro_user to ana"))
            database.script(Fragment("grant create on schema public to ana"))
            database.script(Fragment("alter database postgres set cerebro.segments = '2'"))
        yield cluster


def rules(server: Cluster, text: str) -> None:
    """Put these lines into pg_hba.conf and wait until the server reads them."""
    with connect(server.dsn("postgres")) as database:
        superuser = one(database, Fragment("select current_user::text as name"))["name"]
        file = Path(one(database, Fragment("select current_setting('hba_file') as file"))["file"])
        file.write_text(text.replace("all postgres peer", f"all {superuser} peer"), "utf-8")
        loaded = Fragment("select extract(epoch from pg_conf_load_time())::float8 as at")
        before = one(database, loaded)["at"]
        database.rows(Fragment("select pg_reload_conf()"))
        wait_until(lambda: bool(one(database, loaded)["at"] > before), 10, "pg_hba.conf is read")


def ana(server: Cluster) -> str:
    with connect(server.dsn("postgres")) as database:
        port = one(database, Fragment("select current_setting('port') as port"))["port"]
    return make_dsn(server.dsn("postgres"), host="127.0.0.1", port=port, user="ana", password=PASSWORD)


def lacking(dsn: str) -> Dict[str, Row]:
    with connect(dsn) as database:
        rows = database.rows(Fragment("select item, value, remedy from madlib_mop_check() where not ok"))
    return {row["item"]: row for row in rows}


def test_a_plain_role_does_the_job_with_debians_rules(server: Cluster) -> None:
    rules(server, DEBIAN)
    assert lacking(ana(server)) == {}
    with connect(ana(server)) as database:
        make_images(database, "pics", 60)
        pack(database, "pics", "packed", segments=2)
        make_selection(database, "s", {1: (MLP, ADAM, "batch_size=16")})
        assert fit(database, "packed", "out", "s", 1)["status"] == "finished"
        database.rows(Fragment("select madlib_mop_predict('out', 'pics', 'id', 'img', 'predicted', 'response')"))
        assert one(database, Fragment("select count(*)::int as n from predicted")) == {"n": 60}


def test_without_a_line_for_the_roles_of_a_run(server: Cluster) -> None:
    rules(server, DEBIAN)
    dsn = ana(server)
    rules(server, "local all postgres peer map=cerebro\nhost all ana 127.0.0.1/32 scram-sha-256\n")
    row = lacking(dsn)["loopback"]
    assert "cannot open a session to itself as cerebro_session_" in row["remedy"]
    assert row["remedy"].endswith("so pg_hba.conf needs 'host all all 127.0.0.1/32 scram-sha-256'")
    command = [sys.executable, "-m", "cerebro_db.cli", "check", "--dsn", dsn, "--json"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert (done.returncode, [r["item"] for r in json.loads(done.stdout) if not r["ok"]]) == (1, ["loopback"])
