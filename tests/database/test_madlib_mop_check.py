"""madlib_mop_check: one row per item, never an error, for a superuser and for a plain role."""

from __future__ import annotations

from typing import Callable, Dict, List

import pytest

from cerebro_db import __version__
from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.database import Row
from cerebro_db.environment import interpreter
from cerebro_db.hosts import segments
from cerebro_db.sqltext import Fragment

CHECK = Fragment("select item, value, ok, remedy from madlib_mop_check()")
ITEMS = [
    "host", "cpus", "free memory", "free disk", "gpus", "server", "cerebro in SQL", "cerebro_db",
    "interpreter", "torch", "numpy", "safetensors", "psycopg2", "libpython",
    "worker processes", "sessions", "loopback", "roles",
]  # fmt: skip


HOST_ITEMS = [
    "host", "cpus", "free memory", "free disk", "gpus", "cerebro_db", "interpreter", "torch", "numpy", "safetensors",
    "libpython",
]  # fmt: skip


def checked(database: PsycopgDatabase) -> Dict[str, Row]:
    return {row["item"]: row for row in database.rows(CHECK)}


def all_items(database: PsycopgDatabase) -> List[str]:
    hosts = dict.fromkeys(segment.host for segment in segments(database))
    return ITEMS + [f"{host}: {item}" for host in hosts for item in HOST_ITEMS]


@pytest.fixture
def fresh(pg_dsn: str):  # type: ignore[no-untyped-def]
    """A session that has not loaded search_path before the install."""
    with connect(pg_dsn) as database:
        yield database


def test_a_complete_server_lacks_nothing(fresh: PsycopgDatabase) -> None:
    rows = checked(fresh)
    assert list(rows) == all_items(fresh)
    assert [row for row in rows.values() if not row["ok"]] == []
    assert rows["cerebro in SQL"]["value"] == __version__
    assert rows["libpython"]["value"] == f"{interpreter()}, packages for {interpreter()}"


def test_a_plain_role_sees_the_same_items(role: Callable[..., Callable[[], PsycopgDatabase]]) -> None:
    alice = role("alice")
    rows = checked(alice())
    assert list(rows) == all_items(alice())
    assert [row for row in rows.values() if not row["ok"]] == []
    assert rows["roles"]["value"] == f"{alice.name} has cerebro_user"  # type: ignore[attr-defined]
    assert rows["loopback"]["value"].startswith(f"a session as {alice.name} over")  # type: ignore[attr-defined]


def test_a_version_that_differs_is_a_row_with_the_remedy(fresh: PsycopgDatabase) -> None:
    fresh.rows(Fragment("update cerebro_private.version set version = '0.0.9'"))
    row = checked(fresh)["cerebro in SQL"]
    assert (row["value"], row["ok"]) == ("0.0.9", False)
    assert row["remedy"].startswith("install the version of the package: cerebro-db install")


def test_a_missing_function_fails_its_own_rows_only(fresh: PsycopgDatabase) -> None:
    fresh.script(Fragment("drop function cerebro_private.engine()"))
    rows = checked(fresh)
    assert rows["server"]["ok"] is False
    assert "cerebro_private.engine() does not exist" in rows["server"]["remedy"]
    assert rows["roles"]["ok"] is True


def test_it_never_loads_torch_or_starts_a_thread(fresh: PsycopgDatabase) -> None:
    fresh.rows(CHECK)
    fresh.script(
        Fragment("""
        create function pg_temp.loaded() returns text language plpython3u as $$
            import os, sys
            return f"{'torch' in sys.modules} {len(os.listdir('/proc/self/task'))}"
        $$""")
    )
    assert fresh.rows(Fragment("select pg_temp.loaded() as loaded")) == [{"loaded": "False 1"}]


def test_a_server_that_cannot_import_the_package_says_so_in_a_row(fresh: PsycopgDatabase) -> None:
    fresh.script(
        Fragment("""
        do language plpython3u $$
            import sys
            sys.path[:] = []
        $$""")
    )
    rows = fresh.rows(CHECK)
    assert [(row["item"], row["value"], row["ok"]) for row in rows] == [
        ("package", "No module named 'cerebro_db'", False)
    ]
    assert "PYTHONPATH" in rows[0]["remedy"]
