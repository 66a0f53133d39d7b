"""What the functions of a training session call. Light: torch comes in with signals blocked."""

from __future__ import annotations

import json
from typing import Any, Dict

from cerebro_db.errors import RunError
from cerebro_db.server import signals
from cerebro_db.server.entry import sql_function
from cerebro_db.server.plpy_database import PlpyDatabase

_WORKER = "cerebro_db.server.worker"


@sql_function
def warm_up(plpy: Any) -> str:
    """Import torch and its optimizers."""
    return str(signals.load(_WORKER).warm_up())


@sql_function
def check_plan(plpy: Any, plan: str, initial: str) -> None:
    """Build every config of a plan once; `initial` are shapes of first weights by mst_key."""
    signals.load(_WORKER).check_plan(PlpyDatabase(plpy), plan, initial)


@sql_function
def open_segment(plpy: Any, memory: Dict[Any, Any], run_id: int, segment_id: int) -> str:
    """Keep a segment's rows in this session."""
    worker = signals.load(_WORKER).open_worker(plpy, PlpyDatabase(plpy), run_id, segment_id)
    memory[_key(run_id, segment_id)] = worker
    return "up"


@sql_function
def train_hop(
    plpy: Any, memory: Dict[Any, Any], run_id: int, mst_key: int, epoch: int, segment_id: int, last: bool
) -> str:
    """Train one config over the segment that this session keeps."""
    worker = memory.get(_key(run_id, segment_id))
    if worker is None:
        raise RunError(f"this session has not opened segment {segment_id} of run {run_id}; call open_segment first")
    phase = f"cerebro run {run_id}: config {mst_key} epoch {epoch} segment {segment_id}"
    plpy.execute(plpy.prepare("select pg_catalog.set_config('application_name', $1, false)", ["text"]), [phase])
    with signals.blocked():
        return json.dumps(worker.hop(mst_key, epoch, last))


def _key(run_id: int, segment_id: int) -> Any:
    return ("cerebro", run_id, segment_id)
