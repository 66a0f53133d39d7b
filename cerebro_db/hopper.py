"""The schedule of Model Hopper Parallelism as a pure function: (state, event) -> (state, instructions).

Every config visits every segment exactly once per epoch; no config is in two places and no segment
holds two configs (Nakandala et al., "Cerebro", PVLDB 13(11), 2020, section 4). There is no barrier:
a config begins its next epoch as soon as its last is done, and hops start whenever a config and a
segment are both free. Configs of a group hop together, as one unit: what is said of a config above is
then said of the unit. No I/O, clock or randomness: durations arrive inside events, so folding a
stored log gives the same state again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Iterable, List, Mapping, NamedTuple, Tuple

from cerebro_db import portfolio, units
from cerebro_db.schedule import (
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
)
from cerebro_db.units import Unit

__all__ = [
    "ORDERS", "ConfigAdded", "ConfigDone", "ConfigFailed", "ConfigStopped", "EpochDone", "Event", "Hop", "HopFailed",
    "HopFinished", "Instruction", "SegmentDown", "SegmentUp", "StartHop", "State", "Step", "replay", "step", "validate",
]  # fmt: skip


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
    state, starts = _by_portfolio(state) if state.order == "portfolio" else (state, _startable(state))
    started = {hop for start in starts for hop in start.hops}
    began = {**state.began, **{start.hop.segment: state.now for start in starts}}
    state = replace(state, waiting=state.waiting - started, running=state.running | started, began=began)
    return Step(state, (*news, *starts))


def replay(state: State, events: Iterable[Event]) -> State:
    """The state that a stored log leads to. Hops that ran when it broke off wait again, and may start elsewhere."""
    return step(state, *events).state


def validate(state: State) -> None:
    """Raise AssertionError unless no config is in two places and no segment holds two units."""
    running = list(state.running)
    assert len({hop.config for hop in running}) == len(running), running
    group = units.groups(state)
    visits = {(hop.segment, hop.epoch, group[hop.config]) for hop in running}
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
    if isinstance(event, HopFailed):
        state = _dissolve(state, event.hop.config)
    if event.hop not in state.running and event.hop not in state.waiting:  # a late report of a hop already given up
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


def _dissolve(state: State, config: int) -> State:
    group = units.groups(state)[config]
    return replace(state, alone=state.alone | set(group)) if len(group) > 1 else state


def _fail(state: State, event: HopFailed) -> Step:
    count = state.failures.get(event.hop, 0) + 1
    state = replace(state, failures={**state.failures, event.hop: count}, running=state.running - {event.hop})
    state, done = _give_back(state, [event.hop])
    if done or count < state.max_failures:
        return Step(state, done)
    state, done = _stop(state, event.hop.config)
    return Step(state, (ConfigFailed(event.hop.config, event.reason), *done))


def _finish(state: State, event: HopFinished) -> Step:
    hop = event.hop
    mean, count = state.measured.get(hop.config, (0.0, 0))
    measured = {**state.measured, hop.config: (mean + (event.seconds - mean) / (count + 1), count + 1)}
    seconds = {**state.seconds, (hop.config, hop.segment): event.seconds}
    if hop in state.running:
        state = replace(state, now=max(state.now, state.began[hop.segment] + event.seconds))
    state = replace(state, running=state.running - {hop}, waiting=state.waiting - {hop})
    return _close_epoch(replace(state, measured=measured, seconds=seconds), hop)


def _close_epoch(state: State, hop: Hop) -> Step:
    if any(other.config == hop.config for other in state.waiting | state.running):
        return Step(state, ())
    if hop.epoch > state.epochs[hop.config]:  # stopped meanwhile: this epoch stays partial
        return Step(state, (ConfigDone(hop.config),))
    done = EpochDone(hop.config, hop.epoch)
    if hop.epoch < state.epochs[hop.config]:
        return Step(_open_epoch(state, hop.config, hop.epoch + 1), (done,))
    return Step(state, (done, ConfigDone(hop.config)))


def _startable(state: State) -> List[StartHop]:
    """At most one hop per free segment and free unit, the longest remaining work first.

    Longest-remaining-first is the usual list rule for open shops: what is left over at the end is
    then short. A unit's remaining seconds are its remaining hops times its mean hop; a unit
    that has not been measured counts as the slowest known one, so that long ones are found early.
    """
    if state.order == "round" and (state.running or state.up != set(state.segments)):
        return []
    free = set(state.up) - {hop.segment for hop in state.running}
    load = units.segment_load(state)
    number = units.numbers(state)
    chosen = []
    ready = sorted(units.free_units(state), key=lambda unit: (-units.remaining(state, unit), unit.configs))
    for unit in ready:
        open_to = free.intersection(_candidates(state, unit, number))
        if open_to:
            lead = unit.configs[0]
            segment = min(open_to, key=lambda s: (-load[s], (s - lead) % len(state.segments)))
            chosen.append(unit.start(segment))
            free.discard(segment)
    return chosen


def _candidates(state: State, unit: Unit, number: Mapping[int, int]) -> Iterable[int]:
    """Where a free unit may go next: every segment left in its epoch, or in rotation the one whose turn it is."""
    if state.order != "rotation":
        return unit.left
    turn = {segment: place - number[unit.configs[0]] for place, segment in enumerate(state.segments)}
    return [min(unit.left, key=lambda segment: turn[segment] % len(turn))]


def _by_portfolio(state: State) -> Tuple[State, List[StartHop]]:
    """What the rule in force starts; another comes into force when it would end the run clearly earlier."""
    free = units.free_units(state)
    busy = {hop.segment for hop in state.running}
    if not free or state.up <= busy:
        return state, []
    if len(free) + len(busy) > len(state.segments) and not all(units.is_measured(state, unit) for unit in free):
        return state, _startable(state)  # first of all, find out which ones are slow
    work = units.work(state, free)
    ended = sum(count for _, count in state.measured.values())
    if ended >= state.chosen_at + len(state.segments) // 2:
        state = replace(state, rule=portfolio.choose(work, state.rule), chosen_at=ended)
    starts = portfolio.play(work, state.rule, only_starts=True).starts
    return state, [free[unit].start(state.segments[place]) for unit, place in starts]
