"""What a report knows about a run: plain values, no behaviour beyond names for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, Mapping, Optional, Tuple

#: What a hop spends its time on, in the order it is shown; with `idle` they add up to the wall time.
PARTS = ("train", "validate", "data", "hop", "start")


@dataclass(frozen=True)
class Run:
    run_id: int
    owner: str
    source_table: str
    strategy: str
    #: "metric_higher", "metric_lower" or "loss".
    ranking: str
    #: "running", "trained", "finished", "failed", "cancelled" or "interrupted".
    status: str
    num_iterations: int
    #: Since the epoch [s]; ended_at is now while the run goes on.
    started_at: float
    ended_at: float
    hops_total: int
    name: Optional[str] = None
    description: Optional[str] = None
    packed_table: Optional[str] = None
    validation_table: Optional[str] = None
    model_output_table: Optional[str] = None
    error: Optional[str] = None

    @property
    def seconds(self) -> float:
        return max(self.ended_at - self.started_at, 0.0)


@dataclass(frozen=True)
class Config:
    mst_key: int
    model_id: int
    #: Word of the architecture: "mlp", "cnn", "6 layers".
    model: str
    #: Hyper-parameters by name, flat: {"lr": "0.001", "batch_size": "64"}.
    params: Dict[str, str] = field(default_factory=dict)
    state_bytes: Optional[int] = None
    status: str = "waiting"
    error: Optional[str] = None


@dataclass(frozen=True)
class Hop:
    mst_key: int
    epoch: int
    segment_id: int
    rows: int
    #: Since the start of the run [s].
    started: float
    finished: float
    #: Seconds of each of PARTS, in that order.
    parts: Tuple[float, ...]
    session_pid: int = 0

    @property
    def seconds(self) -> float:
        return max(self.finished - self.started, 0.0)


@dataclass(frozen=True)
class Epoch:
    """Loss and metric of a config after an epoch; None where there is none."""

    mst_key: int
    epoch: int
    training_loss: Optional[float] = None
    training_metric: Optional[float] = None
    validation_loss: Optional[float] = None
    validation_metric: Optional[float] = None


@dataclass(frozen=True)
class Record:
    run: Run
    configs: Tuple[Config, ...]
    hops: Tuple[Hop, ...] = ()
    epochs: Tuple[Epoch, ...] = ()
    #: Seconds by config and phase, of a run with option profile.
    profile: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
