"""The command clean: remove the files that strategy export wrote."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from cerebro_db import export_folder
from cerebro_db.cli.output import Json, print_json
from cerebro_db.export_folder import Removed
from cerebro_db.sqltext import TableName


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command()(clean)


def clean(
    table: Annotated[Optional[str], typer.Argument(help="Packed table whose exports go; default: all exports.")] = None,
    json: Json = False,
) -> None:
    """Remove exports of packed tables of this user; those that a run is reading stay."""
    found = export_folder.remove(TableName.parse(table) if table is not None else None)
    freed = sum(item.bytes for item in found if item.removed)
    if json:
        print_json({"freed_bytes": freed, "exports": [_document(item) for item in found]})
        return
    for item in found:
        typer.echo(_line(item))
    typer.echo(f"{freed:,} bytes came free in {export_folder.root()}")


def _line(item: Removed) -> str:
    did = "removed" if item.removed else "left, a run is using it:"
    return f"{did} {_what(item)}, {item.bytes:,} bytes"


def _what(item: Removed) -> str:
    index = item.index
    if index is None:
        return "what a crash left unfinished"
    part = "all segments" if index.dist_key is None else f"segment {index.dist_key}"
    return f"{index.table} of database {index.database}, {part}"


def _document(item: Removed) -> dict[str, object]:
    index = item.index
    named = {"database": index.database, "table": index.table, "segment": index.dist_key} if index else {}
    return {**named, "bytes": item.bytes, "removed": item.removed}
