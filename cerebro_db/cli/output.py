"""How commands speak: results on stdout (text or JSON), everything else on stderr."""

from __future__ import annotations

import json
from typing import Annotated, Any, Optional

import psycopg2
import typer
from rich.console import Console

from cerebro_db import settings
from cerebro_db.sessions import told

#: Results; --json writes one document here and nothing else.
console = Console(soft_wrap=True, highlight=False)
#: Progress and errors.
stderr = Console(stderr=True, soft_wrap=True, highlight=False)



def configured(context: typer.Context) -> settings.Settings:
    """The configuration file of this command."""
    return settings.find(context.find_root().obj)


def _dsn_or_configured(context: typer.Context, given: Optional[str]) -> Optional[str]:
    return configured(context).dsn if given is None else given


Dsn = Annotated[
    Optional[str],
    typer.Option(
        help="libpq DSN; default: the configuration file, else PGHOST and the rest, else the embedded server.",
        callback=_dsn_or_configured,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]


def print_json(document: Any) -> None:
    """Print one JSON document; paths and times as text."""
    typer.echo(json.dumps(document, default=str))


def notice(message: str) -> None:
    """A line for the person who waits."""
    stderr.print(message, style="dim", markup=False)


def error_line(error: Exception) -> None:
    """`cerebro-db: <sentence>` on stderr, on one line."""
    stderr.print(f"cerebro-db: {_sentence(error)}", style="red", markup=False)


def _sentence(error: Exception) -> str:
    said = told(error) if isinstance(error, psycopg2.Error) else str(error)
    return " ".join(said.removeprefix("cerebro: ").split())
