"""A visit of a config to a segment: where, what is asked, and what it came to. Plain values; no torch."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

from cerebro_db.plan import Plan


@dataclass(frozen=True)
class Place:
    """Where a worker works: a segment of a run."""

    run_id: int
    plan: Plan
    segment_id: int

    @property
    def dist_key(self) -> int:
        return next(s.dist_key for s in self.plan.segments if s.segment_id == self.segment_id)


class Visit(NamedTuple):
    """A visit of one config, or of several that are trained as one, to one segment in one epoch (from 1)."""

    mst_keys: Tuple[int, ...]
    epoch: int
    #: Every other segment has been visited in this epoch: validate after it.
    last: bool


def configs(mst_keys: Sequence[int]) -> str:
    """How a session shows whom it trains."""
    if len(mst_keys) == 1:
        return f"config {mst_keys[0]}"
    return f"{len(mst_keys)} configs from {mst_keys[0]}"


class Taken(NamedTuple):
    """The time of a whole visit."""

    seconds: float
    #: Seconds of it that states took in and out; None for all that the visit did not take itself.
    moved: Optional[float] = None


@dataclass(frozen=True)
class Visited:
    """What a visit counted for one config, and where its seconds went; of several configs each has an equal share."""

    row_count: int
    loss: Optional[float]
    metric: Optional[float]
    validation_rows: Optional[int]
    validation_loss: Optional[float]
    validation_metric: Optional[float]
    train_seconds: float
    validate_seconds: float
    data_seconds: float
    build_seconds: float
    #: A loss was NaN or infinite: the state of before the visit stays.
    diverged: bool

    def to_json(self) -> Dict[str, Any]:
        """As JSON that a server reads too, which has words for numbers that are none."""
        numbers = asdict(self).items()
        return {name: value if value is None or math.isfinite(value) else str(value) for name, value in numbers}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Visited:
        numbers: Dict[str, Any] = {n: float(value) if isinstance(value, str) else value for n, value in raw.items()}
        return cls(**numbers)

    def values(self, taken: Taken, state_bytes: int, width: int = 1) -> Dict[str, Any]:
        """The values of catalog query `save_hop`, but for what names the hop.

        Five parts add up to the share of one of `width` configs in the time of the visit.
        """
        values = dict(vars(self))
        build, known = values.pop("build_seconds"), self.train_seconds + self.validate_seconds + self.data_seconds
        del values["diverged"]
        share = taken.seconds / width
        moved = max(0.0, share - known - build) if taken.moved is None else taken.moved / width
        start = max(0.0, share - known - moved)
        whole = {"state_bytes": state_bytes, "seconds": taken.seconds}
        return {**values, "hop_seconds": moved, "start_seconds": start, **whole}
