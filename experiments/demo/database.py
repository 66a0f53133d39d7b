"""Makes the database that a DSN names, when the server has none of that name yet.

    python -m experiments.demo.database DSN [PYTHON_PATH]

PYTHON_PATH, for Greenplum, is where its hosts have the packages, unless plpython3.python_path of the cluster says it.
"""

from __future__ import annotations

import sys
from typing import List, Optional

from psycopg2 import extensions

from cerebro_db.client import PsycopgDatabase, connect, make_dsn
from cerebro_db.errors import CerebroError
from cerebro_db.sqltext import Fragment, fill, ident, query

#: Every server has it.
MAINTENANCE = "postgres"


def prepare(dsn: str, python_path: Optional[str]) -> bool:
    """Whether the database had to be made."""
    name = extensions.parse_dsn(dsn).get("dbname") or extensions.parse_dsn(dsn).get("user") or MAINTENANCE
    with connect(make_dsn(dsn, dbname=MAINTENANCE)) as server:
        found = server.rows(query("cluster", "database_exists"), name=name)
        if not found:
            server.script(fill(Fragment("create database {name}"), name=ident(name)))
        if python_path:
            _set_python_path(server, name, python_path)
    return not found


def _set_python_path(server: PsycopgDatabase, name: str, path: str) -> None:
    server.script(Fragment("load 'plpython3'"))  # until then the setting is not known
    statement = fill(Fragment("alter database {name} set plpython3.python_path to {path}"), name=ident(name),
                     path=Fragment(extensions.QuotedString(path).getquoted().decode()))
    server.script(statement)


def main(words: List[str]) -> int:
    try:
        made = prepare(words[0], words[1] if len(words) > 1 else None)
    except CerebroError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write("database made\n" if made else "the database is there\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
