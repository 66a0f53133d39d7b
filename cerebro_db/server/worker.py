"""A training session: a segment's worker inside a backend. Imported only with signals blocked (`signals.load`)."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import torch

from cerebro_db import hops, light_torch, memory
from cerebro_db.database import Database, one
from cerebro_db.packed_source import PackedSource
from cerebro_db.plan import Plan
from cerebro_db.server import signals
from cerebro_db.sqltext import query

light_torch.defer_compiler(torch)
memory.keep_freed()


def open_worker(plpy: Any, database: Database, run_id: int, segment_id: int) -> hops.SegmentWorker:
    """Read the plan of a run and this segment's rows, through the executor."""
    plan = Plan.from_json(one(database, query("catalog", "plan"), run_id=run_id)["plan"])
    columns = [column.column for column in plan.layout.columns]
    with signals.blocked():
        session = signals.Delivered(database)
        source = partial(PackedSource, session, columns)
        place = hops.Place(run_id, plan, segment_id)
        return hops.SegmentWorker(session, place, source, signals.interrupt_check(plpy))


def check_plan(database: Database, plan: str, initial: str) -> None:
    """Build every config of a plan (JSON) once; `initial` are shapes of first weights by mst_key (JSON)."""
    with signals.blocked():
        hops.check_plan(signals.Delivered(database), Plan.from_json(plan), json.loads(initial))


def warm_up() -> str:
    """Pay for the first imports now, while other sessions pay for theirs."""
    with signals.blocked():
        hops.warm_up()
    return json.dumps({"torch": torch.__version__})

