"""Order portfolio: dry runs by hand, and makespans over their lower bounds on made-up runs.

The makespans of all orders beside each other: `python -m experiments.bench orders`; what a dry run costs:
`python -m experiments.bench portfolio`.
"""

from __future__ import annotations

from typing import Callable, Dict, List

import pytest

from cerebro_db import units
from cerebro_db.hopper import (
    ConfigAdded,
    ConfigStopped,
    Hop,
    HopFinished,
    SegmentDown,
    SegmentUp,
    StartHop,
    State,
    replay,
    step,
)
from cerebro_db.portfolio import (
    LONGEST,
    LONGEST_HELD,
    ROTATION,
    VARIATIONS,
    Work,
    choose,
    lower_bound,
    next_turn,
    play,
)
from tests.unit.played import Instance, makespan, mean_and_worst, mixed, one_slow_segment, ratio, uniform


def fresh(seconds: List[float], segments: int, epochs: int = 1) -> Work:
    """Units that have everything before them."""
    units = len(seconds)
    each = [[second] * segments for second in seconds]
    return Work([(1 << segments) - 1] * units, [epochs - 1] * units, each, {}, range(units))


def test_a_latin_square_ends_at_the_lower_bound():
    work = fresh([1.0] * 5, 5, epochs=3)
    assert lower_bound(work) == 15
    assert play(work, ROTATION).makespan == 15
    assert play(work, ROTATION).starts == [(unit, unit) for unit in range(5)]


def test_the_bound_is_the_busiest_segment_or_the_longest_unit():
    assert lower_bound(fresh([1.0, 2.0, 3.0], 2)) == 6
    assert lower_bound(fresh([1.0, 9.0, 3.0], 2)) == 18
    busy = Work([0b10, 0b11], [0, 0], [[1.0, 1.0], [1.0, 1.0]], {0: (0, 5.0)}, [0, 1])
    assert lower_bound(busy) == 6


def test_a_dry_run_goes_on_from_where_the_run_stands():
    # The first unit is on segment 0 for another second and has segment 1 left; the second has both.
    work = Work([0b10, 0b11], [0, 0], [[2.0, 2.0], [2.0, 2.0]], {0: (0, 1.0)}, [0, 1])
    played = play(work, LONGEST)
    assert played.starts == [(1, 1)]
    assert played.makespan == 4


def test_nothing_starts_on_a_segment_that_is_down():
    work = Work([0b11, 0b11], [0, 0], [[1.0, 1.0], [1.0, 1.0]], {}, [0, 1], down=0b01)
    assert play(work, LONGEST).starts == [(0, 1)]
    assert play(work, ROTATION).starts == [(1, 1)]
    assert play(work, ROTATION).makespan == 3  # the segment is expected back after one visit


@pytest.mark.parametrize(
    ("left", "number", "turn"), [(0b1111, 2, 2), (0b1011, 2, 3), (0b0011, 2, 0), (0b0010, 2, 1), (0b1111, 5, 1)]
)
def test_the_rotation_goes_round(left, number, turn):
    assert next_turn(left, number, 4) == turn


def test_a_segment_is_held_for_the_unit_that_the_run_waits_for():
    # Unit 0 comes to segment 1 in half a second and takes 10; a visit of unit 1 would keep it waiting.
    seconds = [[10.0, 10.0], [1.0, 1.0], [0.5, 0.5]]
    work = Work([0b10, 0b10, 0b10], [0, 0, 0], seconds, {0: (0, 0.5)}, [0, 1, 2])
    assert play(work, LONGEST).starts == [(1, 1)]
    assert play(work, LONGEST).makespan == 11.5
    assert play(work, LONGEST_HELD).starts == [(2, 1)]  # over before unit 0 comes
    assert play(work, LONGEST_HELD).makespan == 11.5
    without = Work([0b10, 0b10], [0, 0], seconds[:2], {0: (0, 0.5)}, [0, 1])
    assert play(without, LONGEST_HELD).starts == []


def test_the_rule_stays_unless_another_is_clearly_better():
    assert choose(fresh([1.0] * 8, 8), ROTATION) == ROTATION
    assert choose(fresh([1.0] * 8, 8), LONGEST) == LONGEST
    work = fresh([1.0] * 12 + [8.0] * 3, 4)
    assert (play(work, ROTATION).makespan, play(work, LONGEST).makespan, lower_bound(work)) == (41, 36, 36)
    assert choose(work, ROTATION) == LONGEST


def test_variations_are_the_same_at_any_time_on_any_machine():
    work = fresh([1.0, 2.0, 3.0, 4.0], 3)
    assert [play(work, rule).starts for rule in range(VARIATIONS, VARIATIONS + 4)] == VARIED


VARIED = [
    [(3, 1), (2, 2), (1, 0)], [(3, 1), (2, 2), (1, 0)], [(3, 2), (2, 1), (1, 0)], [(3, 2), (0, 1), (2, 0)],
]  # fmt: skip


def test_all_that_is_played_visits_everything_once():
    work = fresh([1.0, 1.5, 2.0, 4.0, 0.5], 3, epochs=2)
    for rule in range(VARIATIONS + 8):
        assert play(work, rule).makespan >= lower_bound(work)


def test_units_not_measured_go_first_so_that_slow_ones_show():
    state = State((0, 1), order="portfolio")
    state, instructions = step(state, *[ConfigAdded(c, 1) for c in range(4)], SegmentUp(0), SegmentUp(1))
    assert [start.hop.config for start in instructions] == [0, 1]
    state, instructions = step(state, HopFinished(Hop(1, 0, 0), 5.0))
    assert instructions == (StartHop(Hop(1, 2, 0)),)
    state, instructions = step(state, HopFinished(Hop(1, 1, 1), 5.0))
    assert instructions == (StartHop(Hop(1, 3, 1)),)


def test_a_slow_segment_shows_in_the_seconds_of_all_who_have_not_been_there():
    events = [ConfigAdded(c, 1) for c in range(3)] + [SegmentUp(s) for s in range(3)]
    events += [HopFinished(Hop(1, 0, s), [2.0, 1.0, 1.0][s]) for s in range(3)]
    events += [HopFinished(Hop(1, 1, s), [6.0, 3.0, 3.0][s]) for s in (0, 1)]
    events += [HopFinished(Hop(1, 2, 1), 1.0)]
    state = replay(State((0, 1, 2), order="portfolio"), events)
    pace = units.paces_of(state)
    assert pace[0] / pace[1] == pytest.approx(2.0, rel=0.05)
    assert pace[2] / pace[1] == pytest.approx(1.0, rel=0.05)


def test_equally_fast_segments_have_the_same_pace_whatever_the_noise():
    events = [ConfigAdded(0, 1), ConfigAdded(1, 1)]
    events += [HopFinished(Hop(1, c, s), 1.0 + 0.1 * ((c + s) % 2)) for c in (0, 1) for s in (0, 1)]
    assert units.paces_of(replay(State((0, 1), order="portfolio"), events)) == {0: 1.0, 1: 1.0}


def test_how_long_a_visit_lasts_already_is_known_from_the_others():
    events = [ConfigAdded(c, 1) for c in (0, 1)] + [SegmentUp(0), SegmentUp(1)]
    state = step(State((0, 1), order="portfolio"), *events).state
    state = step(state, HopFinished(Hop(1, 0, 0), 3.0)).state
    assert state.now == 3.0
    work = units.work(state, units.free_units(state))
    assert work.busy[1] == (1, pytest.approx(0.75))  # not measured yet, so at least a quarter longer than until now


def test_a_group_is_one_unit():
    state = State((0, 1), order="portfolio", groups=((0, 2), (1, 3)))
    state, instructions = step(state, *[ConfigAdded(c, 2) for c in range(4)], SegmentUp(0), SegmentUp(1))
    assert instructions == (StartHop(Hop(1, 0, 0), others=(2,)), StartHop(Hop(1, 1, 1), others=(3,)))


def test_what_is_left_goes_on_after_a_stop_and_a_loss():
    state = State((0, 1, 2), order="portfolio")
    state = step(state, *[ConfigAdded(c, 1) for c in range(3)], *map(SegmentUp, range(3))).state
    state = step(state, ConfigStopped(1), SegmentDown(2), HopFinished(Hop(1, 0, 0), 1.0)).state
    assert {hop.config for hop in state.waiting} == {0, 2}
    assert all(hop.segment != 2 for hop in state.running)
    while state.running:
        state = step(state, HopFinished(min(state.running), 1.0)).state
    assert state.waiting == {Hop(1, 0, 2), Hop(1, 2, 2)}  # all that is left waits for the lost segment


#: kind -> configs per segment -> noise -> the mean and the worst ratio of makespan to lower bound, at most.
#: With as many configs as segments and noise every order waits now and then: the bound is not reached by any.
CASES: List[tuple] = [
    (uniform, 1, 0.03, 1.010, 1.015),
    (uniform, 1, 0.1, 1.035, 1.045),
    (uniform, 2, 0.03, 1.002, 1.005),
    (uniform, 2, 0.1, 1.002, 1.010),
    (uniform, 4, 0.1, 1.001, 1.005),
    (mixed, 1, 0.1, 1.005, 1.015),
    # A slow config that is not among the first to start has lost a visit of 1 in 8 x 8 before it is known to be slow.
    (mixed, 2, 0.03, 1.025, 1.040),
    (mixed, 2, 0.1, 1.025, 1.040),
    (mixed, 4, 0.03, 1.020, 1.060),
    (mixed, 4, 0.1, 1.020, 1.040),
    (one_slow_segment, 1, 0.1, 1.002, 1.005),
    (one_slow_segment, 2, 0.1, 1.002, 1.005),
    (one_slow_segment, 4, 0.1, 1.002, 1.005),
]


def ratios(kind: Callable[..., Instance], configs: int, segments: int, noise: float, order: str) -> Dict[int, float]:
    return {
        seed: ratio(kind(configs, segments, seed=seed, noise=noise), order=order) for seed in range(24 // segments)
    }


@pytest.mark.parametrize("segments", [4, 8])
@pytest.mark.parametrize(("kind", "times", "noise", "mean", "worst"), CASES)
def test_makespan_over_its_lower_bound(segments, kind, times, noise, mean, worst):
    found = mean_and_worst(ratios(kind, times * segments, segments, noise, "portfolio"))
    assert found[0] <= mean
    assert found[1] <= worst


def test_it_is_as_good_as_the_best_of_the_others_where_they_differ():
    for kind, configs, segments in ((uniform, 8, 8), (mixed, 8, 4), (mixed, 16, 4)):
        orders = ("portfolio", "rotation", "greedy", "round")
        means = {o: mean_and_worst(ratios(kind, configs, segments, 0.03, o))[0] for o in orders}
        ours = means.pop("portfolio")
        assert ours <= min(means.values()) + 0.006, (kind, configs, ours, means)


def test_the_barrier_of_rounds_costs_most_when_configs_differ():
    assert mean_and_worst(ratios(mixed, 16, 4, 0.03, "round"))[0] > 1.5
    assert mean_and_worst(ratios(uniform, 16, 4, 0.03, "round"))[0] < 1.05


def test_the_same_run_is_played_the_same_way_twice():
    instance, visits = mixed(16, 4, seed=3, noise=0.1), ([], [])
    for started in visits:
        makespan(instance, started.append, order="portfolio")
    assert visits[0] == visits[1]
    assert len(visits[0]) == 16 * 4 * 2


def test_groups_are_played_as_units():
    pairs = tuple((config, config + 8) for config in range(8))
    whole = ratio(uniform(16, 8), order="portfolio", groups=pairs)
    assert whole == pytest.approx(0.5)  # eight visits of two at once; the bound counts them one by one
