"""What strategies with worker processes share: one worker per segment, each with a session of its own."""

from __future__ import annotations

from typing import ClassVar, Dict, List, Mapping, Optional

from cerebro_db.errors import SQL_ERRORS, CerebroError, RunError, SetupError
from cerebro_db.executors.base import Answer, Loss, Message, News
from cerebro_db.executors.registry import open_executor
from cerebro_db.hopper import StartHop
from cerebro_db.plan import Groups, Plan, as_groups
from cerebro_db.sessions import Sessions
from cerebro_db.strategies.base import Report
from cerebro_db.strategies.ledger import Ledger, after_loss, cannot_train
from cerebro_db.weights import Shapes


class Workers:
    """Training in worker processes. A subclass has a name, and the function by which a worker opens its rows:

        @staticmethod
        def open_source(login: Login, database: PsycopgDatabase, plan: Plan) -> OpenSource

    It runs in the worker process, where `database` is the worker's session and `login` opens further ones.
    """

    name: ClassVar[str]

    def __init__(self, plan: Plan, sessions: Sessions) -> None:
        self._segments = [segment.segment_id for segment in plan.segments]
        self._sessions = sessions
        self._run_id: Optional[int] = None
        self._ledger = Ledger(self._segments)
        self.groups: Groups = ()
        #: Messages that a segment's worker has not answered yet.
        self._unanswered: Dict[int, int] = {}
        self._executor = open_executor(plan.options.executor, sessions.owner)
        try:
            for segment in self._segments:
                self._start(segment)
        except BaseException:
            self._executor.close()
            raise

    def check(self, plan: Plan, initial: Mapping[int, Shapes]) -> None:
        """In the first segment's worker, while the others do their first imports."""
        shapes = {str(key): shape for key, shape in initial.items()}
        self._send(self._segments[0], {"do": "check", "plan": plan.to_json(), "initial": shapes})

    def ready(self, seconds: float) -> bool:
        for news in self._news(seconds):
            if isinstance(news, Loss):
                raise SetupError(f"a training process cannot start: {news.reason}")
            if news.message["answer"] in ("failed", "lost"):
                raise as_error(news.message)
            if news.message["answer"] == "checked":
                self.groups = as_groups(news.message["groups"])
        return not any(self._unanswered.values())

    def begin(self, run_id: int) -> None:
        self._run_id = run_id
        for segment in self._segments:
            self._open(segment)

    def submit(self, start: StartHop) -> None:
        hop = start.hop
        self._ledger.started(start)
        configs = [each.config for each in start.hops]
        self._send(hop.segment, {"do": "hop", "mst_keys": configs, "epoch": hop.epoch, "last": start.last})

    def wait(self, seconds: float) -> List[Report]:
        reports: List[Report] = []
        for news in self._news(seconds):
            reports.extend(self._reports(news))
        return reports

    def rest(self) -> None:
        self._executor.rest(self._sessions.keep_seconds)

    def close(self) -> None:
        self._executor.close()

    def _start(self, segment: int) -> None:
        login = self._sessions.login
        self._unanswered[segment] = 0
        self._executor.start(segment)
        message = {"do": "start", "strategy": self.name, "parameters": dict(login.parameters), "setup": login.setup}
        self._send(segment, message)

    def _open(self, segment: int) -> None:
        self._send(segment, {"do": "open", "run_id": self._run_id, "segment_id": segment})

    def _send(self, segment: int, message: Message) -> None:
        self._unanswered[segment] += 1
        self._executor.send(segment, message)

    def _news(self, seconds: float) -> List[News]:
        news = self._executor.wait(seconds)
        for item in news:
            if isinstance(item, Answer):
                self._unanswered[item.segment] -= 1
        return news

    def _reports(self, news: News) -> List[Report]:
        if isinstance(news, Loss):
            return self._lost(news.segment, news.reason)
        segment, message = news.segment, news.message
        kind = message["answer"]
        if kind == "up":
            return [self._ledger.up(segment)]
        if kind == "finished":
            return self._ledger.finished(segment, message["seconds"], message["diverged"])
        if kind == "lost":
            return self._lost(segment, f"worker of segment {segment} lost its session: {message['message']}")
        if kind == "failed":
            return self._failed(segment, message)
        return []  # a new worker is ready; that it has opened its segment comes next

    def _failed(self, segment: int, message: Message) -> List[Report]:
        if self._ledger.running(segment) is not None:
            return self._ledger.failed(segment, message["message"])
        error = as_error(message)
        raise cannot_train(segment, str(error), self._run_id) if isinstance(error, RunError) else error

    def _lost(self, segment: int, reason: str) -> List[Report]:
        """Report what became of its hop, and start another worker."""
        reports = after_loss(self._sessions, self._ledger, segment, reason, self._run_id)
        self._start(segment)
        self._open(segment)
        return reports


def as_error(message: Message) -> CerebroError:
    """What a worker raised, as the error that it was there."""
    return SQL_ERRORS.get(message.get("sqlstate", ""), RunError)(message["message"])
