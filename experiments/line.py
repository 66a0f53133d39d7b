"""Sums that say what measurements show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence


@dataclass(frozen=True)
class Line:
    """y = slope x + intercept, and how much of the variation of y it explains."""

    slope: float
    intercept: float
    r2: float

    def at(self, x: float) -> float:
        return self.slope * x + self.intercept


def fit_line(xs: Sequence[float], ys: Sequence[float]) -> Line:
    """The line of least squares through two or more points of different x.

    R2 is 1 minus the squares that are left over the squares around the mean; 1 where all y are the same.
    """
    assert len(xs) == len(ys), (xs, ys)
    assert len(set(xs)) >= 2, f"a line needs two points of different x, not {xs}"
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys)) / sum((x - mean_x) ** 2 for x in xs)
    intercept = mean_y - slope * mean_x
    left = sum((y - slope * x - intercept) ** 2 for x, y in zip(xs, ys))
    around = sum((y - mean_y) ** 2 for y in ys)
    return Line(slope, intercept, 1.0 - left / around if around else 1.0)
