"""The loop with a strategy that only pretends: what is recorded, what ends how, what stops it."""

from __future__ import annotations

from typing import Dict, List, Tuple

import pytest

from cerebro_db.coordinator import Coordinator
from cerebro_db.errors import RunError
from cerebro_db.hopper import (
    ConfigAdded,
    ConfigStopped,
    Hop,
    HopFailed,
    HopFinished,
    SegmentDown,
    SegmentUp,
    StartHop,
    State,
    replay,
)
from cerebro_db.strategies.base import Report


class Pretended:
    """Finishes every hop at the next wait, but for those in `plan`: (config, epoch, segment) -> what happens."""

    name = "pretended"

    def __init__(self, segments: int, plan: Dict[Tuple[int, int, int], List[str]] = {}) -> None:  # noqa: B006
        self.reports = [Report(SegmentUp(segment)) for segment in range(segments)]
        self.plan = {key: list(value) for key, value in plan.items()}
        self.started: List[StartHop] = []
        #: What the wait after the next one reports.
        self.later: List[Report] = []

    def submit(self, start: StartHop) -> None:
        self.started.append(start)
        hop = start.hop
        steps = self.plan.get((hop.config, hop.epoch, hop.segment), [])
        what = steps.pop(0) if steps else "finish"
        if what == "lose":
            self.reports += [Report(SegmentDown(hop.segment, "lost")), Report(SegmentUp(hop.segment))]
        elif what == "commit and lose":
            self.reports += [Report(HopFinished(hop, 1.0)), Report(SegmentDown(hop.segment, "lost"))]
            self.later.append(Report(SegmentUp(hop.segment)))
        elif what == "fail":
            self.reports += [Report(HopFailed(one, "no memory")) for one in start.hops]
        else:
            self.reports.append(Report(HopFinished(hop, 1.0), diverged=what == "diverge"))
            self.reports += [Report(HopFinished(other, 1.0)) for other in start.hops[1:]]

    def wait(self, seconds: float) -> List[Report]:
        reports, self.reports, self.later = self.reports, self.later, []
        return reports


class Kept:
    def __init__(self) -> None:
        self.events: list = []
        self.ends: Dict[int, Tuple[str, object]] = {}

    def record(self, event) -> None:
        self.events.append(event)

    def end_config(self, config, status, error=None) -> None:
        assert config not in self.ends
        self.ends[config] = (status, error)


def run(configs: int, segments: int, epochs: int, plan=None, **settings):
    strategy, log, epochs_done = Pretended(segments, plan or {}), Kept(), []
    state = State(tuple(range(segments)), **settings)
    state = replay(state, [ConfigAdded(config, epochs) for config in range(configs)])
    coordinator = Coordinator(strategy, log, lambda: None, epochs_done.append)
    state = coordinator.run(state)
    assert state.finished
    return strategy, log, [(done.config, done.epoch) for done in epochs_done]


def test_all_hops_run_once_and_configs_end_as_finished():
    strategy, log, epochs = run(3, 2, 2)
    assert len(strategy.started) == len({start.hop for start in strategy.started}) == 12
    assert log.ends == dict.fromkeys(range(3), ("finished", None))
    assert sorted(epochs) == [(c, e) for c in range(3) for e in (1, 2)]


def test_finished_hops_are_not_recorded_twice():
    _, log, _ = run(2, 2, 1)
    assert log.events == [SegmentUp(0), SegmentUp(1)]


def test_a_failed_hop_is_retried_and_recorded():
    strategy, log, _ = run(2, 1, 1, {(0, 1, 0): ["fail"]})
    assert [start.hop.config for start in strategy.started].count(0) == 2
    assert log.ends[0] == ("finished", None)
    assert [type(event) for event in log.events] == [SegmentUp, HopFailed]


def test_a_config_that_keeps_failing_ends_and_the_others_go_on():
    _, log, epochs = run(2, 2, 2, {(0, 1, 0): ["fail", "fail"]}, max_failures=2)
    assert log.ends == {0: ("failed", "no memory"), 1: ("finished", None)}
    assert sorted(epochs) == [(1, 1), (1, 2)]


def test_a_diverged_config_stops_and_keeps_its_reason():
    strategy, log, _ = run(2, 2, 2, {(0, 1, 1): ["diverge"]})
    status, reason = log.ends[0]
    assert status == "diverged"
    assert reason == "loss is not a number in epoch 1 on segment 1"
    assert ConfigStopped(0, reason) in log.events
    assert log.ends[1] == ("finished", None)
    assert sum(start.hop.config == 0 for start in strategy.started) <= 2


def test_a_lost_segment_comes_back():
    strategy, log, _ = run(1, 2, 1, {(0, 1, 0): ["lose"]})
    assert [start.hop.segment for start in strategy.started].count(0) == 2
    assert SegmentDown(0, "lost") in log.events
    assert log.ends == {0: ("finished", None)}


def test_nothing_starts_on_a_segment_whose_loss_came_with_the_end_of_its_hop():
    strategy, log, _ = run(3, 2, 2, {(0, 1, 0): ["commit and lose"], (1, 2, 0): ["commit and lose"]})
    assert len(strategy.started) == len({start.hop for start in strategy.started}) == 12
    assert log.events.count(SegmentDown(0, "lost")) == 2
    assert log.ends == dict.fromkeys(range(3), ("finished", None))


def test_a_group_is_submitted_once_for_all_its_configs():
    strategy, log, epochs = run(3, 2, 2, groups=((0, 2),))
    assert [start.others for start in strategy.started if start.hop.config == 0] == [(2,)] * 4
    assert len(strategy.started) == 8
    assert log.ends == dict.fromkeys(range(3), ("finished", None))
    assert sorted(epochs) == [(c, e) for c in range(3) for e in (1, 2)]


def test_a_config_that_diverges_leaves_its_group():
    strategy, log, epochs = run(3, 2, 2, {(0, 1, 1): ["diverge"]}, groups=((0, 1, 2),))
    assert {config: status for config, (status, _) in log.ends.items()} == {0: "diverged", 1: "finished", 2: "finished"}
    assert [(start.hop.config, start.others) for start in strategy.started] == [(0, (1, 2))] * 2 + [(1, (2,))] * 2
    assert sorted(epochs) == [(1, 1), (1, 2), (2, 1), (2, 2)]


def test_a_group_that_fails_is_dissolved():
    strategy, log, _ = run(2, 2, 1, {(0, 1, 0): ["fail"]}, groups=((0, 1),))
    assert [start.others for start in strategy.started] == [(1,), (), (), (), ()]
    assert log.events.count(HopFailed(Hop(1, 1, 0), "no memory")) == 1
    assert log.ends == dict.fromkeys(range(2), ("finished", None))


def test_a_hop_is_sent_before_the_end_of_an_epoch_is_written_down():
    strategy, told = Pretended(1), []
    wait = strategy.wait
    strategy.wait = lambda seconds: told.append(("wait", len(strategy.started))) or wait(seconds)
    state = replay(State((0,)), [ConfigAdded(0, 2)])
    Coordinator(strategy, Kept(), lambda: None, lambda done: told.append(("epoch", done.epoch))).run(state)
    assert told[told.index(("epoch", 1)) - 1] == ("wait", 2)
    assert told[-1] == ("epoch", 2)


def test_when_nothing_is_left_the_run_fails():
    with pytest.raises(RunError, match="all 1 configs failed or diverged"):
        run(1, 1, 2, {(0, 1, 0): ["diverge"]})


def test_an_interrupt_ends_the_loop():
    strategy = Pretended(1)

    def check() -> None:
        if len(strategy.started) > 2:
            raise KeyboardInterrupt

    state = replay(State((0,)), [ConfigAdded(config, 5) for config in range(4)])
    with pytest.raises(KeyboardInterrupt):
        Coordinator(strategy, Kept(), check, lambda done: None).run(state)
    assert len(strategy.started) == 3
