"""What the experiments measure, and the CSV files that keep it: one row per measurement, written when it is known.

The report is made from these files alone. A unit is in the name of its column or said in its comment.
"""

from __future__ import annotations

import csv
import typing
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Dict, Iterable, List, Optional, Type, TypeVar, Union

from cerebro_db.errors import DataError

#: Where the time of a run goes; all of them add up to workers x seconds.
PARTS = ("train", "validate", "data", "hop", "start", "idle")


@dataclass(frozen=True)
class Sample:
    """One training of a grid of configs, by the engine or by another way."""

    workload: str
    #: A strategy, or the name of a baseline.
    approach: str
    #: What else was set, such as "order greedy"; empty for the defaults.
    variant: str
    segments: int
    #: Training rows of the table.
    rows: int
    configs: int
    epochs: int
    #: From 1; the same measurement again.
    repeat: int
    #: Wall time of the call.
    seconds: float
    #: Sessions or processes that train side by side.
    workers: int = 1
    # Seconds by part, over all workers; None where a way has no such part or cannot tell. All that comes before the
    # first hop and after the last is start: sessions, models, outputs; of a baseline processes, imports and its rows.
    train: Optional[float] = None
    validate: Optional[float] = None
    data: Optional[float] = None
    hop: Optional[float] = None
    start: Optional[float] = None
    idle: Optional[float] = None
    #: Rows that went through training, over all configs and epochs.
    rows_trained: int = 0
    #: Best and mean validation accuracy of the configs after the last epoch.
    accuracy: Optional[float] = None
    accuracy_mean: Optional[float] = None
    #: Smallest validation loss of the configs after the last epoch.
    loss: Optional[float] = None
    #: Of all processes that took part, the server's among them.
    cpu_seconds: Optional[float] = None
    memory_mb: Optional[float] = None
    disk_read_mb: Optional[float] = None
    disk_written_mb: Optional[float] = None
    network_mb: Optional[float] = None
    #: Model state that went from one segment to the next, and how often.
    hopped_mb: Optional[float] = None
    hops: int = 0
    #: From the first hop's start to the last one's end [s], and what no schedule of these hops can go below.
    makespan: Optional[float] = None
    bound: Optional[float] = None

    @property
    def name(self) -> str:
        return f"{self.approach}, {self.variant}" if self.variant else self.approach


@dataclass(frozen=True)
class Point:
    """A config's validation after an epoch."""

    workload: str
    approach: str
    config: int
    epoch: int
    accuracy: Optional[float] = None
    loss: Optional[float] = None


@dataclass(frozen=True)
class Codec:
    """A trained state compressed without loss, beside the hop that it would have to shorten."""

    codec: str
    state_mb: float
    #: Size before over size after.
    ratio: float
    in_mb_s: float
    out_mb_s: float
    #: A hop of this state, read and written through the database.
    hop_mb_s: float


@dataclass(frozen=True)
class Outcome:
    """How the measuring of a question ended."""

    question: str
    size: str
    #: "measured", "failed" or "interrupted".
    outcome: str
    seconds: float
    error: str
    #: UTC.
    began: str
    commit: str


Row = Union[Sample, Point, Codec]
#: What is put behind a question's name to make its file's.
SUFFIXES: Dict[Type[Any], str] = {Sample: "", Point: "_curves", Codec: "_codecs"}
Kind = TypeVar("Kind", Sample, Point, Codec, Outcome)


class Table:
    """A CSV file that grows by a row at a time, so that what an interrupted run has measured stays."""

    def __init__(self, path: Path, kind: Type[Any]) -> None:
        self._path = path
        self._names = [item.name for item in fields(kind)]
        path.parent.mkdir(parents=True, exist_ok=True)
        self._write([dict(zip(self._names, self._names))], "w")

    def add(self, row: Any) -> None:
        self._write([asdict(row)], "a")

    def _write(self, rows: Iterable[Dict[str, Any]], mode: str) -> None:
        with self._path.open(mode, encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, self._names, lineterminator="\n")
            writer.writerows({name: _text(value) for name, value in row.items()} for row in rows)


def read(path: Path, kind: Type[Kind]) -> List[Kind]:
    """The rows of a file in their order; none when there is no file.

    Raises DataError when it has other columns, or a cell that is not of its column's type.
    """
    if not path.exists():
        return []
    types = {name: _plain(hint) for name, hint in typing.get_type_hints(kind).items()}
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        if reader.fieldnames != list(types):
            raise DataError(f"{path} has columns {reader.fieldnames}, expected {list(types)}; measure again")
        return [kind(**_typed(path, row, types)) for row in reader]


def _typed(path: Path, row: Dict[str, str], types: Dict[str, type]) -> Dict[str, Any]:
    try:
        return {name: types[name](text) if text or types[name] is str else None for name, text in row.items()}
    except (TypeError, ValueError) as error:
        raise DataError(f"{path} has a row that cannot be read ({error}): {row}; measure again") from None


def _plain(hint: Any) -> type:
    """`float` of `Optional[float]`."""
    found = [kind for kind in typing.get_args(hint) or (hint,) if kind is not type(None)]
    return typing.cast(type, found[0])


def _text(value: object) -> object:
    """Floats to six digits: more would only be noise."""
    return f"{value:.6g}" if isinstance(value, float) else value


def best(samples: Iterable[Sample], of_training: bool = False) -> List[Sample]:
    """The fastest of each measurement's repeats, by its wall time or its training, in the order of the first."""
    found: Dict[Any, Sample] = {}
    for sample in samples:
        key = (sample.workload, sample.name, sample.segments, sample.rows, sample.configs)
        if key not in found or _taken(sample, of_training) < _taken(found[key], of_training):
            found[key] = sample
    return list(found.values())


def _taken(sample: Sample, of_training: bool) -> float:
    return sample.seconds if sample.makespan is None or not of_training else sample.makespan
