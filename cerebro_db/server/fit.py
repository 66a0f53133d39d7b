"""What madlib_mop_fit and its kin call. Light: psycopg2 and numpy come in with signals blocked."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, Dict, Iterator, List, Optional

from cerebro_db.engines import on_greenplum
from cerebro_db.server import signals
from cerebro_db.server.entry import sql_function
from cerebro_db.server.plpy_database import PlpyDatabase

_RUNS = "cerebro_db.runs"


@sql_function
def fit(plpy: Any, *arguments: Any) -> Dict[str, Any]:
    """Coordinate a new run from this backend; arguments in the order of madlib_mop_fit."""
    runs = signals.load(_RUNS)
    with _host(plpy) as host:
        return dict(runs.fit(host, runs.FitRequest(*arguments)))


@sql_function
def resume(plpy: Any, run_id: int) -> Dict[str, Any]:
    """Finish a run that was interrupted."""
    with _host(plpy) as host:
        return dict(signals.load(_RUNS).resume(host, run_id))


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


@contextmanager
def _host(plpy: Any) -> Iterator[Any]:
    """This backend as the coordinator's; a trivial statement is how PL/Python looks for a cancel or a timeout.

    Greenplum's PL/Python raises KeyboardInterrupt for them besides, between any two lines. There they wait until
    the coordinator looks.
    """
    database = PlpyDatabase(plpy)
    with signals.blocked() if on_greenplum(database) else nullcontext():
        seen = signals.Delivered(database) if on_greenplum(database) else database
        sessions = partial(signals.load("cerebro_db.loopback").Loopback, seen)
        look = signals.look if on_greenplum(database) else lambda: plpy.execute("select 1")
        yield signals.load(_RUNS).Host(seen, look, sessions)
