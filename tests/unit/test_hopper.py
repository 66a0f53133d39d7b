"""The schedule on random clusters: every hop exactly once, whatever fails, and replay gives the same state."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field
from typing import Callable, Dict, List, Tuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cerebro_db.hopper import (
    ORDERS,
    ConfigAdded,
    ConfigDone,
    ConfigFailed,
    ConfigStopped,
    EpochDone,
    Event,
    Hop,
    HopFailed,
    HopFinished,
    Instruction,
    SegmentDown,
    SegmentUp,
    StartHop,
    State,
    replay,
    step,
    validate,
)


@dataclass
class Cluster:
    """A cluster that does what Hypothesis draws, and keeps count."""

    state: State
    log: List[Event] = field(default_factory=list)
    finished: Counter = field(default_factory=Counter)
    epochs_done: Counter = field(default_factory=Counter)
    configs_done: Counter = field(default_factory=Counter)
    failed: Counter = field(default_factory=Counter)
    stopped: set = field(default_factory=set)
    started_after_stop: List[Hop] = field(default_factory=list)

    def feed(self, event: Event) -> Tuple[Instruction, ...]:
        if isinstance(event, HopFinished):
            self.finished[event.hop] += 1
        if isinstance(event, ConfigStopped):
            self.stopped.add(event.config)
        self.log.append(event)
        self.state, instructions = step(self.state, event)
        validate(self.state)
        for instruction in instructions:
            self._count(instruction)
        return instructions

    def _count(self, instruction: Instruction) -> None:
        if isinstance(instruction, EpochDone):
            self.epochs_done[instruction.config, instruction.epoch] += 1
        elif isinstance(instruction, ConfigDone):
            self.configs_done[instruction.config] += 1
        elif isinstance(instruction, ConfigFailed):
            self.failed[instruction.config] += 1
        elif instruction.hop.config in self.stopped:
            self.started_after_stop.append(instruction.hop)


def live(data: st.DataObject, cluster: Cluster, stops: bool) -> None:
    """Let the cluster run to its end with random failures, segment losses and, if asked, stops."""
    down: List[int] = []
    for _ in range(20_000):
        if cluster.state.finished:
            return
        running = sorted(cluster.state.running)
        choices = ["finish"] * 6 + ["fail", "lose"] + (["stop"] if stops else [])
        choice = data.draw(st.sampled_from(choices)) if running else "return"
        if choice == "return" or (down and data.draw(st.booleans())):
            cluster.feed(SegmentUp(down.pop()))
        elif choice == "lose" and len(down) < len(cluster.state.segments) - 1:
            segment = data.draw(st.sampled_from(sorted(set(cluster.state.segments) - set(down))))
            down.append(segment)
            cluster.feed(SegmentDown(segment))
        elif choice == "stop":
            cluster.feed(ConfigStopped(data.draw(st.sampled_from(sorted(cluster.state.epochs)))))
        else:
            hop = data.draw(st.sampled_from(running))
            cluster.feed(HopFailed(hop, "x") if choice == "fail" else HopFinished(hop, 1.0))
    pytest.fail("the schedule did not come to an end")


clusters = st.tuples(
    st.integers(1, 7), st.integers(1, 6), st.integers(1, 4), st.sampled_from(ORDERS)
)


def begin(shape: Tuple[int, int, int, str], max_failures: int) -> Cluster:
    configs, segments, epochs, order = shape
    cluster = Cluster(State(tuple(range(segments)), order=order, max_failures=max_failures))
    for segment in range(segments):
        cluster.feed(SegmentUp(segment))
    for config in range(configs):
        cluster.feed(ConfigAdded(config, epochs))
    return cluster


@settings(max_examples=150, deadline=None)
@given(clusters, st.data())
def test_every_hop_exactly_once_through_failures_and_losses(shape, data):
    cluster = begin(shape, max_failures=10**6)
    start = State(cluster.state.segments, order=shape[3], max_failures=10**6)
    live(data, cluster, stops=False)
    configs, segments, epochs, _ = shape
    wanted = {Hop(e, c, s) for e in range(1, epochs + 1) for c in range(configs) for s in range(segments)}
    assert cluster.finished == Counter(wanted)
    assert cluster.epochs_done == Counter((c, e) for c in range(configs) for e in range(1, epochs + 1))
    assert cluster.configs_done == Counter(range(configs))
    assert replay(start, cluster.log) == cluster.state


@settings(max_examples=150, deadline=None)
@given(clusters, st.data())
def test_stops_losses_and_failures_together(shape, data):
    cluster = begin(shape, max_failures=2)
    start = State(cluster.state.segments, order=shape[3], max_failures=2)
    live(data, cluster, stops=True)
    configs, segments, epochs, _ = shape
    assert max(cluster.finished.values(), default=1) == 1
    assert cluster.started_after_stop == []
    assert cluster.configs_done == Counter(range(configs))
    for config in range(configs):
        hops = sum(hop.config == config for hop in cluster.finished)
        whole = config not in cluster.stopped and not cluster.failed[config]
        assert hops == epochs * segments if whole else hops <= epochs * segments
        assert cluster.failed[config] <= 1
    assert replay(start, cluster.log) == cluster.state


def test_a_hop_that_fails_too_often_ends_its_config_and_no_other():
    cluster = begin((2, 1, 1, "greedy"), max_failures=2)
    first = Hop(1, 0, 0)
    assert cluster.feed(HopFailed(first, "no")) == (StartHop(first, last=True),)
    assert cluster.feed(HopFailed(first, "again")) == (
        ConfigFailed(0, "again"),
        ConfigDone(0),
        StartHop(Hop(1, 1, 0), last=True),
    )


def test_the_last_hop_of_an_epoch_is_marked():
    cluster = begin((1, 2, 2, "greedy"), max_failures=1)
    (first,) = cluster.state.running
    other = 1 - first.segment
    assert cluster.feed(HopFinished(first)) == (StartHop(Hop(1, 0, other), last=True),)
    starts = cluster.feed(HopFinished(Hop(1, 0, other)))
    assert starts[0] == EpochDone(0, 1)
    assert isinstance(starts[1], StartHop)
    assert (starts[1].hop.epoch, starts[1].last) == (2, False)


def test_a_committed_hop_counts_even_when_replay_would_have_chosen_another():
    state = replay(State((0, 1)), [ConfigAdded(0, 1), SegmentUp(0), SegmentUp(1)])
    (running,) = state.running
    waiting = Hop(1, 0, 1 - running.segment)
    state = step(state, HopFinished(waiting)).state
    assert state.running == {running}
    state, instructions = step(state, HopFinished(running))
    assert state.finished
    assert instructions == (EpochDone(0, 1), ConfigDone(0))


def test_a_late_report_changes_nothing():
    state = replay(State((0,)), [ConfigAdded(0, 1), SegmentUp(0), HopFinished(Hop(1, 0, 0))])
    assert step(state, HopFailed(Hop(1, 0, 0))) == (state, ())


def test_round_order_waits_for_the_whole_round():
    cluster = Cluster(State((0, 1), order="round"))
    for event in (ConfigAdded(0, 1), ConfigAdded(1, 1), SegmentUp(0)):
        assert cluster.feed(event) == ()
    first, second = (start.hop for start in cluster.feed(SegmentUp(1)))
    assert cluster.feed(HopFinished(first)) == ()
    assert len(cluster.feed(HopFinished(second))) == 2


def test_in_rotation_the_clock_does_not_change_what_a_config_visits():
    def visits(seconds: List[float]) -> Dict[int, List[Hop]]:
        order: Dict[int, List[Hop]] = {}
        simulate(seconds, 4, epochs=2, started=lambda hop: order.setdefault(hop.config, []).append(hop))
        return order

    fast, slow = visits([1.0, 5.0, 0.2, 3.0, 1.0, 1.0]), visits([4.0, 0.1, 2.0, 1.0, 7.0, 0.3])
    assert fast == slow
    assert [hop.segment for hop in fast[2]] == [2, 3, 0, 1, 2, 3, 0, 1]


@pytest.mark.parametrize("kind", ["uniform", "mixed", "random"])
@pytest.mark.parametrize(("configs", "segments"), [(16, 4), (64, 16)])
def test_makespan_is_within_two_percent_of_the_lower_bound(kind, configs, segments):
    seconds = {
        "uniform": [1.0] * configs,
        "mixed": [8.0 if config % 5 == 0 else 1.0 for config in range(configs)],
        "random": [0.2 + (config * 7919 % 101) / 56 for config in range(configs)],
    }[kind]
    makespan, bound = simulate(seconds, segments, epochs=2)
    assert bound <= makespan <= 1.02 * bound


def simulate(
    seconds: List[float], segments: int, epochs: int, started: Callable[[Hop], object] = lambda hop: None
) -> Tuple[float, float]:
    """Makespan of a run whose hops of config c take seconds[c], and its lower bound."""
    state, now = State(tuple(range(segments))), 0.0
    ends: List[Tuple[float, Hop]] = []
    events: List[Event] = [SegmentUp(segment) for segment in range(segments)]
    events += [ConfigAdded(config, epochs) for config in range(len(seconds))]
    busy: Dict[int, float] = dict.fromkeys(range(segments), 0.0)
    while events or ends:
        if not events:
            now, hop = heapq.heappop(ends)
            events.append(HopFinished(hop, seconds[hop.config]))
        state, instructions = step(state, events.pop(0))
        for start in instructions:
            if isinstance(start, StartHop):
                started(start.hop)
                busy[start.hop.segment] += seconds[start.hop.config]
                heapq.heappush(ends, (now + seconds[start.hop.config], start.hop))
    return now, max(*busy.values(), max(seconds) * segments * epochs)
