"""`create extension cerebro`, and that pg_dump keeps what there is: on a server with extensions of its own."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path
from typing import Callable, Iterator, List

import psycopg2
import pytest

from cerebro_db import __version__
from cerebro_db.client import PsycopgDatabase, connect, make_dsn
from cerebro_db.errors import SetupError
from cerebro_db.install import install, uninstall
from cerebro_db.postgres import find_binaries
from tests.dumps import survives
from tests.managed import server_with_extension
from tests.runs import sql

pytestmark = [
    pytest.mark.slow,
    pytest.mark.postgresql("its files would have to be put into the server's installation"),
]

ROOT = Path(__file__).resolve().parents[2]
CONTENTS = sql((ROOT / "tests" / "database" / "contents.sql").read_text("utf-8").replace("%", "%%"))
CREATE = sql("create extension cerebro cascade")

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """DSN of a server that has the extension's files."""
    with server_with_extension() as dsn:
        yield dsn


@pytest.fixture
def database_of(server: str) -> Callable[[], str]:
    """Makes an empty database; the server is removed with all of them."""

    def make() -> str:
        name = f"extension_{next(_numbers)}"
        with connect(server) as admin:
            admin.script(sql(f"create database {name}"))
            admin.script(sql(f"alter database {name} set cerebro.segments = '2'"))
        return make_dsn(server, dbname=name)

    return make


@pytest.fixture
def empty(database_of: Callable[[], str]) -> Iterator[PsycopgDatabase]:
    with connect(database_of()) as database:
        yield database


def contents(database: PsycopgDatabase) -> List[str]:
    return [row["line"] for row in database.rows(CONTENTS)]


def reconnected(database: PsycopgDatabase) -> PsycopgDatabase:
    """A new session, which has what the database sets."""
    return connect(database.connection.dsn)


def psql(dsn: str, script: Path) -> str:
    done = subprocess.run(["psql", "-Xq", "-f", str(script), dsn], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


# -- create, update, drop --------------------------------------------------------------------------


def test_it_makes_what_the_installer_makes(empty: PsycopgDatabase, database_of: Callable[[], str]) -> None:
    empty.script(CREATE)
    with connect(database_of()) as other:
        install(other)
        assert contents(empty) == contents(other)
    with reconnected(empty) as later:
        assert later.rows(sql("select version from cerebro_private.version")) == [{"version": __version__}]
        assert later.rows(sql("select to_regproc('madlib_mop_check')::text as f")) == [{"f": "madlib_mop_check"}]
        assert later.rows(sql("select extversion from pg_extension where extname = 'cerebro'")) == [
            {"extversion": __version__}
        ]


def test_dropped_it_leaves_nothing_and_can_come_again(empty: PsycopgDatabase) -> None:
    for _ in range(2):
        empty.script(CREATE)
        empty.script(sql("drop extension cerebro"))
        assert contents(empty) == []
    path = sql(
        "select c.line from pg_db_role_setting s, unnest(s.setconfig) as c (line)"
        " where s.setdatabase = (select oid from pg_database where datname = current_database())"
        " and c.line like 'search_path=%%'"
    )
    assert empty.rows(path) == [{"line": 'search_path="$user", public, cerebro'}]


def test_states_that_it_leaves_are_in_the_way_of_the_next(empty: PsycopgDatabase) -> None:
    empty.script(CREATE)
    empty.script(sql("create table cerebro_private.state_1_1 (part text)"))  # as a run does
    empty.script(sql("drop extension cerebro"))
    with pytest.raises(psycopg2.errors.DuplicateObject, match="holds states of runs that an earlier extension left"):
        empty.script(CREATE)
    empty.script(sql("drop schema cerebro_private cascade"))
    empty.script(CREATE)


def test_the_uninstaller_drops_it_too(empty: PsycopgDatabase) -> None:
    empty.script(CREATE)
    uninstall(empty)
    assert contents(empty) == []
    assert empty.rows(sql("select 1 as x from pg_extension where extname = 'cerebro'")) == []


def test_not_where_the_installer_was_first(empty: PsycopgDatabase) -> None:
    install(empty)
    before = contents(empty)
    with pytest.raises(psycopg2.errors.DuplicateObject, match="has cerebro-db already, installed without") as info:
        empty.script(CREATE)
    assert "cerebro-db install; or remove it with its runs first" in str(info.value.diag.message_hint)
    assert contents(empty) == before


@pytest.mark.parametrize("script", ["install.sql", "install_without_python.sql"])
def test_psql_does_not_install_over_it(empty: PsycopgDatabase, script: str) -> None:
    empty.script(CREATE)
    said = psql(empty.connection.dsn, ROOT / "sql" / script)
    assert f'database {empty.connection.info.dbname} has cerebro-db as an extension' in said
    assert "alter extension cerebro update" in said


def test_the_installer_updates_it(empty: PsycopgDatabase) -> None:
    empty.script(CREATE)
    assert install(empty)
    empty.script(sql("update pg_extension set extversion = '0.0.1' where extname = 'cerebro'"))
    with pytest.raises(SetupError, match=r"has cerebro-db as an extension, which was not updated: .*0\.0\.1"):
        install(empty)


def test_its_script_is_not_for_psql(empty: PsycopgDatabase, server: str) -> None:
    with connect(server) as admin:
        (row,) = admin.rows(sql("select setting from pg_config() where name = 'SHAREDIR'"))
    said = psql(empty.connection.dsn, Path(row["setting"]) / "extension" / f"cerebro--{__version__}.sql")
    assert said == 'Use "CREATE EXTENSION cerebro" to load this file.\n'
    assert contents(empty) == []


# -- dump and restore ------------------------------------------------------------------------------


@pytest.mark.parametrize("by_extension", [True, False], ids=["extension", "installer"])
def test_runs_models_and_numbers_survive_dump_and_restore(
    database_of: Callable[[], str], tmp_path: Path, by_extension: bool
) -> None:
    survives(database_of(), database_of(), find_binaries().folder, tmp_path, by_extension)
