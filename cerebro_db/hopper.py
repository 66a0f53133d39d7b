"""The schedule of Model Hopper Parallelism as a pure function: (state, event) -> (state, instructions).

Every config visits every segment exactly once per epoch; no config is in two places and no segment
holds two configs (Nakandala et al., "Cerebro", PVLDB 13(11), 2020, section 4). There is no barrier:
a config begins its next epoch as soon as its last is done, and hops start whenever a config and a
segment are both free. No I/O, clock or randomness: durations arrive inside events, so folding a
stored log gives the same state again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Dict, FrozenSet, Iterable, Iterator, List, Mapping, NamedTuple, Set, Tuple, Union


@dataclass(frozen=True, order=True)
class Hop:
    """One visit of a config to one segment's rows, in one epoch (from 1)."""

    epoch: int
    config: int
    segment: int


@dataclass(frozen=True)
class ConfigAdded:
    config: int
    epochs: int


@dataclass(frozen=True)
class ConfigStopped:
    """The config starts no further hop; one that runs may finish."""

    config: int
    reason: str = ""


@dataclass(frozen=True)
class SegmentUp:
    segment: int


@dataclass(frozen=True)
class SegmentDown:
    """The segment's session is lost, and with it the hop that ran there."""

    segment: int
    reason: str = ""


@dataclass(frozen=True)
class HopFinished:
    """The hop's new state is committed. Believed even when the hop was not known to run.

    `seconds` are those of the whole visit: configs that hop together all report the same.
    """

    hop: Hop
    seconds: float = 0.0


@dataclass(frozen=True)
class HopFailed:
    """The hop left no trace; its config is where it was before, and hops alone from now on."""

    hop: Hop
    reason: str = ""


Event = Union[ConfigAdded, ConfigStopped, SegmentUp, SegmentDown, HopFinished, HopFailed]


@dataclass(frozen=True)
class StartHop:
    #: Of a group, the hop of its lowest config.
    hop: Hop
    #: True when the config has visited every other segment in this epoch: validate after it.
    last: bool = False
    #: Configs that make the same visit together with the hop's.
    others: Tuple[int, ...] = ()

    @property
    def hops(self) -> Tuple[Hop, ...]:
        """The hops of all configs of the visit, `hop` first."""
        return (self.hop, *(replace(self.hop, config=config) for config in self.others))


@dataclass(frozen=True)
class EpochDone:
    config: int
    epoch: int


@dataclass(frozen=True)
class ConfigFailed:
    """A hop failed too often; ConfigDone follows."""

    config: int
    reason: str


@dataclass(frozen=True)
class ConfigDone:
    """The config has no hop left; told exactly once."""

    config: int


Instruction = Union[StartHop, EpochDone, ConfigFailed, ConfigDone]


#: Which segment a config visits next.
#: "rotation": the i-th config visits segments i, i + 1, ... in every epoch, whatever the clock says, so the
#: same run gives the same weights again, bit for bit; only who waits for a segment first depends on time.
#: "greedy": any segment that is free, so the order depends on measured times.
#: "round": the paper's barrier: a hop on every segment, and the next round when all have ended.
ORDERS = ("rotation", "greedy", "round")


@dataclass(frozen=True)
class State:
    segments: Tuple[int, ...]
    #: One of ORDERS.
    order: str = "rotation"
    #: A hop that failed this often ends its config.
    max_failures: int = 3
    #: Configs that hop together; one in no group hops alone.
    groups: Tuple[Tuple[int, ...], ...] = ()
    #: Configs of which one in their group failed: each hops alone from then on.
    alone: FrozenSet[int] = frozenset()
    up: FrozenSet[int] = frozenset()
    #: config -> epochs asked for; 0 once stopped.
    epochs: Mapping[int, int] = field(default_factory=dict)
    #: Hops of each config's current epoch that have not started.
    waiting: FrozenSet[Hop] = frozenset()
    running: FrozenSet[Hop] = frozenset()
    failures: Mapping[Hop, int] = field(default_factory=dict)
    #: config -> mean seconds of its finished hops and their number.
    measured: Mapping[int, Tuple[float, int]] = field(default_factory=dict)

    @property
    def finished(self) -> bool:
        return not self.waiting and not self.running


class Step(NamedTuple):
    state: State
    instructions: Tuple[Instruction, ...]


def step(state: State, *events: Event) -> Step:
    """Apply events, then start every hop that the order allows.

    What is learned together is told together: a hop that starts between "hop finished" and "segment down" of the
    same lost worker would run on that worker's successor without a trace here.
    """
    news: Tuple[Instruction, ...] = ()
    for event in events:
        state, more = _apply(state, event)
        news += more
    starts = _startable(state)
    started = {hop for start in starts for hop in start.hops}
    state = replace(state, waiting=state.waiting - started, running=state.running | started)
    return Step(state, (*news, *starts))


def replay(state: State, events: Iterable[Event]) -> State:
    """The state that a stored log leads to."""
    for event in events:
        state = step(state, event).state
    return state


def validate(state: State) -> None:
    """Raise AssertionError unless no config is in two places and no segment holds two units."""
    running = list(state.running)
    assert len({hop.config for hop in running}) == len(running), running
    party = _groups(state)
    visits = {(hop.segment, hop.epoch, party[hop.config]) for hop in running}
    assert len({segment for segment, _, _ in visits}) == len(visits), running
    assert not state.waiting & state.running, state.waiting & state.running


def _apply(state: State, event: Event) -> Step:
    if isinstance(event, ConfigAdded):
        state = replace(state, epochs={**state.epochs, event.config: event.epochs})
        return Step(_open_epoch(state, event.config, epoch=1), ())
    if isinstance(event, ConfigStopped):
        return _stop(state, event.config)
    if isinstance(event, SegmentUp):
        return Step(replace(state, up=state.up | {event.segment}), ())
    if isinstance(event, SegmentDown):
        return _segment_down(state, event.segment)
    if event.hop not in state.running | state.waiting:  # a late report of a hop already given up
        return Step(state, ())
    return _fail(state, event) if isinstance(event, HopFailed) else _finish(state, event)


def _open_epoch(state: State, config: int, epoch: int) -> State:
    hops = frozenset(Hop(epoch, config, segment) for segment in state.segments)
    return replace(state, waiting=state.waiting | hops)


def _stop(state: State, config: int) -> Step:
    left = frozenset(hop for hop in state.waiting if hop.config != config)
    running = any(hop.config == config for hop in state.running)
    done = (ConfigDone(config),) if left != state.waiting and not running else ()
    return Step(replace(state, waiting=left, epochs={**state.epochs, config: 0}), done)


def _segment_down(state: State, segment: int) -> Step:
    lost = [hop for hop in state.running if hop.segment == segment]
    state = replace(state, up=state.up - {segment}, running=state.running - set(lost))
    return _give_back(state, lost)


def _give_back(state: State, hops: List[Hop]) -> Step:
    """Hops that left no trace wait again, but for those of configs stopped meanwhile."""
    wanted = frozenset(hop for hop in hops if hop.epoch <= state.epochs[hop.config])
    done = tuple(ConfigDone(hop.config) for hop in sorted(set(hops) - wanted))
    return Step(replace(state, waiting=state.waiting | wanted), done)


def _fail(state: State, event: HopFailed) -> Step:
    count = state.failures.get(event.hop, 0) + 1
    state = replace(state, failures={**state.failures, event.hop: count}, running=state.running - {event.hop})
    state = replace(state, alone=state.alone | set(_groups(state)[event.hop.config]))
    state, done = _give_back(state, [event.hop])
    if done or count < state.max_failures:
        return Step(state, done)
    state, done = _stop(state, event.hop.config)
    return Step(state, (ConfigFailed(event.hop.config, event.reason), *done))


def _finish(state: State, event: HopFinished) -> Step:
    hop = event.hop
    mean, count = state.measured.get(hop.config, (0.0, 0))
    measured = {**state.measured, hop.config: (mean + (event.seconds - mean) / (count + 1), count + 1)}
    state = replace(state, running=state.running - {hop}, waiting=state.waiting - {hop}, measured=measured)
    return _close_epoch(state, hop)


def _close_epoch(state: State, hop: Hop) -> Step:
    if any(other.config == hop.config for other in state.waiting | state.running):
        return Step(state, ())
    if hop.epoch > state.epochs[hop.config]:  # stopped meanwhile: this epoch stays partial
        return Step(state, (ConfigDone(hop.config),))
    done = EpochDone(hop.config, hop.epoch)
    if hop.epoch < state.epochs[hop.config]:
        return Step(_open_epoch(state, hop.config, hop.epoch + 1), (done,))
    return Step(state, (done, ConfigDone(hop.config)))


def _groups(state: State) -> Dict[int, Tuple[int, ...]]:
    """config -> its group as it was given, in ascending order, or itself."""
    groups = {config: tuple(sorted(group)) for group in state.groups for config in group}
    return {config: groups.get(config, (config,)) for config in state.epochs}


def _parties(state: State) -> Dict[int, Tuple[int, ...]]:
    """config -> the configs that it hops with, itself among them."""
    return {config: (config,) if config in state.alone else group for config, group in _groups(state).items()}


class _Unit(NamedTuple):
    """Configs that make their next visit together: a group, those of it that still go on, or a config alone."""

    configs: Tuple[int, ...]
    epoch: int
    #: Segments that are left in this epoch.
    left: FrozenSet[int]

    def start(self, segment: int) -> StartHop:
        lead, *others = self.configs
        return StartHop(Hop(self.epoch, lead, segment), last=self.left == {segment}, others=tuple(others))


def _free_units(state: State) -> List[_Unit]:
    """What can start a hop. A group waits until none of its configs is busy."""
    places: Dict[int, Tuple[int, Set[int]]] = {}
    for hop in state.waiting:
        places.setdefault(hop.config, (hop.epoch, set()))[1].add(hop.segment)
    busy = {hop.config for hop in state.running}
    parties = sorted(set(_parties(state).values()))
    return [unit for party in parties if busy.isdisjoint(party) for unit in _together(party, places)]


def _together(party: Tuple[int, ...], places: Mapping[int, Tuple[int, Set[int]]]) -> Iterator[_Unit]:
    """A party as one unit; those of its configs that are not where the others are form units of their own."""
    found: Dict[Tuple[int, FrozenSet[int]], List[int]] = {}
    for config in party:
        if config in places:
            epoch, left = places[config]
            found.setdefault((epoch, frozenset(left)), []).append(config)
    for (epoch, segments), configs in found.items():
        yield _Unit(tuple(configs), epoch, segments)


def _startable(state: State) -> List[StartHop]:
    """At most one hop per free segment and free unit, the longest remaining work first.

    Longest-remaining-first is the usual list rule for open shops: what is left over at the end is
    then short. A unit's remaining seconds are its remaining hops times its mean hop; a unit
    that has not been measured counts as the slowest known one, so that long ones are found early.
    """
    if state.order == "round" and (state.running or state.up != set(state.segments)):
        return []
    free = set(state.up) - {hop.segment for hop in state.running}
    load = _segment_load(state)
    numbers = _numbers(state)
    chosen = []
    for unit in sorted(_free_units(state), key=lambda unit: (-_remaining(state, unit), unit.configs)):
        open_to = free.intersection(_candidates(state, unit, numbers))
        if open_to:
            lead = unit.configs[0]
            segment = min(open_to, key=lambda s: (-load[s], (s - lead) % len(state.segments)))
            chosen.append(unit.start(segment))
            free.discard(segment)
    return chosen


def _candidates(state: State, unit: _Unit, numbers: Mapping[int, int]) -> Iterable[int]:
    """Where a free unit may go next: every segment left in its epoch, or in rotation the one whose turn it is."""
    if state.order != "rotation":
        return unit.left
    turn = {segment: place - numbers[unit.configs[0]] for place, segment in enumerate(state.segments)}
    return [min(unit.left, key=lambda segment: turn[segment] % len(turn))]


def _numbers(state: State) -> Dict[int, int]:
    """config -> number of its group or of itself, in order of the first config: where its rotation begins."""
    numbers: Dict[Tuple[int, ...], int] = {}
    return {config: numbers.setdefault(party, len(numbers)) for config, party in _groups(state).items()}


def _mean_seconds(state: State, configs: Iterable[int]) -> float:
    """Seconds of a visit of these configs together."""
    if state.order == "round":  # a schedule that no clock changes: the same run gives the same weights again
        return 1.0
    known = [state.measured[config][0] for config in configs if config in state.measured]
    return max(known or (mean for mean, _ in state.measured.values()), default=1.0)


def _remaining(state: State, unit: _Unit) -> float:
    """Seconds of work left for the unit, this and later epochs."""
    later = (state.epochs[unit.configs[0]] - unit.epoch) * len(state.segments)
    return (len(unit.left) + later) * _mean_seconds(state, unit.configs)


def _segment_load(state: State) -> Dict[int, float]:
    """Seconds of work that wait for each segment in the current epochs."""
    load = dict.fromkeys(state.segments, 0.0)
    parties = _parties(state)
    seconds = {party: _mean_seconds(state, party) for party in parties.values()}
    # Sorted, so that the same state gives the same sums to the last bit.
    for segment, party in sorted({(hop.segment, parties[hop.config]) for hop in state.waiting}):
        load[segment] += seconds[party]
    return load
