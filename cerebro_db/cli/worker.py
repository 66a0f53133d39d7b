"""Command `worker`: serve one worker of a run, as strategies start them."""

from __future__ import annotations

import typer

from cerebro_db.worker.serve import main


def register(app: typer.Typer) -> None:
    """Add the command to the app; people rarely call it, so help does not list it."""
    app.command(hidden=True)(worker)


def worker() -> None:
    """Train one segment by messages: a JSON line of stdin each, answered on stdout; ends with stdin."""
    main()
