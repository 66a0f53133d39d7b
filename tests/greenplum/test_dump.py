"""Dump and restore by Greenplum's own programs, which on 6 are those of 9.4."""

from __future__ import annotations

from pathlib import Path

import pytest

from cerebro_db.client import connect
from cerebro_db.install import uninstall
from tests.dumps import survives
from tests.runs import sql

pytestmark = pytest.mark.slow


@pytest.fixture
def programs(gp_server: str) -> Path:
    """The folder of the server's programs, when it runs on this machine."""
    with connect(gp_server) as database:
        backend = Path(f"/proc/{database.connection.info.backend_pid}/exe")
        if not backend.exists() or not (backend.resolve().parent / "pg_dump").exists():
            pytest.skip("the coordinator's programs are not on this machine")
        return backend.resolve().parent


@pytest.mark.parametrize("by_extension", [True, False], ids=["extension", "installer"])
def test_runs_models_and_numbers_survive_dump_and_restore(
    programs: Path, pg_dsn: str, empty_dsn: str, tmp_path: Path, by_extension: bool
) -> None:
    with connect(empty_dsn) as source, connect(pg_dsn) as target:
        there = source.rows(sql("select 1 as x from pg_available_extensions where name = 'cerebro'"))
        if by_extension and not there:
            pytest.skip("the server has not the extension's files; make -C extension install")
        uninstall(target)
    survives(empty_dsn, pg_dsn, programs, tmp_path, by_extension)
