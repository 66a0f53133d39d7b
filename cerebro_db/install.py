"""Install into a database, and remove again: what `psql -f sql/install.sql` does, without psql."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Dict, Iterator, List, Optional, Tuple

import psycopg2

from cerebro_db.client import PsycopgDatabase
from cerebro_db.database import one
from cerebro_db.engines import engine
from cerebro_db.errors import SetupError
from cerebro_db.health import WITHOUT_PLPYTHON, plpython_remedy
from cerebro_db.sqltext import Fragment, query, root

_COMMAND = re.compile(r"^\\(\w+)\s*(.*?)\s*$")
_SET = re.compile(r"^(\w+) '([^']*)'$")
#: Not a cast, which has two colons.
_VARIABLE = re.compile(r"(?<![:\w]):([a-z]\w*)")


def install(database: PsycopgDatabase) -> bool:
    """Install or refresh cerebro in the connected database; keeps runs and models.

    As a superuser with all functions, when the server has plpython3u; else, and as the owner of the database
    with CREATEROLE, without those in PL/Python, which a notice says. Gives whether they are there. New sessions
    see it on their search path. Where `create extension` has installed it, the extension is updated.
    Raises SetupError, with nothing left behind.
    """
    if database.rows(query("check", "extension")):
        _update_extension(database)
        return True
    found = one(database, query("check", "plpython"))
    complete = bool(found["superuser"] and found["available"])
    if not complete and found["superuser"] and found["used"]:
        raise SetupError(
            "this database has cerebro's functions in PL/Python, but the server has no plpython3u any more; "
            "install it again on the server's host, or uninstall first: psql -f sql/uninstall.sql"
        )
    _run(database, root() / "sql" / ("install.sql" if complete else "install_without_python.sql"))
    if not complete:
        why = _lack(found["older"]) if found["superuser"] else "this role is no superuser"
        database.notice(
            f"installed without functions in PL/Python, because {why}: {WITHOUT_PLPYTHON}; "
            f"for these {plpython_remedy(database)}"
        )
    return complete


def _lack(older: Optional[str]) -> str:
    return "the server has no plpython3u" + (f", only Python 2 ({older})" if older else "")


def _update_extension(database: PsycopgDatabase) -> None:
    try:
        database.script(Fragment("alter extension cerebro update"))
    except psycopg2.Error as error:
        raise SetupError(
            f"this database has cerebro-db as an extension, which was not updated: {_sentence(error)}; "
            "its files belong on every host of the server: make -C extension install"
        ) from error


def uninstall(database: PsycopgDatabase) -> None:
    """Drop both schemas with every run in them; users' tables and the roles stay."""
    _run(database, root() / "sql" / "uninstall.sql")


def pieces(file: Path, engine: str, variables: Optional[Dict[str, str]] = None) -> Iterator[Tuple[Path, Fragment]]:
    """The SQL of a psql script in order, each piece with the file it stands in; follows `\\ir`, fills `:variable`.

    `engine` chooses the dialect where the script asks the server for it.
    """
    known = {"dialect": f"{engine}.sql"} if variables is None else variables
    lines: List[str] = []
    for line in file.read_text("utf-8").splitlines(keepends=True):
        command = _COMMAND.match(line)
        if command is None:
            lines.append(_filled(line, known))
            continue
        name, argument = command.groups()
        if name != "gset":  # the query before it asks for the dialect, which is known
            yield file, Fragment("".join(lines))
        lines = []
        if name == "ir":
            yield from pieces(file.parent / _filled(argument, known), engine, known)
        else:
            _obey(file, name, argument, known)
    yield file, Fragment("".join(lines))


def _obey(file: Path, command: str, argument: str, variables: Dict[str, str]) -> None:
    value = _SET.match(argument)
    if command == "set" and value is not None:
        variables[value.group(1)] = value.group(2)
    elif command not in ("echo", "gset") and (command, argument) != ("set", "ON_ERROR_STOP on"):
        raise ValueError(f"{file}: \\{command} {argument}: expected \\ir, \\echo, \\gset or \\set name 'value'")


def _filled(line: str, variables: Dict[str, str]) -> str:
    return _VARIABLE.sub(lambda match: variables.get(match.group(1), match.group()), line)


def _run(database: PsycopgDatabase, script: Path) -> None:
    for file, sql in pieces(script, engine(database)):
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
