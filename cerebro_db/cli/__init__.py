"""The command `cerebro-db`: exit codes 0 done, 1 an error in one line on stderr, 2 wrong usage."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Optional

import psycopg2
import typer
from typer.core import TyperGroup

from cerebro_db import __version__
from cerebro_db.cli import clean, export, runs, server, worker
from cerebro_db.cli.output import error_line
from cerebro_db.errors import CerebroError


class OneLineErrors(TyperGroup):
    """Turns the errors a user can cause into one line; a defect of ours keeps its traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (CerebroError, psycopg2.Error) as error:
            error_line(error)
            raise typer.Exit(1) from error


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cerebro-db {__version__}")
        raise typer.Exit


app = typer.Typer(
    name="cerebro-db",
    cls=OneLineErrors,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def main(
    context: typer.Context,
    config: Annotated[
        Optional[Path],
        typer.Option(
            metavar="FILE",
            help="TOML file of settings; default: $CEREBRO_CONFIG, ./cerebro.toml, ~/.config/cerebro-db/config.toml.",
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """Trains many PyTorch configs inside a database. The rows stay; the models hop."""
    context.obj = config


server.register(app)
runs.register(app)
worker.register(app)
export.register(app)
clean.register(app)
