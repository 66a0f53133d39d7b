"""A worker's side of the messages: it opens its own session, keeps a segment's rows and trains what hops by.

    {"do": "start", "strategy", "parameters", "setup"}  -> {"answer": "ready"}     a session by this login
    {"do": "check", "plan", "initial"}                  -> {"answer": "checked", "groups"}   every config can be built
    {"do": "open", "run_id", "segment_id"}              -> {"answer": "up"}        the segment's rows are here
    {"do": "hop", "mst_keys", "epoch", "last"}          -> {"answer": "finished", "seconds", "diverged"}
    {"do": "rest", "seconds"}                           -> {"answer": "resting"}   all that is let go of; it ends when
                                                                                   nothing comes for so long
    {"do": "wake"}                                      -> {"answer": "awake"}     ready for another "start"

Any may be answered by {"answer": "failed", "message", "sqlstate"}, after which the worker goes on, or by
{"answer": "lost", "message"} when its session has ended, after which it is of no use.
"""

from __future__ import annotations

import gc
import time
from typing import Any, Callable, Dict, List, Mapping, Optional

import torch
from psycopg2 import extensions

from cerebro_db import hops, light_torch, memory, trainer
from cerebro_db.batches import Source
from cerebro_db.catalog import Catalog
from cerebro_db.client import PsycopgDatabase
from cerebro_db.errors import CerebroError, RunError, SetupError, UsageError, line_of, unknown
from cerebro_db.plan import Plan
from cerebro_db.sessions import SLOTS, Login, ServerError, told, why_lost
from cerebro_db.sqltext import query
from cerebro_db.strategies.registry import STRATEGIES
from cerebro_db.visits import Place, configs

light_torch.defer_compiler(torch)
memory.keep_freed()

Answer = Dict[str, Any]

#: How often a worker looks between batches whether its session lives [s].
LOOK_SECONDS = 1.0
#: What torch, NumPy and listed factories raise; it fails a hop and not the process.
_FAILURES = (
    ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, MemoryError, NameError, OSError,
    RuntimeError, TypeError, ValueError,
)  # fmt: skip


class Worker:
    """Answers messages, one at a time; used from one thread."""

    def __init__(self) -> None:
        self._strategy = ""
        self._login: Optional[Login] = None
        self._session: Optional[PsycopgDatabase] = None
        self._run_id = 0
        self._segment: Optional[hops.SegmentWorker] = None
        self._segment_id = 0
        self._sources: List[Source] = []
        self._looked = time.monotonic()
        self._known: Mapping[str, Callable[..., Answer]] = {
            "start": self._start,
            "check": self._check_plan,
            "open": self._open,
            "hop": self._hop,
            "rest": self._rest,
            "wake": self._wake,
        }

    def answer(self, message: Mapping[str, Any]) -> Answer:
        """Do what a message asks and say what came of it."""
        try:
            values = dict(message)
            name = values.pop("do", None)
            if name not in self._known:
                raise unknown("message to a worker", name, self._known)
            return self._known[name](**values)
        except CerebroError as error:
            failed = _failed(str(error), error.sqlstate)
        except ServerError as error:
            failed = _failed(told(error), error.pgcode)
        except _FAILURES as error:
            failed = _failed(f"{type(error).__name__}: {line_of(error)}", None)
        return self._settled(failed)

    def _start(self, strategy: str, parameters: Mapping[str, Any], setup: str) -> Answer:
        if getattr(STRATEGIES.get(strategy), "open_source", None) is None:
            raise UsageError(f"strategy {strategy!r} has no worker processes, expected one that has")
        self._strategy = strategy
        self._login = Login(parameters, setup)
        try:
            self._session = self._login.connect()
        except SetupError as error:
            reason = line_of(error.__cause__ or error)
            raise SetupError(f"a worker process cannot open its session: {reason}; {SLOTS}") from error
        trainer.warm_up()
        return {"answer": "ready"}

    def _check_plan(self, plan: str, initial: Mapping[str, Any]) -> Answer:
        return {"answer": "checked", "groups": hops.check_plan(self._database(), Plan.from_json(plan), initial)}

    def _open(self, run_id: int, segment_id: int) -> Answer:
        database = self._database()
        self._run_id, self._segment_id = run_id, segment_id
        plan = Catalog(database, run_id).plan()
        # A strategy that trains in worker processes has this function; `_start` has looked.
        source = getattr(STRATEGIES[self._strategy], "open_source")(self._login, database, plan)  # noqa: B009

        def opened(*rows: Any) -> Source:
            self._sources.append(source(*rows))
            return self._sources[-1]

        self._segment = hops.SegmentWorker(database, Place(run_id, plan, segment_id), opened, self._look)
        return {"answer": "up"}

    def _hop(self, mst_keys: List[int], epoch: int, last: bool) -> Answer:
        if self._segment is None:
            raise UsageError("this worker has opened no segment, expected the message 'open' before 'hop'")
        phase = f"cerebro run {self._run_id}: {configs(mst_keys)} epoch {epoch} segment {self._segment_id}"
        self._database().rows(query("worker", "show_phase"), phase=phase)
        return {"answer": "finished", **self._segment.hop(mst_keys, epoch, last)}

    def _rest(self, seconds: float) -> Answer:
        """Let go of the run: rows, modules, the session and its password. Imports stay."""
        self._segment, self._login, self._strategy = None, None, ""
        for source in self._sources:
            getattr(source, "close", _nothing)()  # a reader ahead has a session, too
        self._sources.clear()
        if self._session is not None:
            self._session.close()
            self._session = None
        memory.give_back()
        return {"answer": "resting", "patience": seconds}

    def _wake(self) -> Answer:
        return {"answer": "awake"}

    def _database(self) -> PsycopgDatabase:
        if self._session is None:
            raise UsageError("this worker has no session, expected the message 'start' first")
        return self._session

    def _look(self) -> None:
        """Between batches: a hop whose session has ended cannot be kept, so it ends now."""
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        session = self._database()
        if session.connection.info.transaction_status == extensions.TRANSACTION_STATUS_ACTIVE:
            return  # it reads rows, and will see for itself
        reason = why_lost(session)
        if reason is not None:
            raise RunError(f"the session of this worker has ended: {reason}")

    def _settled(self, failed: Answer) -> Answer:
        """After a failure: the session as it was before, or the word that it is lost."""
        if self._session is None:
            return failed
        connection = self._session.connection
        if not connection.closed and not _is_idle(connection):
            gc.collect()  # a stream that was not read to its end rolls back as it goes
        try:
            if not connection.closed and not _is_idle(connection):
                connection.rollback()
        except ServerError:
            connection.close()
        return {"answer": "lost", "message": failed["message"]} if connection.closed else failed


def _nothing() -> None:
    pass


def _failed(message: str, sqlstate: Optional[str]) -> Answer:
    return {"answer": "failed", "message": message, "sqlstate": sqlstate or CerebroError.sqlstate}


def _is_idle(connection: Any) -> bool:
    return bool(connection.info.transaction_status == extensions.TRANSACTION_STATUS_IDLE)
