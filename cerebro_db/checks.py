"""Checks of single arguments: each takes a value and what it is, and gives the canonical value.

A check never guesses: True is no number, 'False' is no flag, NaN and infinity are refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, Mapping, Tuple, Union

from cerebro_db.errors import UsageError, unknown

Check = Callable[[Any, str], Any]


@dataclass(frozen=True)
class Number:
    """A finite number in a range, as float; bounds belong to the range unless they are open."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False

    def __call__(self, value: Any, what: str) -> float:
        number = _finite(value)
        if number is None or not self._holds(number):
            raise UsageError(f"{what} is {value!r}, expected {self}")
        return number

    def _holds(self, number: float) -> bool:
        above = number > self.low if self.open_low else number >= self.low
        below = number < self.high if self.open_high else number <= self.high
        return above and below

    def __str__(self) -> str:
        bounds = []
        if self.low > -math.inf:
            bounds.append(f"{'>' if self.open_low else '>='} {self.low:g}")
        if self.high < math.inf:
            bounds.append(f"{'<' if self.open_high else '<='} {self.high:g}")
        return " ".join(["a finite number", " and ".join(bounds)]).strip()


@dataclass(frozen=True)
class Whole:
    """A whole number in a range, as int; 1e3 is one too."""

    low: int = 1
    high: float = math.inf

    def __call__(self, value: Any, what: str) -> int:
        number = _finite(value)
        if number is None or not number.is_integer() or not self.low <= number <= self.high:
            bound = f" and <= {self.high}" if self.high < math.inf else ""
            raise UsageError(f"{what} is {value!r}, expected a whole number >= {self.low}{bound}")
        return int(value)


@dataclass(frozen=True)
class ListOf:
    """A list of checked values, as a tuple; of exactly `length` values where that is given."""

    item: Check
    length: int = -1

    def __call__(self, value: Any, what: str) -> Tuple[Any, ...]:
        if not isinstance(value, (list, tuple)):
            raise UsageError(f"{what} is {value!r}, expected a list")
        if self.length >= 0 and len(value) != self.length:
            raise UsageError(f"{what} has {len(value)} values, expected {self.length}")
        return tuple(self.item(item, f"{what}[{place}]") for place, item in enumerate(value))


@dataclass(frozen=True)
class Named:
    """One name out of a closed list, in lower case."""

    known: Tuple[str, ...]

    def __call__(self, value: Any, what: str) -> str:
        if not isinstance(value, str) or value.lower() not in self.known:
            raise unknown(what, value, self.known)
        return value.lower()


def flag(value: Any, what: str) -> bool:
    """True or False, and nothing that merely looks like it."""
    if not isinstance(value, bool):
        raise UsageError(f"{what} is {value!r}, expected True or False without quotes")
    return value


def anything(value: Any, what: str) -> Any:
    """Any plain value."""
    return value


def take(
    values: Mapping[str, Any], checks: Mapping[str, Check], what: str, required: Iterable[str] = ()
) -> Dict[str, Any]:
    """The values checked one by one, in the order of `checks`; unknown and missing names are refused."""
    for name in values:
        if name not in checks:
            raise unknown(f"argument of {what}", name, checks)
    for name in required:
        if name not in values:
            raise UsageError(f"{what} lacks {name!r}; expected {name}=...")
    return {name: check(values[name], f"{what}: {name}") for name, check in checks.items() if name in values}


def _finite(value: Any) -> Union[float, None]:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:  # an integer beyond the range of float
        return None
    return number if math.isfinite(number) else None
