"""Where each row goes: the random number that sorts it, and the buffer that the number falls into.

On PostgreSQL both scans draw the same numbers from the session's seeded random(). On Greenplum a row's
number is a hash of the seed and of where the row lies. Bins of these numbers are counted on the segments;
a second scan looks only into the bins where a buffer begins.
"""

from __future__ import annotations

from bisect import bisect_right
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from cerebro_db.database import Database, one
from cerebro_db.datacheck import Source
from cerebro_db.engines import on_greenplum
from cerebro_db.errors import RunError
from cerebro_db.sqltext import Fragment, join, query

#: Bins per buffer, and how many there are at least and at most.
_BINS_PER_BUFFER, _LEAST_BINS, _MOST_BINS = 16, 256, 1 << 16
#: Above every number.
_NEVER = 2.0


@dataclass(frozen=True)
class Cut:
    """How many buffers the rows are cut into."""

    rows: int
    segments: int
    #: A multiple of the segments, except when there are fewer rows than segments.
    buffers: int

    @property
    def buffers_per_segment(self) -> int:
        return max(1, self.buffers // self.segments)

    @property
    def starts(self) -> List[int]:
        """Where each buffer starts among the sorted rows."""
        return [buffer * self.rows // self.buffers for buffer in range(self.buffers)]

    @property
    def fractions(self) -> List[float]:
        """The same as shares of the rows; half a row on, which no rounding can cross."""
        return [(start + 0.5) / self.rows for start in self.starts]

    @property
    def buffer_size(self) -> int:
        """Rows of the largest buffer."""
        return -(-self.rows // self.buffers)


@dataclass(frozen=True)
class Shuffle:
    """SQL that says where a row goes, with the values it binds."""

    #: A number of a row of `source`, from 0 to below 1.
    number: Fragment
    #: The buffer of a row of `s`, whose number is `s.shuffle`.
    buffer: Fragment
    values: Dict[str, Any]
    #: What the session's random() starts from, when numbers are drawn from it.
    seed: Optional[int] = None


def shuffle(database: Database, source: Source, plan: Cut, seed: int) -> Shuffle:
    """Buffers that differ by one row at most; the same seed and rows give the same."""
    number = source.number(database)
    if on_greenplum(database):
        return _hashed(database, source, plan, seed, number)
    with seeded(database, seed):
        found = one(database, query("packing", "shuffle_starts"), rows=plan.rows, fractions=plan.fractions)
    buffer = Fragment("width_bucket(s.shuffle, %(starts)s::float8[]) - 1")
    return Shuffle(number, buffer, {"starts": found["starts"]}, seed)


@contextmanager
def seeded(database: Database, seed: Optional[int]) -> Iterator[None]:
    """Have random() start from a seed, and afterwards go on as if it had not been touched; None leaves it."""
    if seed is None:
        yield
        return
    after = one(database, query("packing", "next_seed"))["seed"]
    database.rows(query("packing", "set_seed"), seed=seed / 2**31)
    yield
    database.rows(query("packing", "set_seed"), seed=after)


def _hashed(database: Database, source: Source, plan: Cut, seed: int, number: Fragment) -> Shuffle:
    bins = max(_LEAST_BINS, min(_MOST_BINS, _BINS_PER_BUFFER * plan.buffers))
    values = {"shuffle_seed": seed, "bins": bins}
    counts = [0] * bins
    for row in database.rows(source.query("shuffle_bins", number=number), **values):
        counts[row["bin"]] = row["rows"]
    if sum(counts) != plan.rows:
        raise changed(source, plan.rows, sum(counts))
    wanted = places(counts, plan.starts[1:])
    starts: List[float] = []
    if wanted:
        sql = source.query("shuffle_places", number=number)
        at = {"at_bins": [place[0] for place in wanted], "at_places": [place[1] for place in wanted]}
        starts = [row["shuffle"] for row in database.rows(sql, **values, **at)]
    return _looked_up(number, Steps.of(starts, bins), values)


def places(counts: Sequence[int], starts: Sequence[int]) -> List[Tuple[int, int]]:
    """Of the sorted rows at `starts`: the bin of each, and its place in there from 1."""
    before = [0, *accumulate(counts)]
    found = ((bisect_right(before, start) - 1, start) for start in starts)
    return [(number, start - before[number] + 1) for number, start in found]


@dataclass(frozen=True)
class Steps:
    """The numbers with which buffers start, to be looked up by bin instead of searched."""

    #: Per bin: buffers that start below it, without the first of all.
    below: List[int]
    #: The first number in each bin with which a buffer starts, the second, and so on.
    levels: List[List[float]] = field(default_factory=list)

    @classmethod
    def of(cls, starts: Sequence[float], bins: int) -> Steps:
        inside: List[List[float]] = [[] for _ in range(bins)]
        for start in sorted(starts):
            inside[int(start * bins)].append(start)
        deepest = max(map(len, inside))
        levels = [[each[k] if k < len(each) else _NEVER for each in inside] for k in range(deepest)]
        return cls([0, *accumulate(map(len, inside))][:-1], levels)


def _looked_up(number: Fragment, steps: Steps, values: Dict[str, Any]) -> Shuffle:
    place = "[floor(s.shuffle * %(bins)s::integer)::integer + 1]"
    terms = [Fragment(f"(%(below)s::integer[]){place}")]
    for k, level in enumerate(steps.levels):
        terms.append(Fragment(f"(s.shuffle >= (%(level_{k})s::float8[]){place})::integer"))
        values[f"level_{k}"] = level
    return Shuffle(number, join(" + ", terms), {**values, "below": steps.below})


def changed(source: Source, before: int, after: int) -> RunError:
    return RunError(
        f"table {source.table} changed while it was packed: it had {before} rows, then {after}; run it again"
    )
