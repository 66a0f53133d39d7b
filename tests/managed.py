"""A server as managed PostgreSQL gives it: no plpython3u at all, and an administrator who is no superuser."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Iterator

import pytest

from cerebro_db import cluster
from cerebro_db.client import connect, make_dsn
from cerebro_db.engines import on_greenplum
from cerebro_db.postgres import Binaries, find_binaries
from cerebro_db.sqltext import Fragment, ident

ROOT = Path(__file__).resolve().parents[1]
LANGUAGES = Fragment(
    "select count(*)::int as functions from pg_proc p join pg_language l on l.oid = p.prolang"
    " where l.lanname like 'plpython%%'"
)


@dataclass(frozen=True)
class Managed:
    """A database on such a server: DSNs of the server's superuser, of the owner who installs, and of a user."""

    superuser: str
    admin: str
    user: str
    admin_name: str
    user_name: str


@contextmanager
def server_without_python(folder: Path) -> Iterator[str]:
    """DSN of a throwaway server whose installation lacks plpython3u."""
    with server_of(private_installation(folder, without="plpython")) as dsn:
        yield dsn


@contextmanager
def server_with_extension(**settings: str) -> Iterator[str]:
    """DSN of a throwaway server into whose installation make has put the extension's files."""
    with tempfile.TemporaryDirectory(prefix="cerebro-extension-", dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)  # the server's user must get in
        binaries = private_installation(Path(folder))
        words = ["make", "-s", "-C", str(ROOT / "extension"), "install", f"PYTHON={sys.executable}"]
        subprocess.run([*words, f"PG_CONFIG={binaries.program('pg_config')}"], check=True, stdout=subprocess.DEVNULL)
        with server_of(binaries, **settings) as dsn:
            yield dsn


@contextmanager
def server_of(binaries: Binaries, **settings: str) -> Iterator[str]:
    """DSN of a throwaway server of this installation, as superuser."""
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:  # for the start only: other clusters take the usual programs
            patch.setattr(cluster, "find_binaries", lambda *_: binaries)
            started = stack.enter_context(cluster.temporary_cluster({"shared_buffers": "64MB", **settings}))
        yield started.dsn("postgres")


def private_installation(folder: Path, without: str = "") -> Binaries:
    """This machine's installation once more, with an `extension` folder to write to, and less files of some name.

    A server finds its files beside its program, so a copied program under the same suffix takes links to all others.
    """
    given = find_binaries()
    bindir, sharedir, libdir = (Path(_config(given, option)) for option in ("--bindir", "--sharedir", "--pkglibdir"))
    root = Path(os.path.commonpath((bindir, sharedir, libdir)))
    bin_copy = folder / bindir.relative_to(root)
    bin_copy.mkdir(parents=True)
    for program in ("postgres", "initdb", "pg_ctl", "pg_config"):
        shutil.copy2(bindir / program, bin_copy / program)
    for place in (sharedir, sharedir / "extension", libdir):
        _link(place, folder / place.relative_to(root), without)
    for path in folder.rglob("*"):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
    return Binaries(bin_copy, given.version)


def _link(source: Path, target: Path, without: str) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for entry in source.iterdir():
        left_out = without and without in entry.name
        if not left_out and entry.name != "extension":
            (target / entry.name).symlink_to(entry)


def _config(binaries: Binaries, option: str) -> str:
    words = [str(binaries.program("pg_config")), option]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


@contextmanager
def managed_database(server: str, number: int, drop: Callable[[str, str], None]) -> Iterator[Managed]:
    """An empty database of a role with CREATEROLE, and a plain role to be; gone afterwards."""
    unique, password = f"{os.getpid()}_{number}", secrets.token_hex(8)
    admin, user, name = f"managed_admin_{unique}", f"ana_{unique}", f"managed_{unique}"
    with connect(server) as session:
        if not on_greenplum(session):  # whose version 6 knows md5 only
            session.script(Fragment("set password_encryption = 'scram-sha-256'"))
        session.script(Fragment(f"create role {ident(admin)} login createrole password '{password}'"))
        session.script(Fragment(f"create role {ident(user)} login password '{password}'"))
        session.script(Fragment(f"create database {ident(name)} owner {ident(admin)}"))
        port = session.rows(Fragment("select current_setting('port') as port"))[0]["port"]
    parts = {"host": "127.0.0.1", "port": port, "password": password, "dbname": name}
    yield Managed(
        superuser=make_dsn(server, dbname=name),
        admin=make_dsn(**parts, user=admin),
        user=make_dsn(**parts, user=user),
        admin_name=admin,
        user_name=user,
    )
    drop(server, name)
    with connect(server) as session:
        for role in (user, admin):
            session.script(Fragment(f"drop owned by {ident(role)} cascade; drop role {ident(role)}"))
