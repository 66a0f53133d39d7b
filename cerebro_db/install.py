"""Install into a database, and remove again: what `psql -f sql/install.sql` does, without psql."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Iterator, Tuple

import psycopg2

from cerebro_db.client import PsycopgDatabase
from cerebro_db.errors import SetupError
from cerebro_db.sqltext import Fragment, root

_COMMAND = re.compile(r"^\\(\w+)\s*(.*?)\s*$")


def install(database: PsycopgDatabase) -> None:
    """Install or refresh cerebro in the connected database, as a superuser; keeps runs and models.

    New sessions see it on their search path. Raises SetupError, with nothing left behind.
    """
    _run(database, root() / "sql" / "install.sql")


def uninstall(database: PsycopgDatabase) -> None:
    """Drop both schemas with every run in them; users' tables and the roles stay."""
    _run(database, root() / "sql" / "uninstall.sql")


def pieces(file: Path) -> Iterator[Tuple[Path, Fragment]]:
    """The SQL of a psql script in order, each piece with the file it stands in; follows `\\ir`."""
    lines = []
    for line in file.read_text("utf-8").splitlines(keepends=True):
        command = _COMMAND.match(line)
        if command is None:
            lines.append(line)
            continue
        yield file, Fragment("".join(lines))
        lines = []
        yield from _obey(file, *command.groups())
    yield file, Fragment("".join(lines))


def _obey(file: Path, command: str, argument: str) -> Iterator[Tuple[Path, Fragment]]:
    if command == "ir":
        yield from pieces(file.parent / argument)
    elif command != "echo" and (command, argument) != ("set", "ON_ERROR_STOP on"):
        raise ValueError(f"{file}: \\{command} {argument}: expected \\ir, \\echo or \\set ON_ERROR_STOP on")


def _run(database: PsycopgDatabase, script: Path) -> None:
    for file, sql in pieces(script):
        if not _only_comments(sql):
            _execute(database, file, sql)


def _only_comments(sql: str) -> bool:
    return all(not line.strip() or line.startswith("--") for line in sql.splitlines())


def _execute(database: PsycopgDatabase, file: Path, sql: Fragment) -> None:
    try:
        database.script(sql)
    except psycopg2.Error as error:
        if not database.connection.closed:
            database.script(Fragment("rollback"))
        raise SetupError(f"{file.name}: {_sentence(error)}") from error


def _sentence(error: psycopg2.Error) -> str:
    told = error.diag
    parts = (told.message_primary or str(error).strip(), told.message_detail, told.message_hint)
    return "; ".join(part for part in parts if part)
