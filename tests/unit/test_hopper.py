"""The schedule on random clusters: every hop exactly once, whatever fails, and replay gives the same state."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import groupby
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
    #: Visits of fewer configs than their group still has.
    parted: List[StartHop] = field(default_factory=list)

    def feed(self, *events: Event) -> Tuple[Instruction, ...]:
        for event in events:
            if isinstance(event, HopFinished):
                self.finished[event.hop] += 1
            if isinstance(event, ConfigStopped):
                self.stopped.add(event.config)
        self.log.extend(events)
        self.state, instructions = step(self.state, *events)
        validate(self.state)
        for instruction in instructions:
            self._count(instruction)
        return instructions

    @property
    def visits(self) -> List[List[Hop]]:
        """The hops that run, those on one segment together."""
        hops = sorted(self.state.running, key=lambda hop: (hop.segment, hop.config))
        return [list(visit) for _, visit in groupby(hops, key=lambda hop: hop.segment)]

    def _count(self, instruction: Instruction) -> None:
        if isinstance(instruction, EpochDone):
            self.epochs_done[instruction.config, instruction.epoch] += 1
        elif isinstance(instruction, ConfigDone):
            self.configs_done[instruction.config] += 1
        elif isinstance(instruction, ConfigFailed):
            self.failed[instruction.config] += 1
        else:
            self._started(instruction)

    def _started(self, start: StartHop) -> None:
        self.started_after_stop += [hop for hop in start.hops if hop.config in self.stopped]
        configs = [hop.config for hop in start.hops]
        assert configs == sorted(configs)
        gone = self.stopped | set(self.failed) | set(self.configs_done)
        group = next((set(group) for group in self.state.groups if start.hop.config in group), set())
        if not group & self.state.alone and group - gone - set(configs):
            self.parted.append(start)


def live(data: st.DataObject, cluster: Cluster, stops: bool) -> None:
    """Let the cluster run to its end with random failures, segment losses and, if asked, stops."""
    down: List[int] = []
    for _ in range(20_000):
        if cluster.state.finished:
            return
        choices = ["finish"] * 6 + ["fail", "part", "lose"] + (["stop", "diverge"] if stops else [])
        choice = data.draw(st.sampled_from(choices)) if cluster.visits else "return"
        if choice == "return" or (down and data.draw(st.booleans())):
            cluster.feed(SegmentUp(down.pop()))
        elif choice == "lose" and len(down) < len(cluster.state.segments) - 1:
            segment = data.draw(st.sampled_from(sorted(set(cluster.state.segments) - set(down))))
            down.append(segment)
            cluster.feed(SegmentDown(segment))
        elif choice == "stop":
            cluster.feed(ConfigStopped(data.draw(st.sampled_from(sorted(cluster.state.epochs)))))
        else:
            cluster.feed(*end(data.draw(st.sampled_from(cluster.visits)), choice))
    pytest.fail("the schedule did not come to an end")


def end(visit: List[Hop], choice: str) -> List[Event]:
    """What is reported of a visit that ends: the hops of all its configs together."""
    if choice == "fail":
        return [HopFailed(hop, "x") for hop in visit]
    finished: List[Event] = [HopFinished(hop, 1.0) for hop in visit]
    if choice == "part":  # one of its configs fails by itself
        return [HopFailed(visit[0], "x"), *finished[1:]]
    return [ConfigStopped(visit[-1].config), *finished] if choice == "diverge" else finished


@st.composite
def clusters(draw: st.DrawFn) -> Tuple[int, State, int]:
    """Configs, a state in which nothing has happened yet, and epochs."""
    configs, segments = draw(st.integers(1, 7)), draw(st.integers(1, 6))
    party = draw(st.lists(st.integers(0, 3), min_size=configs, max_size=configs))
    members = {number: [c for c in range(configs) if party[c] == number] for number in (1, 2, 3)}
    groups = tuple(tuple(draw(st.permutations(group))) for group in members.values() if group)
    state = State(tuple(range(segments)), order=draw(st.sampled_from(ORDERS)), groups=groups)
    return configs, state, draw(st.integers(1, 4))


def outcome(state: State) -> State:
    """What a state comes to when it is resumed: no segment is up, every hop that ran waits again.

    What is told together is folded one by one, so the fold may have started other hops than the run did; that a
    stopped config's last hop ended is then news of an unknown hop, and what it says of times is not taken.
    """
    return replace(step(state, *map(SegmentDown, state.segments)).state, measured={}, failures={})


def begin(configs: int, state: State, epochs: int) -> Cluster:
    cluster = Cluster(state)
    for config in range(configs):
        cluster.feed(ConfigAdded(config, epochs))
    for segment in state.segments:
        cluster.feed(SegmentUp(segment))
    return cluster


@settings(max_examples=150, deadline=None)
@given(clusters(), st.data())
def test_every_hop_exactly_once_through_failures_and_losses(shape, data):
    configs, start, epochs = shape
    start, segments = replace(start, max_failures=10**6), len(start.segments)
    cluster = begin(configs, start, epochs)
    live(data, cluster, stops=False)
    wanted = {Hop(e, c, s) for e in range(1, epochs + 1) for c in range(configs) for s in range(segments)}
    assert cluster.finished == Counter(wanted)
    assert cluster.epochs_done == Counter((c, e) for c in range(configs) for e in range(1, epochs + 1))
    assert cluster.configs_done == Counter(range(configs))
    assert cluster.parted == []
    assert replay(start, cluster.log) == cluster.state


@settings(max_examples=150, deadline=None)
@given(clusters(), st.data())
def test_stops_losses_and_failures_together(shape, data):
    configs, start, epochs = shape
    start, segments = replace(start, max_failures=2), len(start.segments)
    cluster = begin(configs, start, epochs)
    live(data, cluster, stops=True)
    assert max(cluster.finished.values(), default=1) == 1
    assert cluster.started_after_stop == []
    assert cluster.configs_done == Counter(range(configs))
    for config in range(configs):
        hops = sum(hop.config == config for hop in cluster.finished)
        whole = config not in cluster.stopped and not cluster.failed[config]
        assert hops == epochs * segments if whole else hops <= epochs * segments
        assert cluster.failed[config] <= 1
    assert cluster.parted == []
    assert outcome(replay(start, cluster.log)) == outcome(cluster.state)


def test_a_hop_that_fails_too_often_ends_its_config_and_no_other():
    cluster = begin(2, State((0,), order="greedy", max_failures=2), 1)
    first = Hop(1, 0, 0)
    assert cluster.feed(HopFailed(first, "no")) == (StartHop(first, last=True),)
    assert cluster.feed(HopFailed(first, "again")) == (
        ConfigFailed(0, "again"),
        ConfigDone(0),
        StartHop(Hop(1, 1, 0), last=True),
    )


def test_the_last_hop_of_an_epoch_is_marked():
    cluster = begin(1, State((0, 1), order="greedy", max_failures=1), 2)
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


def test_a_group_hops_as_one_from_its_lowest_config():
    cluster = begin(3, State((0, 1), groups=((2, 0),)), 1)
    pair, single = Hop(1, 0, 0), Hop(1, 1, 1)
    assert cluster.state.running == {pair, Hop(1, 2, 0), single}
    assert cluster.feed(HopFinished(pair), HopFinished(Hop(1, 2, 0))) == ()
    (start,) = cluster.feed(HopFinished(single))[:1]
    assert start == StartHop(Hop(1, 0, 1), last=True, others=(2,))
    assert start.hops == (Hop(1, 0, 1), Hop(1, 2, 1))


def test_a_config_that_diverges_leaves_its_group_and_the_others_go_on_together():
    cluster = begin(3, State((0, 1), groups=((0, 1, 2),)), 1)
    first = [HopFinished(Hop(1, config, 0)) for config in range(3)]
    done, start = cluster.feed(ConfigStopped(1), *first)
    assert done == ConfigDone(1)
    assert start == StartHop(Hop(1, 0, 1), last=True, others=(2,))


def test_a_failed_hop_dissolves_its_group_for_good():
    start = State((0, 1), groups=((0, 1), (2, 3)), max_failures=2)
    cluster = begin(4, start, 2)
    cluster.feed(HopFailed(Hop(1, 1, 0), "no"), HopFinished(Hop(1, 0, 0)))
    live_on(cluster)
    assert cluster.state.alone == {0, 1}
    assert {(hop.config, hop.epoch) for hop in cluster.finished} == {(c, e) for c in range(4) for e in (1, 2)}
    assert replay(start, cluster.log) == cluster.state


def test_a_lost_segment_gives_the_hops_of_all_its_group_back():
    cluster = begin(3, State((0, 1), groups=((0, 1, 2),)), 1)
    (start,) = cluster.feed(SegmentDown(0), SegmentUp(0))
    assert start == StartHop(Hop(1, 0, 0), others=(1, 2))


def test_groups_begin_on_segments_of_their_own():
    cluster = begin(6, State((0, 1, 2), groups=((0, 3), (1, 4), (2, 5))), 1)
    assert [visit[0].config for visit in cluster.visits] == [0, 1, 2]
    assert [len(visit) for visit in cluster.visits] == [2, 2, 2]


def live_on(cluster: Cluster) -> None:
    """Let the cluster run to its end without further trouble."""
    while not cluster.state.finished:
        cluster.feed(*end(cluster.visits[0], "finish"))


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
