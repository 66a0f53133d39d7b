"""Which unit visits which segment next, by dry runs: rules play the rest of a run, and the best decides.

A unit is a config, or a group of configs that hop together. A rule says who goes first and where to. Each is
played on measured seconds from where the run stands, without a barrier between epochs; the one whose last hop
would end first is followed until there is a better one. A rule, not a list of hops, is what is kept: it has an
answer for every state, so hops that last longer than expected leave no segment idle that another unit could use.
Pure: same work and rule, same answer.
"""

from __future__ import annotations

import heapq
import random
from bisect import bisect_left, insort
from dataclasses import dataclass
from functools import lru_cache
from typing import Dict, Iterator, List, Mapping, NamedTuple, Sequence, Set, Tuple

#: The rules by number: every unit in its rotation, the longest first; the longest first, to the segment with most
#: work left; both again, but segments are held free for what the run waits for in the end; from here on seeded
#: variations.
ROTATION, LONGEST, ROTATION_HELD, LONGEST_HELD, VARIATIONS = range(5)
#: How many visits one choice may play at most: some tenths of a second [visits].
BUDGET = 16384
#: Fewest and most variations that are played, whatever they cost.
FEWEST, MOST = 4, 8
#: A rule that ends so close to the lower bound needs no better one.
NEAR = 1.001
#: A unit is what the run waits for when it takes so much of the lower bound.
CRITICAL = 0.8
#: What another rule must save before the run changes to it, of the seconds left: less is noise.
GAIN = 0.01


@dataclass(frozen=True)
class Work:
    """What is left of a run, by place of unit and segment; segments of a unit are bits."""

    #: Segments that each unit has left in its epoch, without one where it is now.
    left: Sequence[int]
    #: Epochs that each unit has after this one.
    later: Sequence[int]
    #: Seconds of a visit of each unit to each segment.
    seconds: Sequence[Sequence[float]]
    #: unit -> segment where it is, and seconds until it is free.
    busy: Mapping[int, Tuple[int, float]]
    #: Numbers of the units that stay the same for all the run; the rotation begins there.
    numbers: Sequence[int]
    #: Segments that are not up, as bits.
    down: int = 0

    @property
    def segments(self) -> int:
        return len(self.seconds[0])


class Play(NamedTuple):
    """How a dry run went."""

    #: Until the last hop ends.
    makespan: float
    #: Unit and segment of the visits that start at once.
    starts: List[Tuple[int, int]]


def choose(work: Work, current: int) -> int:
    """The rule to follow from here on: `current`, unless another ends the run clearly earlier."""
    enough = lower_bound(work) * NEAR
    makespan = play(work, current).makespan
    if makespan <= enough:
        return current
    best, least = current, makespan * (1 - GAIN)
    for rule in range(_rules(work)):
        makespan = play(work, rule).makespan
        if makespan < least:
            best, least = rule, makespan
        if least <= enough:
            break
    return best


def lower_bound(work: Work) -> float:
    """Seconds that no schedule can do without: the busiest segment's or the longest unit's."""
    loads = [0.0] * work.segments
    longest = 0.0
    for unit, seconds in enumerate(work.seconds):
        segment, length = work.busy.get(unit, (0, 0.0))
        loads[segment] += length
        for place, each in enumerate(seconds):
            spent = each * (work.later[unit] + (work.left[unit] >> place & 1))
            loads[place] += spent
            length += spent
        longest = max(longest, length)
    return max(longest, *loads)


def play(work: Work, rule: int, only_starts: bool = False) -> Play:
    """Play the work to its end, or only what starts at once."""
    return _Table(work, rule).play(only_starts)


def _rules(work: Work) -> int:
    visits = sum(bin(left).count("1") for left in work.left)
    visits += sum(work.later) * work.segments
    return VARIATIONS + max(FEWEST, min(MOST, BUDGET // max(visits, 1)))


@lru_cache(maxsize=4096)
def _chances(rule: int, number: int, segments: int) -> Tuple[float, Tuple[float, ...]]:
    """A unit's weight in a variation, and its liking for each segment; from 0 to 1."""
    chance = random.Random(f"{rule} {number}")  # noqa: S311 (seeded: the same at any time, on any machine)
    return chance.random(), tuple(chance.random() for _ in range(segments))


class _Table:
    """One dry run: who is where, and what is left."""

    def __init__(self, work: Work, rule: int) -> None:
        self.work, self.rule = work, rule
        count = work.segments
        self.left, self.later, self.full = list(work.left), list(work.later), (1 << count) - 1
        self.loads = [0.0] * count
        self.remaining: List[float] = []
        for unit, seconds in enumerate(work.seconds):
            spent = [each * (self.later[unit] + (self.left[unit] >> place & 1)) for place, each in enumerate(seconds)]
            self.remaining.append(sum(spent))
            self.loads = [load + each for load, each in zip(self.loads, spent)]
        self.chances = [_chances(rule, number, count) for number in work.numbers] if rule >= VARIATIONS else []
        #: Free segments, as bits.
        self.free = self.full & ~work.down
        #: Free units with their priorities and where they may go next, the first to choose first.
        self.idle: List[Tuple[float, int, int]] = []
        #: When which unit leaves which segment.
        self.ends: List[Tuple[float, int, int]] = []
        #: Units for which segments are held free; of those that are busy, the longest first, where they may go next
        #: and when.
        self.critical = self._critical() if rule in (ROTATION_HELD, LONGEST_HELD) or rule % 4 == 2 else set()
        self.away: List[Tuple[float, int, int, float]] = []

    def _critical(self) -> Set[int]:
        lengths = [self.work.busy.get(unit, (0, 0.0))[1] + remaining for unit, remaining in enumerate(self.remaining)]
        least = CRITICAL * max(*lengths, *self.loads)
        return {unit for unit, length in enumerate(lengths) if length >= least}

    def play(self, only_starts: bool) -> Play:
        self._sit_down()
        starts = self._start(0.0)
        now = 0.0
        while self.ends and not only_starts:
            now, unit, segment = heapq.heappop(self.ends)
            self._rise(unit, segment)
            # Ends that only rounding keeps apart come together, so that all of them can choose.
            while self.ends and self.ends[0][0] <= now * (1 + 1e-12):
                _, unit, segment = heapq.heappop(self.ends)
                self._rise(unit, segment)
            self._start(now)
        return Play(now, starts)

    def _sit_down(self) -> None:
        for unit in range(len(self.left)):
            if unit in self.work.busy:
                segment, seconds = self.work.busy[unit]
                self.free &= ~(1 << segment)
                self.ends.append((seconds, unit, segment))
                if unit in self.critical:
                    self._leave(unit, seconds)
            elif self.left[unit]:
                self._wait(unit)
        for segment in _bits(self.work.down):  # as if it came up by the time that a visit takes
            self.ends.append((max(seconds[segment] for seconds in self.work.seconds), -1, segment))
        heapq.heapify(self.ends)

    def _rise(self, unit: int, segment: int) -> None:
        self.free |= 1 << segment
        if unit < 0:
            return
        if unit in self.critical:
            del self.away[bisect_left(self.away, (-self.remaining[unit], unit))]
        if not self.left[unit] and self.later[unit]:
            self.left[unit] = self.full
            self.later[unit] -= 1
        if self.left[unit]:
            self._wait(unit)

    def _wait(self, unit: int) -> None:
        insort(self.idle, (self._priority(unit), unit, self._wants(unit, self.left[unit])))

    def _start(self, now: float) -> List[Tuple[int, int]]:
        """Start what the rule starts, in order of priority."""
        free, critical, seconds = self.free, self.critical, self.work.seconds
        held = self._held() if self.away else {}
        any_held = sum(1 << segment for segment in held)
        started, places = [], []
        for place, (_, unit, wanted) in enumerate(self.idle):
            open_to = wanted & free
            if not open_to:
                continue
            if open_to & any_held and unit not in critical:
                for segment, end in held.items():  # stay open to a visit that ends before
                    if now + seconds[unit][segment] > end:
                        open_to &= ~(1 << segment)
                if not open_to:
                    continue
            segment = self._where(unit, open_to)
            self._begin(unit, segment, now)
            started.append((unit, segment))
            places.append(place)
            free = self.free
            if not free:
                break
        for place in reversed(places):
            del self.idle[place]
        return started

    def _begin(self, unit: int, segment: int, now: float) -> None:
        seconds = self.work.seconds[unit][segment]
        self.free ^= 1 << segment
        self.left[unit] ^= 1 << segment
        self.remaining[unit] -= seconds
        self.loads[segment] -= seconds
        heapq.heappush(self.ends, (now + seconds, unit, segment))
        if unit in self.critical:
            self._leave(unit, now + seconds)

    def _leave(self, unit: int, end: float) -> None:
        """A critical unit is busy until then; where it goes next stands from now on."""
        next_left = self.left[unit] or (self.full if self.later[unit] else 0)
        insort(self.away, (-self.remaining[unit], unit, self._wants(unit, next_left), end))

    def _held(self) -> Dict[int, float]:
        """Free segment -> when a critical unit will be there."""
        held: Dict[int, float] = {}
        free = self.free
        for _, unit, wanted, end in self.away:
            open_to = wanted & free
            if open_to:
                segment = self._where(unit, open_to)
                held[segment] = end
                free ^= 1 << segment
                if not free:
                    break
        return held

    def _priority(self, unit: int) -> float:
        """Lower goes first."""
        if self.rule < VARIATIONS:
            return -self.remaining[unit]
        weight = self.chances[unit][0]
        return weight if self.rule % 4 == 3 else -self.remaining[unit] * (1 + weight / 2)

    def _wants(self, unit: int, left: int) -> int:
        """Where it may go next of what is left in its epoch: anywhere, or in rotation the one whose turn it is."""
        if not left or self.rule not in (ROTATION, ROTATION_HELD):
            return left
        return 1 << next_turn(left, self.work.numbers[unit], len(self.loads))

    def _where(self, unit: int, open_to: int) -> int:
        """The segment to visit next, of those that it may go to and that are free."""
        if not open_to & (open_to - 1):
            return open_to.bit_length() - 1
        if self.rule < VARIATIONS:
            first = self.work.numbers[unit]
            return max(_bits(open_to), key=lambda s: (self.loads[s], -((s - first) % self.work.segments)))
        likes = self.chances[unit][1]
        if self.rule % 2:
            return max(_bits(open_to), key=likes.__getitem__)
        return max(_bits(open_to), key=lambda s: self.loads[s] * (1 + likes[s] / 5))


def next_turn(left: int, number: int, segments: int) -> int:
    """Place of the segment whose turn it is in the rotation that begins at `number`."""
    ahead = left >> number % segments
    if ahead:
        return number % segments + (ahead & -ahead).bit_length() - 1
    return (left & -left).bit_length() - 1


def _bits(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest
