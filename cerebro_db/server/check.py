"""What madlib_mop_check calls. Light: nothing here imports torch or numpy."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any, List, Tuple

from cerebro_db import hosts
from cerebro_db.database import Database
from cerebro_db.engines import on_greenplum
from cerebro_db.errors import CerebroError
from cerebro_db.health import LOCK_SECONDS, SERVER_PROBES, items
from cerebro_db.inventory import Item
from cerebro_db.server.entry import sql_function
from cerebro_db.server.plpy_database import PlpyDatabase


@sql_function
def madlib_mop_check(plpy: Any) -> List[Tuple[str, str, bool, str]]:
    """Rows (item, value, ok, remedy); a probe that fails is a row with ok = false."""
    failures = (plpy.Error, plpy.SPIError, CerebroError, ImportError, OSError, ValueError, LookupError)
    database = PlpyDatabase(plpy)
    found = [*items(database, failures, SERVER_PROBES), *_hosts(database, failures)]
    return [astuple(item) for item in found]


def _hosts(database: Database, failures: Tuple[Any, ...]) -> List[Item]:
    """What the hosts of a cluster have, asked in a session as a run has them.

    A backend that has loaded PL/Python hands its own plpython3.python_path to the segments' processes that it starts
    then, and so would not see the one that they have themselves.
    """
    if not on_greenplum(database):
        return []
    try:
        from cerebro_db.loopback import Loopback  # needs psycopg2, which may be what is missing
        from cerebro_db.sessions import ServerError

        with Loopback(database, LOCK_SECONDS) as sessions, sessions.connect() as session:
            return list(hosts.check(session, (*failures, ServerError)))
    except failures:  # why there is no such session is the item "loopback"
        return list(hosts.check(database, failures))


def facts_here() -> str:
    """What the process that calls finds on its host, as JSON."""
    return hosts.facts_here()
