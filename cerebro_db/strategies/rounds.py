"""Strategy `in_rdbms` with order `round` on Greenplum: one session, in which one statement trains a round."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import List, Mapping, Optional, Sequence

import psycopg2

from cerebro_db.database import one
from cerebro_db.engines import on_greenplum
from cerebro_db.hopper import StartHop
from cerebro_db.plan import Plan
from cerebro_db.sessions import Session, Sessions, wait_any
from cerebro_db.sqltext import query
from cerebro_db.strategies.base import Report
from cerebro_db.strategies.in_rdbms import InRdbms
from cerebro_db.strategies.in_sessions import PROCESS_GONE, sentence
from cerebro_db.strategies.ledger import after_loss, cannot_train
from cerebro_db.weights import Shapes


def in_rounds(plan: Plan, sessions: Sessions) -> InRdbms:
    """One statement per round, on a Greenplum where that can be; else a session per segment."""
    with sessions.connect() as session:
        if not on_greenplum(session):
            return InRdbms(plan, sessions)
        primaries: int = one(session, query("rounds", "primaries"))["primaries"]
    hindrance = _hindrance(plan, primaries)
    if hindrance is None:
        return Rounds(plan, sessions)
    strategy = InRdbms(plan, sessions)
    strategy.remarks = (f"{hindrance}: each hop of a round is a statement of its own",)
    return strategy


def _hindrance(plan: Plan, primaries: int) -> Optional[str]:
    """Why one statement cannot train a round."""
    size = max(segment.rows for segment in plan.segments) * plan.layout.row_bytes
    if size > plan.options.cache_bytes:
        return f"a segment's rows take {size} bytes, more than cache_mb := {plan.options.cache_mb} keeps"
    # Segment i lies on primary i modulo their number, and a session has one process there that keeps rows.
    if max(segment.segment_id for segment in plan.segments) >= primaries:
        return f"table {plan.packed} has several segments on one of {primaries} primaries"
    return None


class Rounds(InRdbms):
    """Training on all segments by one statement. The session has them all open."""

    def __init__(self, plan: Plan, sessions: Sessions) -> None:
        self._session: Optional[Session] = None
        self._starts: List[StartHop] = []
        super().__init__(plan, sessions)

    def check(self, plan: Plan, initial: Mapping[int, Shapes]) -> None:
        """A round moves one state to each segment, so no configs are trained as one."""
        super().check(replace(plan, options=replace(plan.options, fuse="off")), initial)

    def begin(self, run_id: int) -> None:
        self._run_id = run_id
        self._open_all()

    def submit(self, start: StartHop) -> None:
        self._ledger.started(start)
        self._starts.append(start)

    def wait(self, seconds: float) -> List[Report]:
        if self._starts:
            self._send_round()
        session = self._one()
        wait_any([session], seconds)
        try:
            rows = session.finish()
        except psycopg2.Error as error:
            return self._broken(error)
        if rows is None:
            return []
        if not all(map(self._ledger.is_up, self._dist_keys)):
            return [self._ledger.up(segment) for segment in self._dist_keys]
        return [report for result in json.loads(rows[0][0]) for report in self._told(**result)]

    def _start(self, segment: int) -> None:
        """All segments share the session."""
        if self._session is None:
            self._session = self._opener.start()
        self._sessions[segment] = self._session
        self._session.send(
            query("strategies", "warm_up"), packed=self._packed, dist_key=self._dist_keys[segment]
        )

    def _open_all(self) -> None:
        for segment in self._dist_keys:
            self._open(segment)
        self._one().send(query("strategies", "open_rounds"), run_id=self._run_id)

    def _one(self) -> Session:
        assert self._session is not None
        return self._session

    def _send_round(self) -> None:
        hops = [
            {"mst_key": s.hop.config, "epoch": s.hop.epoch, "segment_id": s.hop.segment, "last": s.last}
            for s in self._starts
        ]
        self._starts.clear()
        self._one().send(query("strategies", "train_round"), run_id=self._run_id, hops=json.dumps(hops))

    def _told(
        self, segment_id: int, failed: Optional[str], seconds: float = 0.0, diverged: Sequence[int] = ()
    ) -> List[Report]:
        if failed is not None:
            return self._ledger.failed(segment_id, failed)
        return self._ledger.finished(segment_id, seconds, diverged)

    def _broken(self, error: psycopg2.Error) -> List[Report]:
        """A failed statement fails the round's hops; a lost session or process is replaced, those looked up first."""
        session, reason = self._one(), sentence(error)
        running = [segment for segment in self._dist_keys if self._ledger.running(segment) is not None]
        if running and not session.connection.closed and error.pgcode not in PROCESS_GONE:
            return [report for segment in running for report in self._ledger.failed(segment, reason)]
        if not all(map(self._ledger.is_up, self._dist_keys)):
            raise cannot_train(next(iter(self._dist_keys)), reason, self._run_id) from error
        session.close()
        self._session = None
        reports: List[Report] = []
        for segment in self._dist_keys:
            reports += after_loss(self._opener, self._ledger, segment, reason, self._run_id)
        for segment in self._dist_keys:
            self._start(segment)
        self._open_all()
        return reports
