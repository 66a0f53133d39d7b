"""Install into a database, and remove again: what `psql -f sql/install.sql` does, without psql."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Iterator, Tuple

import psycopg2

from cerebro_db.client import PsycopgDatabase
from cerebro_db.database import one
from cerebro_db.errors import SetupError
from cerebro_db.health import WITHOUT_PLPYTHON, plpython_remedy
from cerebro_db.sqltext import Fragment, query, root

_COMMAND = re.compile(r"^\\(\w+)\s*(.*?)\s*$")


def install(database: PsycopgDatabase) -> bool:
    """Install or refresh cerebro in the connected database; keeps runs and models.

    As a superuser with all functions, when the server has plpython3u; else, and as the owner of the database
    with CREATEROLE, without those in PL/Python, which a notice says. Gives whether they are there. New sessions
    see it on their search path. Raises SetupError, with nothing left behind.
    """
    found = one(database, query("check", "plpython"))
    complete = bool(found["superuser"] and found["available"])
    if not complete and found["superuser"] and found["used"]:
        raise SetupError(
            "this database has cerebro's functions in PL/Python, but the server has no plpython3u any more; "
            "install it again on the server's host, or uninstall first: psql -f sql/uninstall.sql"
        )
    _run(database, root() / "sql" / ("install.sql" if complete else "install_without_python.sql"))
    if not complete:
        why = "the server has no plpython3u" if found["superuser"] else "this role is no superuser"
        database.notice(
            f"installed without functions in PL/Python, because {why}: {WITHOUT_PLPYTHON}; "
            f"for these {plpython_remedy(database)}"
        )
    return complete


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
