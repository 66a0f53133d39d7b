"""What madlib_mop_check calls. Light: nothing here imports torch or numpy."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any, List, Tuple

from cerebro_db import hosts
from cerebro_db.errors import CerebroError
from cerebro_db.health import SERVER_PROBES, items
from cerebro_db.server.entry import sql_function
from cerebro_db.server.plpy_database import PlpyDatabase


@sql_function
def madlib_mop_check(plpy: Any) -> List[Tuple[str, str, bool, str]]:
    """Rows (item, value, ok, remedy); a probe that fails is a row with ok = false."""
    failures = (plpy.Error, plpy.SPIError, CerebroError, ImportError, OSError, ValueError, LookupError)
    database = PlpyDatabase(plpy)
    found = [*items(database, failures, SERVER_PROBES), *hosts.check(database, failures)]
    return [astuple(item) for item in found]


def facts_here() -> str:
    """What the process that calls finds on its host, as JSON."""
    return hosts.facts_here()
