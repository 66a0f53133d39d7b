"""What the demo on a cluster says went through the client is what the sockets carried."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Dict, Tuple

import pytest

from cerebro_db.client import make_dsn
from experiments.wire import through

ROOT = Path(__file__).resolve().parents[2]
#: A client that fetches so many bytes and sends a few.
CLIENT = """
import sys, psycopg2
with psycopg2.connect(sys.argv[-1]) as session, session.cursor() as cursor:
    cursor.execute("select repeat('x', %s)", (int(sys.argv[1]),))
    assert len(cursor.fetchone()[0]) == int(sys.argv[1])
"""


def counted(folder: Path, dsn: str, *command: str) -> Tuple[int, Dict[str, int]]:
    words = [sys.executable, "-m", "experiments.wire", str(folder / "counts"), dsn, *command]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    code = subprocess.run(words, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, check=False).returncode
    lines = (folder / "counts").read_text("utf-8").splitlines()
    return code, {name: int(number) for name, number in (line.split("=") for line in lines)}


@pytest.mark.parametrize("fetched", [1000, 3_000_000])
def test_bytes_both_ways(pg_module_dsn: str, tmp_path: Path, fetched: int) -> None:
    code, counts = counted(tmp_path, pg_module_dsn, sys.executable, "-c", CLIENT, str(fetched))
    assert (code, counts["connections"]) == (0, 1)
    assert fetched < counts["received"] < fetched + 2000
    assert 0 < counts["sent"] < 1000


def test_it_ends_as_the_command_does(pg_module_dsn: str, tmp_path: Path) -> None:
    assert counted(tmp_path, pg_module_dsn, sys.executable, "-c", "import sys; sys.exit(7)") == (
        7, {"connections": 0, "sent": 0, "received": 0},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("dsn", "led"),
    [
        ("host=/run/x port=1 dbname=d", {"host": "127.0.0.1", "dbname": "d"}),
        ("host=db.example.com dbname=d sslmode=verify-full", {"host": "db.example.com", "sslmode": "verify-full"}),
        ("postgresql://ana@db.example.com:5433/d", {"host": "db.example.com", "user": "ana", "dbname": "d"}),
    ],
)
def test_the_way_through_it_keeps_the_name_of_the_host(dsn: str, led: Dict[str, str]) -> None:
    expected = {**led, "hostaddr": "127.0.0.1", "port": "4711"}
    found = dict(item.split("=", 1) for item in through(dsn, 4711).split())
    assert {name: found.get(name) for name in expected} == expected
    assert make_dsn(through(dsn, 4711)) == through(dsn, 4711)
