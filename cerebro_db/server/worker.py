"""Training in a backend: a session, or a segment of Greenplum. Imported only with signals blocked (`signals.load`)."""

from __future__ import annotations

import json
from functools import partial
from typing import Any, Dict, List, Optional

import torch

from cerebro_db import hops, light_torch, memory, resident, trainer
from cerebro_db.database import Database
from cerebro_db.messages import Message
from cerebro_db.packed_source import PackedSource
from cerebro_db.plan import Groups, Plan
from cerebro_db.server import signals
from cerebro_db.server.plpy_database import PlpyDatabase
from cerebro_db.visits import Place

light_torch.defer_compiler(torch)
memory.keep_freed()


class SessionWorker:
    """A segment's worker in this session, which reads the rows through the executor."""

    def __init__(self, plpy: Any, database: Database, place: Place) -> None:
        with signals.blocked():
            session = signals.Delivered(database)
            source = partial(PackedSource, session, place.plan.layout.names)
            self._worker = hops.SegmentWorker(session, place, source, signals.interrupt_check(plpy))

    def hop(self, mst_keys: List[int], epoch: int, last: bool) -> Dict[str, Any]:
        """As `hops.SegmentWorker.hop`."""
        with signals.blocked():
            return self._worker.hop(mst_keys, epoch, last)


def check_plan(database: Database, plan: str, initial: str) -> Groups:
    """Build every config of a plan (JSON) once; `initial` are shapes of first weights by mst_key (JSON)."""
    with signals.blocked():
        return hops.check_plan(signals.Delivered(database), Plan.from_json(plan), json.loads(initial))


def warm_up() -> str:
    """Pay for the first imports now, while other sessions pay for theirs."""
    with signals.blocked():
        trainer.warm_up()
    return json.dumps({"torch": torch.__version__})


def in_segment(
    plpy: Any, kept: Dict[Any, Any], head: str, buffer_id: int, data: List[bytes]
) -> Optional[List[bytes]]:
    """In the process of a segment: tell its trainer a message."""
    with signals.blocked():
        database = signals.Delivered(PlpyDatabase(plpy))
        process = resident.Process(kept, database, signals.interrupt_check(plpy))
        answer = process.answer(Message(json.loads(head), data), buffer_id)
        return None if answer is None else answer.sealed()
