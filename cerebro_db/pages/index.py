"""Where the chunks of TOASTed values lie: runs of chunks that follow each other, found in windows of pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Sequence, Tuple

import numpy as np

from cerebro_db.pages.chunks import Chunks

#: Pages between two runs of chunks that are read along rather than passed over.
GAP = 16


@dataclass(frozen=True)
class Wanted:
    """Values to find: int64 arrays in order of `value_id`, each once, with the chunks that it has."""

    value_id: np.ndarray
    chunks: np.ndarray

    @classmethod
    def of(cls, chunks_of: Sequence[Tuple[int, int]]) -> Wanted:
        pairs = np.array(sorted(set(chunks_of)), np.int64).reshape(-1, 2)
        return cls(pairs[:, 0], pairs[:, 1])

    def likely(self, samples: np.ndarray) -> np.ndarray:
        """Which windows may hold one, if values were written in order; `samples` are their first values.

        Value numbers only grow while a table is written once. A window without a sample (-1), or whose
        next one is smaller, may hold anything; so may the last, which has no next one.
        """
        after = np.append(samples[1:], -1)
        first, behind = np.searchsorted(self.value_id, samples), np.searchsorted(self.value_id, after, "right")
        found: np.ndarray = (samples < 0) | (after < samples) | (behind > first)
        return found


@dataclass(frozen=True)
class Index:
    """Runs of chunks of wanted values, by value: int64 arrays [runs]."""

    value_id: np.ndarray
    #: Its first and last page, and how many chunks it has.
    first: np.ndarray
    last: np.ndarray
    count: np.ndarray

    @classmethod
    def of(cls, runs: Sequence[np.ndarray]) -> Index:
        rows = np.concatenate([np.zeros((4, 0), np.int64), *runs], axis=1)
        return cls(*rows[:, np.argsort(rows[0], kind="stable")])

    def holds(self, wanted: Wanted) -> bool:
        """Whether every chunk of every value has been found."""
        place = np.searchsorted(wanted.value_id, self.value_id)
        found = np.bincount(place, self.count, minlength=len(wanted.chunks))
        return bool((found >= wanted.chunks).all())

    def extents(self, value_id: int) -> List[Tuple[int, int]]:
        """Ranges of pages, ends included, that hold a value; near ones are one."""
        low, high = np.searchsorted(self.value_id, [value_id, value_id + 1])
        if low == high:
            return []
        order = np.argsort(self.first[low:high], kind="stable")
        first, last = self.first[low:high][order], np.maximum.accumulate(self.last[low:high][order])
        apart = np.nonzero(first[1:] > last[:-1] + GAP)[0]
        starts, ends = first[np.append(0, apart + 1)], last[np.append(apart, len(last) - 1)]
        return list(zip(starts.tolist(), ends.tolist()))


def runs(block: np.ndarray, found: Chunks, wanted: Wanted) -> np.ndarray:
    """Value, first page, last page and length of each run of chunks of a wanted value: [4, runs]."""
    next_one = (found.value_id[1:] == found.value_id[:-1]) & (found.seq[1:] == found.seq[:-1] + 1)
    breaks = np.nonzero(~next_one)[0] + 1
    starts = np.append(0, breaks)[: len(block)]
    ends = np.append(breaks, len(block))[: len(starts)]
    every = np.stack([found.value_id[starts], block[starts], block[ends - 1], ends - starts])
    return every[:, np.isin(every[0], wanted.value_id)]
