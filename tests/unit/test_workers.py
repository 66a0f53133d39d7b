"""The strategies' common half over workers that only pretend: what becomes of answers, failures and losses."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any, Deque, Dict, List

import pytest

from cerebro_db.errors import MissingError, RunError, SetupError, UsageError
from cerebro_db.executors.base import Answer, Loss, Message, News
from cerebro_db.hopper import Hop, HopFailed, HopFinished, SegmentDown, SegmentUp, StartHop
from cerebro_db.strategies import ledger, workers
from cerebro_db.strategies.base import Report
from cerebro_db.strategies.ledger import MAX_LOSSES

UP, READY, CHECKED = {"answer": "up"}, {"answer": "ready"}, {"answer": "checked", "groups": []}


class Pretended:
    """Remembers what it is told; what a test puts into `news` comes at the next wait."""

    def __init__(self) -> None:
        self.started: List[int] = []
        self.sent: List[Any] = []
        self.news: Deque[News] = deque()
        self.closed = False

    def start(self, segment: int) -> None:
        self.started.append(segment)

    def send(self, segment: int, message: Message) -> None:
        self.sent.append((segment, message["do"]))

    def wait(self, seconds: float) -> List[News]:
        news, self.news = list(self.news), deque()
        return news

    def close(self) -> None:
        self.closed = True

    def says(self, segment: int, **message: Any) -> None:
        self.news.append(Answer(segment, message))


class Trained(workers.Workers):
    name = "trained"


@pytest.fixture
def executor(monkeypatch: pytest.MonkeyPatch) -> Pretended:
    made = Pretended()
    monkeypatch.setattr(workers, "open_executor", lambda name, owner: made)
    return made


@pytest.fixture
def committed(monkeypatch: pytest.MonkeyPatch) -> Dict[Hop, Dict[str, Any]]:
    """Hops that the catalog holds although no answer told so."""
    held: Dict[Hop, Dict[str, Any]] = {}

    def settled(sessions: Any, known: Any, segment: int, run_id: int) -> List[Report]:
        start = known.running(segment)
        row = start and held.get(start.hop)
        diverged = [start.hop.config] if row and row["diverged"] else []
        return known.finished(segment, row["seconds"], diverged) if row else []

    monkeypatch.setattr(ledger, "settled", settled)
    return held


@pytest.fixture
def strategy(executor: Pretended, committed: Any) -> Trained:
    segments = [SimpleNamespace(segment_id=0), SimpleNamespace(segment_id=1)]
    plan: Any = SimpleNamespace(segments=segments, options=SimpleNamespace(executor="local"), to_json=lambda: "{}")
    login = SimpleNamespace(parameters={"host": "h"}, setup="set role x")
    sessions: Any = SimpleNamespace(login=login, owner="me", keep_seconds=60.0)
    made = Trained(plan, sessions)
    made.check(plan, {})
    return made


def opened(strategy: Trained, executor: Pretended) -> None:
    for segment in (0, 1):
        executor.says(segment, **READY)
    assert not strategy.ready(0)
    executor.says(0, **CHECKED)
    assert strategy.ready(0)
    strategy.begin(7)
    for segment in (0, 1):
        executor.says(segment, **UP)
    assert strategy.wait(0) == [Report(SegmentUp(0)), Report(SegmentUp(1))]
    executor.sent.clear()


def start(segment: int) -> StartHop:
    return StartHop(Hop(1, 5, segment), last=False)


def test_a_hop_and_its_end(strategy: Trained, executor: Pretended) -> None:
    assert (executor.started, executor.sent) == ([0, 1], [(0, "start"), (1, "start"), (0, "check")])
    opened(strategy, executor)
    strategy.submit(start(1))
    assert executor.sent == [(1, "hop")]
    executor.says(1, answer="finished", seconds=2.0, diverged=[5])
    assert strategy.wait(0) == [Report(HopFinished(Hop(1, 5, 1), 2.0), diverged=True)]
    strategy.submit(start(0))
    executor.says(0, answer="failed", message="lock timeout", sqlstate="55P03")
    assert strategy.wait(0) == [Report(HopFailed(Hop(1, 5, 0), "lock timeout"))]
    strategy.close()
    assert executor.closed


@pytest.mark.parametrize(
    ("sqlstate", "kind"), [("22023", UsageError), ("42704", MissingError), ("58000", SetupError), ("XX000", RunError)]
)
def test_what_a_check_finds_is_raised_as_it_was(
    strategy: Trained, executor: Pretended, sqlstate: str, kind: type
) -> None:
    executor.says(0, answer="failed", message="it does not fit", sqlstate=sqlstate)
    with pytest.raises(kind, match="^it does not fit$") as info:
        strategy.ready(0)
    assert type(info.value) is kind


def test_a_worker_that_dies_at_its_start(strategy: Trained, executor: Pretended) -> None:
    executor.news.append(Loss(1, "worker of segment 1 (pid 9) ended with exit code 1: no torch"))
    with pytest.raises(SetupError, match=r"a training process cannot start: worker of segment 1 \(pid 9\).*no torch"):
        strategy.ready(0)


def test_an_error_of_opening_a_source_keeps_its_words_and_its_class(strategy: Trained, executor: Pretended) -> None:
    for segment in (0, 1):
        executor.says(segment, **READY)
    executor.says(0, **CHECKED)
    assert strategy.ready(0)
    strategy.begin(7)
    executor.says(1, answer="failed", message="the disk is full", sqlstate=SetupError.sqlstate)
    with pytest.raises(SetupError, match="^the disk is full$"):
        strategy.wait(0)
    executor.says(0, answer="failed", message="lock timeout", sqlstate="55P03")
    with pytest.raises(RunError, match=r"segment 0 cannot train: lock timeout; .*madlib_mop_resume\(7\)"):
        strategy.wait(0)


def test_a_lost_worker_is_replaced_and_its_hop_is_down(strategy: Trained, executor: Pretended) -> None:
    opened(strategy, executor)
    strategy.submit(start(1))
    executor.news.append(Loss(1, "it died"))
    assert strategy.wait(0) == [Report(SegmentDown(1, "it died"))]
    assert executor.started == [0, 1, 1]
    assert executor.sent == [(1, "hop"), (1, "start"), (1, "open")]
    executor.says(1, **READY)
    executor.says(1, **UP)
    assert strategy.wait(0) == [Report(SegmentUp(1))]


def test_a_worker_that_lost_its_session_is_replaced(strategy: Trained, executor: Pretended) -> None:
    opened(strategy, executor)
    strategy.submit(start(0))
    executor.says(0, answer="lost", message="terminating connection")
    down = SegmentDown(0, "worker of segment 0 lost its session: terminating connection")
    assert strategy.wait(0) == [Report(down)]
    assert executor.started == [0, 1, 0]


def test_a_hop_that_was_committed_before_its_worker_died_is_finished(
    strategy: Trained, executor: Pretended, committed: Dict[Hop, Dict[str, Any]]
) -> None:
    opened(strategy, executor)
    strategy.submit(start(1))
    committed[Hop(1, 5, 1)] = {"seconds": 4.0, "diverged": False}
    executor.news.append(Loss(1, "it died"))
    assert strategy.wait(0) == [Report(HopFinished(Hop(1, 5, 1), 4.0)), Report(SegmentDown(1, "it died"))]


def test_losses_in_a_row_end_the_run_and_a_hop_between_forgives(strategy: Trained, executor: Pretended) -> None:
    opened(strategy, executor)
    for _ in range(MAX_LOSSES - 1):
        executor.news.append(Loss(1, "it died"))
        assert strategy.wait(0) == [Report(SegmentDown(1, "it died"))]
    executor.says(1, **UP)
    strategy.wait(0)
    strategy.submit(start(1))
    executor.says(1, answer="finished", seconds=1.0, diverged=[])
    strategy.wait(0)
    for _ in range(MAX_LOSSES - 1):
        executor.news.append(Loss(1, "it died"))
        strategy.wait(0)
    executor.news.append(Loss(1, "it died"))
    with pytest.raises(RunError, match=r"segment 1 cannot train: it died; the finished hops are kept.*resume\(7\)"):
        strategy.wait(0)


def test_workers_that_cannot_be_started_leave_none_behind(
    executor: Pretended, monkeypatch: pytest.MonkeyPatch, committed: Any
) -> None:
    def refuse(segment: int) -> None:
        if segment == 1:
            raise SetupError("no process left")
        executor.started.append(segment)

    monkeypatch.setattr(executor, "start", refuse)
    segments = [SimpleNamespace(segment_id=0), SimpleNamespace(segment_id=1)]
    plan: Any = SimpleNamespace(segments=segments, options=SimpleNamespace(executor="local"))
    sessions: Any = SimpleNamespace(login=SimpleNamespace(parameters={}, setup=""), owner="me")
    with pytest.raises(SetupError, match="no process left"):
        Trained(plan, sessions)
    assert (executor.started, executor.closed) == ([0], True)
