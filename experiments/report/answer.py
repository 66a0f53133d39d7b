"""What a question's measurements come to: numbers, plots and verdicts, before they are a page."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Dict, List, Mapping, Optional, Sequence

from cerebro_db.report.plot import Figure
from experiments.results import SUFFIXES, Codec, Point, Sample, best, read


@dataclass(frozen=True)
class Results:
    """A folder of CSV files."""

    folder: Path

    def samples(self, question: str, of_training: bool = True) -> List[Sample]:
        """The repeat of each measurement whose training, or else whose whole call, was the fastest."""
        return best(read(self._path(question, SUFFIXES[Sample]), Sample), of_training)

    def points(self, question: str) -> List[Point]:
        return read(self._path(question, SUFFIXES[Point]), Point)

    def codecs(self, question: str) -> List[Codec]:
        return read(self._path(question, SUFFIXES[Codec]), Codec)

    def _path(self, question: str, suffix: str) -> Path:
        return self.folder / f"{question}{suffix}.csv"


@dataclass(frozen=True)
class Bar:
    """What has to be shown: a value and its bound; None where it was not measured."""

    what: str
    value: Optional[float]
    bound: float
    #: "at least", "at most" or "above".
    sense: str
    #: What the value is of, in words.
    note: str = ""
    #: Decimals that are shown.
    digits: int = 3

    @property
    def met(self) -> Optional[bool]:
        if self.value is None:
            return None
        senses: Dict[str, Callable[[float, float], bool]] = {
            "at least": lambda value, bound: value >= bound,
            "at most": lambda value, bound: value <= bound,
            "above": lambda value, bound: value > bound,
        }
        return senses[self.sense](self.value, self.bound)


@dataclass(frozen=True)
class Grid:
    """A table: columns of text by name, and rows of cells as they are shown."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""


@dataclass(frozen=True)
class Answer:
    #: What the measurements show, a sentence each.
    findings: List[str] = field(default_factory=list)
    #: By the name of the element that each is drawn into.
    plots: Dict[str, Figure] = field(default_factory=dict)
    #: Titles of the plots that have one.
    captions: Mapping[str, str] = field(default_factory=dict)
    tables: List[Grid] = field(default_factory=list)
    #: Our number beside a published one, by its key.
    ours: Dict[str, str] = field(default_factory=dict)
    bars: List[Bar] = field(default_factory=list)


def ratio(above: Optional[float], below: Optional[float]) -> Optional[float]:
    """None where either is not known or there is nothing to divide by."""
    return above / below if above is not None and below else None


def shown(value: Optional[float], digits: int = 2) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"
