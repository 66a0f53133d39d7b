"""What strategies share that train inside the server: a session per segment, in which a function trains."""

from __future__ import annotations

import json
from typing import ClassVar, Dict, List, Mapping, Optional, Tuple

import psycopg2

from cerebro_db.database import Database, one
from cerebro_db.engines import on_greenplum
from cerebro_db.errors import SetupError, UsageError
from cerebro_db.hopper import StartHop
from cerebro_db.outages import outage
from cerebro_db.plan import Groups, Plan, as_groups
from cerebro_db.sessions import SLOTS, Session, Sessions, told, wait_any
from cerebro_db.sqltext import query
from cerebro_db.strategies.base import Report
from cerebro_db.strategies.ledger import Ledger, after_loss, cannot_train
from cerebro_db.weights import Shapes

#: SQLSTATEs of a statement whose process ended, here or on a segment of Greenplum: ended by somebody, crashed, not
#: there; and that no connection to it could be had.
PROCESS_GONE = ("57P01", "57P02", "57P03", "58M01")


class InSessions:
    """Training in the backends of sessions; rows come through the executor, state hops through tables."""

    name: ClassVar[str]
    #: Queries of sql/queries/strategies.sql: what a session runs before all else, and the one of a hop.
    prepare: ClassVar[Tuple[str, ...]] = ()
    train: ClassVar[str] = "train_hop"

    @classmethod
    def require(cls, database: Database) -> None:
        """SetupError when the server lacks the functions that train, which need plpython3u."""
        facts = one(database, query("strategies", "missing_functions"))
        if facts["missing"]:
            needed = f"postgresql-plpython3-{facts['major']} on the server's host"
            if on_greenplum(database):
                needed = "plpython3u of this Greenplum on every host"
            raise SetupError(
                f"strategy {cls.name} trains in functions of the server, and database {facts['database']!r} lacks "
                f"cerebro_private.{facts['missing'][0]}, because it was installed without language plpython3u: "
                f"install {needed} and run 'cerebro-db install' "
                "again, or take strategy 'streaming', which needs a connection only"
            )

    def __init__(self, plan: Plan, sessions: Sessions) -> None:
        self._opener = sessions
        self._packed = str(plan.packed)
        self._dist_keys = {segment.segment_id: segment.dist_key for segment in plan.segments}
        self._run_id: Optional[int] = None
        self._sessions: Dict[int, Session] = {}
        self._ledger = Ledger(self._dist_keys)
        self.groups: Groups = ()
        self._checker: Optional[Session] = None
        for segment in self._dist_keys:
            self._start(segment)

    def check(self, plan: Plan, initial: Mapping[int, Shapes]) -> None:
        """In the first segment's session, while the others do their first imports."""
        self._checker = next(iter(self._sessions.values()))
        self._checker.send(query("strategies", "check_plan"), plan=plan.to_json(), initial=json.dumps(initial))

    def ready(self, seconds: float) -> bool:
        wait_any(list(self._sessions.values()), seconds)
        for session in self._sessions.values():
            try:
                rows = session.finish()
            except psycopg2.Error as error:
                raise _refusal(error) from error
            if rows and session is self._checker:
                self.groups = as_groups(json.loads(rows[0][0]))
        return not any(session.busy for session in self._sessions.values())

    def begin(self, run_id: int) -> None:
        self._run_id = run_id
        for segment in self._sessions:
            self._open(segment)

    def submit(self, start: StartHop) -> None:
        hop = start.hop
        self._ledger.started(start)
        self._sessions[hop.segment].send(
            query("strategies", self.train),
            run_id=self._run_id,
            mst_keys=[each.config for each in start.hops],
            epoch=hop.epoch,
            segment_id=hop.segment,
            last=start.last,
        )

    def wait(self, seconds: float) -> List[Report]:
        wait_any(list(self._sessions.values()), seconds)
        return [report for segment in list(self._sessions) for report in self._advance(segment)]

    def rest(self) -> None:
        self._opener.rest(list(self._sessions.values()))
        self._sessions.clear()

    def close(self) -> None:
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()

    def _start(self, segment: int) -> None:
        session = self._sessions[segment] = self._opener.start()
        for name in self.prepare:
            session.send(query("strategies", name))
        if not session.warm:
            session.send(query("strategies", "warm_up"), packed=self._packed, dist_key=self._dist_keys[segment])

    def _open(self, segment: int) -> None:
        self._sessions[segment].send(
            query("strategies", "open_segment"), run_id=self._run_id, segment_id=segment
        )

    def _advance(self, segment: int) -> List[Report]:
        session = self._sessions[segment]
        try:
            rows = session.finish()
        except psycopg2.Error as error:
            return self._failed(segment, error)
        if rows is None:
            return []
        if not self._ledger.is_up(segment):
            return [self._ledger.up(segment)]
        return self._ledger.finished(segment, **json.loads(rows[0][0]))

    def _failed(self, segment: int, error: psycopg2.Error) -> List[Report]:
        """A failed statement fails its hop; a lost session or process is replaced, its hop looked up first."""
        session, reason = self._sessions[segment], sentence(error)
        lost = session.connection.closed or error.pgcode in PROCESS_GONE
        if self._ledger.running(segment) is not None and not lost:
            return self._ledger.failed(segment, reason)
        if not self._ledger.is_up(segment):
            raise cannot_train(segment, reason, self._run_id) from error
        session.close()
        reports = after_loss(self._opener, self._ledger, segment, reason, self._run_id)
        self._start(segment)
        self._open(segment)
        return reports


def sentence(error: psycopg2.Error) -> str:
    """The server's message in one line, without its context; that a process is gone with the place where it was."""
    said = told(error)
    words = said.split()
    if error.pgcode in PROCESS_GONE and error.diag.message_detail and outage(said) is None:
        words += f"({error.diag.message_detail})".split()
    return " ".join(words).replace("cerebro: ", "", 1)


def _refusal(error: psycopg2.Error) -> Exception:
    """A failed check as the error that it was in the session."""
    if error.pgcode == UsageError.sqlstate:
        return UsageError(sentence(error))
    said = sentence(error)
    remedy = f"; {SLOTS}" if outage(said) is None else ""
    return SetupError(f"a training session cannot start: {said}{remedy}")
