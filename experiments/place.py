"""Where the experiments train: a throwaway server, or one that runs already."""

from __future__ import annotations

import os
import secrets
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, Optional

from cerebro_db.client import PsycopgDatabase, connect, make_dsn
from cerebro_db.cluster import temporary_cluster
from cerebro_db.sqltext import Fragment, fill, ident
from experiments.measured import Bench

SCHEMA = "cerebro_experiments"
_PASSWORD = Fragment("alter role {role} password %(password)s")
#: What autovacuum writes meanwhile belongs to earlier measurements, and zeros in new files of the log to none; shared
#: memory that is not full yet would grow with whatever is measured.
SETTINGS = {"autovacuum": "off", "wal_init_zero": "off", "shared_buffers": "32MB"}
_LOCAL = ("localhost", "127.0.0.1", "::1", "")


@contextmanager
def bench(dsn: Optional[str]) -> Iterator[Bench]:
    """A bench on the server of a DSN, in a schema of its own that is dropped after; None starts a server."""
    if dsn is None:
        with _throwaway() as made, _schema(made) as inside:
            yield Bench(inside, server_pid(inside))
    else:
        with _schema(dsn) as inside:
            yield Bench(inside, server_pid(inside))


@contextmanager
def _throwaway() -> Iterator[str]:
    with temporary_cluster(SETTINGS) as cluster:
        os.environ["CEREBRO_EXPORTS"] = str(cluster.home / "exports")
        cluster.up()
        with connect(cluster.dsn()) as db:
            yield _by_tcp(db, cluster.dsn())


def _by_tcp(db: PsycopgDatabase, dsn: str) -> str:
    """The same server by its network address, whose bytes the kernel counts; a socket's it does not."""
    password = secrets.token_hex(16)
    db.rows(fill(_PASSWORD, role=ident(db.connection.info.user)), password=password)
    return make_dsn(dsn, host="127.0.0.1", password=password)


@contextmanager
def _schema(dsn: str) -> Iterator[str]:
    """All tables of the experiments go to one schema, which an earlier run may have left."""
    drop = fill(Fragment("drop schema if exists {schema} cascade"), schema=ident(SCHEMA))
    with connect(dsn) as db:
        db.script(drop)
        db.script(fill(Fragment("create schema {schema}"), schema=ident(SCHEMA)))
    try:
        yield make_dsn(dsn, options=f"-c search_path={SCHEMA},public,cerebro")
    finally:
        with connect(dsn) as db:
            db.script(drop)


def server_pid(dsn: str) -> Optional[int]:
    """The server's first process when it is one of this machine: the parent of a session."""
    with connect(dsn) as db:
        info = db.connection.info
        if not info.host.startswith("/") and info.host not in _LOCAL:
            return None
        try:
            status = Path(f"/proc/{info.backend_pid}/status").read_text("utf-8")
        except OSError:
            return None
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    return int(fields["PPid"]) if fields["Name"].strip() == "postgres" else None
