"""Who hops together, where each may go next, and how long a visit takes: what a state of the schedule says."""

from __future__ import annotations

from typing import Dict, FrozenSet, Iterable, Iterator, List, Mapping, NamedTuple, Set, Tuple

from cerebro_db.portfolio import Work
from cerebro_db.schedule import Hop, StartHop, State

#: Segments whose times differ by less are equally fast, as far as can be told.
NOISE = 1.25

Party = Tuple[int, ...]
#: config -> its epoch, and the segments that wait for it there.
Places = Mapping[int, Tuple[int, Set[int]]]


def groups(state: State) -> Dict[int, Party]:
    """config -> its group as it was given, in ascending order, or itself."""
    given = {config: tuple(sorted(group)) for group in state.groups for config in group}
    return {config: given.get(config, (config,)) for config in state.epochs}


def parties(state: State) -> Dict[int, Party]:
    """config -> the configs that it hops with, itself among them."""
    return {config: (config,) if config in state.alone else group for config, group in groups(state).items()}


def numbers(state: State) -> Dict[int, int]:
    """config -> number of its group or of itself, in order of the first config: where its rotation begins."""
    found: Dict[Party, int] = {}
    return {config: found.setdefault(group, len(found)) for config, group in groups(state).items()}


class Unit(NamedTuple):
    """Configs that make their next visit together: a group, those of it that still go on, or a config alone."""

    configs: Party
    epoch: int
    #: Segments that are left in this epoch.
    left: FrozenSet[int]

    def start(self, segment: int) -> StartHop:
        lead, *others = self.configs
        return StartHop(Hop(self.epoch, lead, segment), last=self.left == {segment}, others=tuple(others))


def free_units(state: State) -> List[Unit]:
    """What can start a hop. A group waits until none of its configs is busy."""
    places = _places(state)
    busy = {hop.config for hop in state.running}
    waiting = sorted(set(parties(state).values()))
    return [unit for party in waiting if busy.isdisjoint(party) for unit in _together(party, places)]


def busy_units(state: State) -> Dict[int, Unit]:
    """segment -> the unit that is there, with the segments that it has left afterwards."""
    places, found = _places(state), {}
    for segment in {hop.segment for hop in state.running}:
        visit = sorted(hop for hop in state.running if hop.segment == segment)
        left = places.get(visit[0].config, (0, set()))[1]
        found[segment] = Unit(tuple(hop.config for hop in visit), visit[0].epoch, frozenset(left))
    return found


def _places(state: State) -> Places:
    places: Dict[int, Tuple[int, Set[int]]] = {}
    for hop in state.waiting:
        places.setdefault(hop.config, (hop.epoch, set()))[1].add(hop.segment)
    return places


def _together(party: Party, places: Places) -> Iterator[Unit]:
    """A party as one unit; those of its configs that are not where the others are form units of their own."""
    found: Dict[Tuple[int, FrozenSet[int]], List[int]] = {}
    for config in party:
        if config in places:
            epoch, left = places[config]
            found.setdefault((epoch, frozenset(left)), []).append(config)
    for (epoch, segments), configs in found.items():
        yield Unit(tuple(configs), epoch, segments)


def is_measured(state: State, unit: Unit) -> bool:
    return any(config in state.measured for config in unit.configs)


def mean_seconds(state: State, configs: Iterable[int]) -> float:
    """Seconds of a visit of these configs together; of unmeasured ones, those of the slowest known."""
    if state.order == "round":  # a schedule that no clock changes: the same run gives the same weights again
        return 1.0
    known = [state.measured[config][0] for config in configs if config in state.measured]
    return max(known or (mean for mean, _ in state.measured.values()), default=1.0)


def remaining(state: State, unit: Unit) -> float:
    """Seconds of work left for the unit, this and later epochs."""
    later = (state.epochs[unit.configs[0]] - unit.epoch) * len(state.segments)
    return (len(unit.left) + later) * mean_seconds(state, unit.configs)


def segment_load(state: State) -> Dict[int, float]:
    """Seconds of work that wait for each segment in the current epochs."""
    load = dict.fromkeys(state.segments, 0.0)
    party_of = parties(state)
    seconds = {party: mean_seconds(state, party) for party in party_of.values()}
    # Sorted, so that the same state gives the same sums to the last bit.
    for segment, party in sorted({(hop.segment, party_of[hop.config]) for hop in state.waiting}):
        load[segment] += seconds[party]
    return load


def work(state: State, free: List[Unit]) -> Work:
    """What is left of the run, for dry runs: of the free units first, then of the busy ones."""
    places = {segment: place for place, segment in enumerate(state.segments)}
    busy = sorted(busy_units(state).items())
    units = free + [unit for _, unit in busy]
    paces = paces_of(state)
    means = [mean_seconds(state, unit.configs) for unit in units]
    there = {}
    for number, (segment, unit) in enumerate(busy, len(free)):
        spent = state.now - state.began.get(segment, state.now)
        if not is_measured(state, unit):  # it lasts already, and may be one of the slow ones
            means[number] = max(means[number], spent * NOISE)
        there[number] = (places[segment], max(means[number] * paces[segment] - spent, means[number] / 50))
    number_of = numbers(state)
    return Work(
        left=[sum(1 << places[segment] for segment in unit.left) for unit in units],
        later=[max(0, state.epochs[unit.configs[0]] - unit.epoch) for unit in units],
        seconds=[[mean * paces[segment] for segment in state.segments] for mean in means],
        busy=there,
        numbers=[number_of[unit.configs[0]] for unit in units],
        down=sum(1 << places[segment] for segment in state.segments if segment not in state.up),
    )


def paces_of(state: State) -> Dict[int, float]:
    """segment -> how slow it is; 1 for all unless they clearly differ."""
    paces, same = dict.fromkeys(state.segments, 1.0), dict.fromkeys(state.segments, 1.0)
    for _ in range(3):  # a config's time depends on where it has been, and a segment's on who has been there
        own = _means((config, seconds / paces[segment]) for (config, segment), seconds in state.seconds.items())
        relative = _means((s, seconds / max(own[c], 1e-9)) for (c, s), seconds in state.seconds.items())
        paces.update(relative)
    return paces if max(paces.values()) > NOISE * max(min(paces.values()), 1e-9) else same


def _means(values: Iterable[Tuple[int, float]]) -> Dict[int, float]:
    sums: Dict[int, Tuple[float, int]] = {}
    for key, value in values:
        total, count = sums.get(key, (0.0, 0))
        sums[key] = (total + value, count + 1)
    return {key: total / count for key, (total, count) in sums.items()}
