"""What madlib_mop_fit and its kin call. Light: psycopg2 and numpy come in with signals blocked."""

from __future__ import annotations

from functools import partial
from typing import Any, Dict, List, Optional

from cerebro_db.server import signals
from cerebro_db.server.entry import sql_function
from cerebro_db.server.plpy_database import PlpyDatabase

_RUNS = "cerebro_db.runs"


@sql_function
def fit(plpy: Any, *arguments: Any) -> Dict[str, Any]:
    """Coordinate a new run from this backend; arguments in the order of madlib_mop_fit."""
    runs = signals.load(_RUNS)
    return dict(runs.fit(_host(plpy), runs.FitRequest(*arguments)))


@sql_function
def resume(plpy: Any, run_id: int) -> Dict[str, Any]:
    """Finish a run that was interrupted."""
    return dict(signals.load(_RUNS).resume(_host(plpy), run_id))


@sql_function
def cancel(plpy: Any, run_id: int) -> bool:
    """Cancel a run of another session."""
    return bool(signals.load(_RUNS).cancel(PlpyDatabase(plpy), run_id))


@sql_function
def status(plpy: Any, run_id: Optional[int]) -> List[Dict[str, Any]]:
    """Progress of one run or all."""
    return list(signals.load(_RUNS).status(PlpyDatabase(plpy), run_id))


@sql_function
def forget(plpy: Any, run_id: int) -> None:
    """Remove a run."""
    signals.load(_RUNS).forget(PlpyDatabase(plpy), run_id)


def _host(plpy: Any) -> Any:
    database = PlpyDatabase(plpy)
    sessions = partial(signals.load("cerebro_db.loopback").Loopback, database)
    # A trivial statement is how PL/Python looks for a cancel or a timeout.
    return signals.load(_RUNS).Host(database, lambda: plpy.execute("select 1"), sessions)
