"""The command `cerebro-db`: exit codes 0 done, 1 an error in one line on stderr, 2 wrong usage."""

from __future__ import annotations

from typing import Any

import psycopg2
import typer
from typer.core import TyperGroup

from cerebro_db.cli import runs, server
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


app = typer.Typer(
    name="cerebro-db",
    help="Trains many PyTorch configs inside a database. The rows stay; the models hop.",
    cls=OneLineErrors,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
server.register(app)
runs.register(app)
