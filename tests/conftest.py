"""Fixtures for tests against a real server. None given: a throwaway cluster, started on first use.

    --pg-dsn, CEREBRO_TEST_PG_DSN   a PostgreSQL server to use instead, as superuser
    --gp-dsn, CEREBRO_TEST_GP_DSN   a Greenplum server, as superuser: all tests run there instead, but for those of
                                    PostgreSQL's own ways; without one the tests in tests/greenplum skip
    --gp-python, CEREBRO_TEST_GP_PYTHON   where that server's Python finds this package and torch, as a search path;
                                    by default this checkout and this interpreter's packages

Every test gets a database of its own, cloned from a template in which everything is installed.
"""

from __future__ import annotations

import itertools
import os
import secrets
import sysconfig
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Iterator, List, Optional

import psycopg2
import pytest
from psycopg2.extensions import parse_dsn

from cerebro_db.client import PsycopgDatabase, connect, make_dsn
from cerebro_db.cluster import set_segments, temporary_cluster
from cerebro_db.engines import on_greenplum
from cerebro_db.errors import CerebroError, SetupError
from cerebro_db.install import install
from cerebro_db.postgres import find_binaries
from cerebro_db.sqltext import Fragment, fill, ident, query
from tests.managed import Managed, managed_database, server_without_python
from tests.support import wait_until

#: Segments of packed tables in tests, unless a test sets its own.
SEGMENTS = 2

_numbers = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--pg-dsn", default=os.environ.get("CEREBRO_TEST_PG_DSN"), help="PostgreSQL to test on")
    parser.addoption("--gp-dsn", default=os.environ.get("CEREBRO_TEST_GP_DSN"), help="Greenplum to test on")
    packages = f"{Path(__file__).resolve().parents[1]}:{sysconfig.get_path('purelib')}"
    parser.addoption("--gp-python", default=os.environ.get("CEREBRO_TEST_GP_PYTHON", packages), help="its PYTHONPATH")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "postgresql: what only PostgreSQL does so; skipped with --gp-dsn")


def pytest_collection_modifyitems(config: pytest.Config, items: List[pytest.Item]) -> None:
    if config.getoption("--gp-dsn"):
        for item in items:
            if marker := item.get_closest_marker("postgresql"):
                why = marker.args[0] if marker.args else "PostgreSQL's own way"
                item.add_marker(pytest.mark.skip(reason=f"not on Greenplum: {why}"))


def pytest_report_header(config: pytest.Config) -> List[str]:
    given = config.getoption("--gp-dsn")
    if given:
        with connect(given) as database:
            version = database.rows(Fragment("select version() as version"))[0]["version"]
        return [f"all on {version}"]
    return [f"postgresql: {_postgresql(config)}", "greenplum: no --gp-dsn, its tests skip"]


def _postgresql(config: pytest.Config) -> str:
    try:
        if not config.getoption("--pg-dsn"):
            binaries = find_binaries()
            return f"{binaries.version}, a throwaway cluster by {binaries.folder}"
        with connect(config.getoption("--pg-dsn")) as database:
            return str(database.rows(query("cluster", "server_facts"))[0]["version"])
    except CerebroError as error:
        return f"none: {error}"


@pytest.fixture(scope="session", autouse=True)
def exports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What this process and its workers export goes to a folder of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CEREBRO_EXPORTS", str(tmp_path_factory.mktemp("exports")))
        yield


# -- servers ---------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def pg_server(request: pytest.FixtureRequest) -> Iterator[str]:
    """DSN of the server, as superuser, to its database `postgres`."""
    given = request.config.getoption("--gp-dsn") or request.config.getoption("--pg-dsn")
    if given:
        yield given
        return
    with temporary_cluster({"shared_buffers": "128MB"}) as cluster:
        yield cluster.dsn("postgres")


@pytest.fixture(scope="session")
def gp_server(request: pytest.FixtureRequest) -> str:
    """DSN of the Greenplum server; the test skips without one."""
    given = request.config.getoption("--gp-dsn")
    if not given:
        pytest.skip("no --gp-dsn")
    return str(given)


# -- databases -------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def python_path(request: pytest.FixtureRequest) -> Optional[str]:
    """Where the Python of a Greenplum finds the package; PostgreSQL's has it from its environment."""
    return str(request.config.getoption("--gp-python")) if request.config.getoption("--gp-dsn") else None


@pytest.fixture(scope="session")
def template(pg_server: str, python_path: Optional[str]) -> Iterator[str]:
    """Name of a database in which everything is installed, to clone from."""
    name = f"cerebro_template_{os.getpid()}"
    _create(pg_server, name)
    _set_python_path(pg_server, name, python_path)
    with connect(make_dsn(pg_server, dbname=name)) as database:
        install(database)
    yield name
    _drop(pg_server, name)


@pytest.fixture
def pg_dsn(pg_server: str, template: str, python_path: Optional[str]) -> Iterator[str]:
    """DSN of a fresh database with everything installed, as superuser; dropped after the test."""
    with _clone(pg_server, template, python_path) as dsn:
        yield dsn


@pytest.fixture
def pg(pg_dsn: str) -> Iterator[PsycopgDatabase]:
    """A superuser's session in a fresh database."""
    with connect(pg_dsn) as database:
        yield database


@pytest.fixture(scope="module")
def pg_module_dsn(pg_server: str, template: str, python_path: Optional[str]) -> Iterator[str]:
    """Like `pg_dsn`, one database for all tests of a module: for data that is expensive to make."""
    with _clone(pg_server, template, python_path) as dsn:
        yield dsn


@pytest.fixture(scope="module")
def pg_module(pg_module_dsn: str) -> Iterator[PsycopgDatabase]:
    """Like `pg`, in the module's database."""
    with connect(pg_module_dsn) as database:
        yield database


@pytest.fixture
def empty_dsn(pg_server: str, python_path: Optional[str]) -> Iterator[str]:
    """DSN of a fresh database with nothing installed."""
    name = f"cerebro_test_{os.getpid()}_{next(_numbers)}"
    _create(pg_server, name)
    _set_python_path(pg_server, name, python_path)
    yield make_dsn(pg_server, dbname=name)
    _drop(pg_server, name)


@pytest.fixture(scope="session")
def plain_server() -> Iterator[str]:
    """DSN of a throwaway PostgreSQL that has no plpython3u, as superuser."""
    with tempfile.TemporaryDirectory(prefix="cerebro-plain-", dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)  # the server's user must get in
        with server_without_python(Path(folder)) as dsn:
            yield dsn


@pytest.fixture
def managed(plain_server: str) -> Iterator[Managed]:
    """A database of a role with CREATEROLE on a server without plpython3u; nothing is installed."""
    with managed_database(plain_server, next(_numbers), _drop) as found:
        yield found


@pytest.fixture
def managed_here(pg_server: str, python_path: Optional[str]) -> Iterator[Managed]:
    """The same on the server that has plpython3u, where only a superuser may use it."""
    with managed_database(pg_server, next(_numbers), _drop) as found:
        _set_python_path(pg_server, parse_dsn(found.superuser)["dbname"], python_path)
        yield found


@contextmanager
def _clone(server: str, template: str, python_path: Optional[str]) -> Iterator[str]:
    name = f"cerebro_test_{os.getpid()}_{next(_numbers)}"
    _create(server, name, template)
    _set_python_path(server, name, python_path)
    with connect(make_dsn(server, dbname=name)) as database:
        # A clone has the template's objects, not its settings.
        database.script(Fragment(f'alter database {ident(name)} set search_path = "$user", public, cerebro'))
        set_segments(database, name, SEGMENTS)
        # Most tests look for what a call leaves; those of what it keeps for the next one say so.
        database.script(Fragment(f"alter database {ident(name)} set cerebro.keep_seconds = 0"))
        # Most tests want the bits of each config alone; those of fusion ask for it.
        database.script(Fragment(f"alter database {ident(name)} set cerebro.fuse = 'off'"))
    yield make_dsn(server, dbname=name)
    _drop(server, name)


def _create(server: str, name: str, template: str = "template1") -> None:
    with _patient(server) as admin:
        statement = Fragment("create database {name} template {source}")
        admin.script(fill(statement, name=ident(name), source=ident(template)))


def _set_python_path(server: str, name: str, path: Optional[str]) -> None:
    if path is not None:
        with _patient(server) as admin:
            admin.script(Fragment("load 'plpython3'"))  # the setting is known once the language is
            admin.script(Fragment(f"alter database {ident(name)} set plpython3.python_path = '{path}'"))


def _drop(server: str, name: str) -> None:
    with _patient(server) as admin:
        end = Fragment("select pg_terminate_backend(pid) from pg_stat_activity where datname = %(name)s")

        def dropped() -> bool:
            admin.rows(end, name=name)
            try:
                admin.script(fill(Fragment("drop database if exists {name}"), name=ident(name)))
            except psycopg2.errors.ObjectInUse:
                return False
            return True

        wait_until(dropped, 60, f"database {name} is dropped")


def _patient(server: str) -> PsycopgDatabase:
    """A session on a server that may be recovering from a kill."""
    session: List[PsycopgDatabase] = []

    def connected() -> bool:
        try:
            session.append(connect(server))
        except SetupError as error:
            if any(word in str(error) for word in ("starting up", "recovery", "shutting down", "refused")):
                return False
            raise
        return True

    wait_until(connected, 60, "the server takes sessions")
    return session[0]


# -- roles -----------------------------------------------------------------------------------------


@dataclass
class Role:
    """A plain role that logs in over TCP by its scram password. Calling it opens a session."""

    name: str
    password: str
    dsn: str
    sessions: List[PsycopgDatabase] = field(default_factory=list)

    def __call__(self, on_notice: Optional[Callable[[str], None]] = None) -> PsycopgDatabase:
        session = connect(self.dsn, on_notice=on_notice)
        self.sessions.append(session)
        return session


@pytest.fixture
def role(pg_dsn: str) -> Iterator[Callable[..., Role]]:
    """Makes plain LOGIN roles: `alice = role("alice")`, then `alice()` is a session, `alice.name` its name.

    With cerebro_user unless `member=False`. Names get a suffix, because roles are the whole server's.
    """
    made: List[Role] = []

    def make(name: str = "analyst", member: bool = True) -> Role:
        unique = f"{name}_{os.getpid()}_{next(_numbers)}"
        made.append(_make_role(pg_dsn, unique, member))
        return made[-1]

    yield make
    for one in made:
        _drop_role(pg_dsn, one)


def _make_role(dsn: str, name: str, member: bool) -> Role:
    password = secrets.token_hex(8)
    with connect(dsn) as admin:
        if not on_greenplum(admin):  # whose version 6 knows md5 only
            admin.script(Fragment("set password_encryption = 'scram-sha-256'"))
        admin.script(Fragment(f"create role {ident(name)} login password '{password}'"))
        if member:
            admin.script(Fragment(f"grant cerebro_user to {ident(name)}"))
        admin.script(Fragment(f"grant create on schema public to {ident(name)}"))
        port = admin.rows(query("cluster", "server_facts"))[0]["port"]
    parts = {"host": "127.0.0.1", "port": port, "user": name, "password": password}
    return Role(name, password, make_dsn(dsn, **parts))


def _drop_role(dsn: str, role: Role) -> None:
    for session in role.sessions:
        session.close()
    with _patient(dsn) as admin:
        end = Fragment("select pg_terminate_backend(pid) from pg_stat_activity where usename = %(name)s")
        admin.rows(end, name=role.name)
        admin.script(Fragment(f"drop owned by {ident(role.name)} cascade"))
        admin.script(Fragment(f"drop role {ident(role.name)}"))
