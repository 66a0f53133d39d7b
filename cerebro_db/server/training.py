"""What the functions of a training session call. Light: torch comes in with signals blocked.

On PostgreSQL the session itself trains. On Greenplum it has the segment's own process train, and imports no torch.
"""

from __future__ import annotations

import json
from typing import Any, Dict, List

from cerebro_db import remote, rounds
from cerebro_db.catalog import Catalog
from cerebro_db.engines import on_greenplum
from cerebro_db.errors import RunError
from cerebro_db.messages import Message
from cerebro_db.plan import Plan
from cerebro_db.server import signals
from cerebro_db.server.entry import sql_function
from cerebro_db.server.plpy_database import PlpyDatabase
from cerebro_db.sqltext import TableName
from cerebro_db.visits import Place, configs

_WORKER = "cerebro_db.server.worker"


@sql_function
def warm_up(plpy: Any, packed_table: str, dist_key: int) -> str:
    """Import torch and its optimizers where rows of this key will train."""
    database = PlpyDatabase(plpy)
    if not on_greenplum(database):
        return str(signals.load(_WORKER).warm_up())
    remote.prepare(database)
    channel = remote.Channel(database, TableName.parse(packed_table), dist_key)
    return json.dumps(channel.tell(Message({"do": "warm"})).head)


@sql_function
def check_plan(plpy: Any, plan: str, initial: str) -> str:
    """Build every config of a plan once; the configs to train as one. `initial`: shapes of first weights by mst_key."""
    database = PlpyDatabase(plpy)
    if not on_greenplum(database):
        return json.dumps(signals.load(_WORKER).check_plan(database, plan, initial))
    planned = Plan.from_json(plan)
    channel = remote.Channel(database, planned.packed, planned.segments[0].dist_key)
    answer = channel.tell(Message({"do": "check", "plan": plan, "initial": json.loads(initial)}))
    return json.dumps(answer.head["groups"])


@sql_function
def open_segment(plpy: Any, memory: Dict[Any, Any], run_id: int, segment_id: int) -> str:
    """Keep a segment's rows in this session, or in the segment's process."""
    database = PlpyDatabase(plpy)
    place = Place(run_id, Catalog(database, run_id).plan(), segment_id)
    if on_greenplum(database):
        remote.prepare(database)
        memory[_key(run_id, segment_id)] = remote.RemoteWorker(database, place)
    else:
        memory[_key(run_id, segment_id)] = signals.load(_WORKER).SessionWorker(plpy, database, place)
    return "up"


@sql_function
def train_hop(
    plpy: Any, memory: Dict[Any, Any], run_id: int, mst_keys: List[int], epoch: int, segment_id: int, last: bool
) -> str:
    """Train a config, or several as one, over the segment that this session has opened."""
    worker = memory.get(_key(run_id, segment_id))
    if worker is None:
        raise RunError(f"this session has not opened segment {segment_id} of run {run_id}; call open_segment first")
    phase = f"cerebro run {run_id}: {configs(mst_keys)} epoch {epoch} segment {segment_id}"
    _show(plpy, phase)
    return json.dumps(worker.hop(mst_keys, epoch, last))


@sql_function
def train_round(plpy: Any, memory: Dict[Any, Any], run_id: int, hops: str) -> str:
    """Train hops (JSON), one on each segment that this session has opened, by one statement."""
    database = PlpyDatabase(plpy)
    starts = [rounds.Start(**hop) for hop in json.loads(hops)]
    opened = {start.segment_id: memory.get(_key(run_id, start.segment_id)) for start in starts}
    workers = {segment: worker for segment, worker in opened.items() if worker is not None}
    if len(workers) < len(opened):
        raise RunError(f"this session has not opened every segment of run {run_id}; call open_segment first")
    _show(plpy, f"cerebro run {run_id}: round of {len(starts)} configs")
    return json.dumps(rounds.train(database, run_id, workers, starts))


@sql_function
def clear_session(plpy: Any, memory: Dict[Any, Any]) -> None:
    """Forget the segments that this session has opened, their rows and modules; imports stay."""
    for key in [key for key in memory if isinstance(key, tuple) and key[:1] == ("cerebro",)]:
        del memory[key]
    signals.load("cerebro_db.memory").give_back()


def _show(plpy: Any, phase: str) -> None:
    plpy.execute(plpy.prepare("select pg_catalog.set_config('application_name', $1, false)", ["text"]), [phase])


def _key(run_id: int, segment_id: int) -> Any:
    return ("cerebro", run_id, segment_id)
