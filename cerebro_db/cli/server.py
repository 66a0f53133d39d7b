"""Commands about the server: up, down, dsn, install, check."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, List, Optional

import psycopg2
import typer
from rich.table import Table

from cerebro_db.calls import require_installed
from cerebro_db.cli.output import Dsn, Json, console, notice, print_json
from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.cluster import Cluster, Status
from cerebro_db.database import Row, one
from cerebro_db.errors import CerebroError
from cerebro_db.health import CLIENT_PROBES, items
from cerebro_db.install import install as install_into
from cerebro_db.sqltext import query

Segments = Annotated[
    Optional[int], typer.Option(min=1, help="Segments of newly packed tables; default: keep, 4 at first.")
]

#: What a probe may run into.
_FAILURES = (psycopg2.Error, CerebroError, ImportError, OSError, ValueError, LookupError)


def register(app: typer.Typer) -> None:
    """Add the commands to the app."""
    for command in (up, down, dsn, install, check):
        app.command()(command)


def up(segments: Segments = None, json: Json = False) -> None:
    """Start the embedded server: a private PostgreSQL of this machine, created on first use."""
    _show(Cluster(notice=notice).up(segments), json)


def down(json: Json = False) -> None:
    """Stop the embedded server; its data stays."""
    cluster = Cluster(notice=notice)
    cluster.down()
    _show(cluster.status(), json)


def dsn(json: Json = False) -> None:
    """Print the DSN of the embedded server, for psql "$(cerebro-db dsn)"."""
    found = Cluster().dsn()
    if json:
        print_json({"dsn": found})
    else:
        typer.echo(found)


def install(dsn: Dsn = None, json: Json = False) -> None:
    """Install cerebro into a database; again is fine and keeps runs and models.

    As a superuser; or as the owner of the database with CREATEROLE, then without functions in PL/Python.
    """
    with connect(dsn, on_notice=notice) as database:
        complete = install_into(database)
        facts = database.rows(query("check", "server"))[0]
        for row in _rows(database):
            if not row["ok"]:
                notice(f"the server lacks something: {row['item']}: {row['value']}; {row['remedy']}")
    if json:
        print_json({"database": facts["database"], "version": facts["installed"], "plpython": complete})
    else:
        typer.echo(f"cerebro-db {facts['installed']} is installed in database {facts['database']}")


def check(dsn: Dsn = None, json: Json = False) -> None:
    """Show what the server has and lacks, with remedies; exit code 1 when something is missing."""
    rows = _checked(dsn)
    if json:
        print_json(rows)
    else:
        console.print(_table(rows))
    if not all(row["ok"] for row in rows):
        raise typer.Exit(1)


def _checked(dsn: Optional[str]) -> List[Row]:
    with connect(dsn, on_notice=notice) as database:
        require_installed(database)
        return _rows(database)


def _rows(database: PsycopgDatabase) -> List[Row]:
    """The items as the server tells them; from here, where it has no PL/Python."""
    if one(database, query("check", "plpython"))["used"]:
        return database.rows(query("check", "all"))
    return [asdict(item) for item in items(database, _FAILURES, CLIENT_PROBES)]


def _table(rows: List[Row]) -> Table:
    table = Table("", "item", box=None, pad_edge=False)
    for name in ("value", "remedy"):
        table.add_column(name, overflow="fold")
    for row in rows:
        mark = "[green]ok[/]" if row["ok"] else "[red]--[/]"
        table.add_row(mark, row["item"], row["value"], row["remedy"])
    return table


def _show(status: Status, json: bool) -> None:
    if json:
        print_json(asdict(status))
    elif status.up:
        console.print(f"up: PostgreSQL {status.version}, process {status.pid}, {status.home}", markup=False)
        console.print(f'connect with: psql "{status.dsn}"', markup=False)
    else:
        console.print(f"down: {status.home}", markup=False)
