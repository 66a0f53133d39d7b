"""Workloads by name."""

from __future__ import annotations

from typing import Dict, Tuple

from cerebro_db.errors import unknown
from experiments.workloads.base import Config, Grid, Workload, first, uniform
from experiments.workloads.criteo import Criteo
from experiments.workloads.fashion import CNN, MLP, Fashion, grid, mixed, sized
from experiments.workloads.flights import Flights

_FLAT: Dict[str, Grid] = {
    "grid": first(grid([MLP])), "uniform": uniform(Config(MLP, 1e-3, 0.0, 256)), "mixed": mixed, "sized": sized,
}  # fmt: skip
_IMAGES: Dict[str, Grid] = {"grid": first(grid([CNN])), "uniform": uniform(Config(CNN, 1e-3, 0.0, 64))}
_ALL: Tuple[Workload, ...] = (
    Fashion("fashion", {**_FLAT, "grid": first(grid([MLP, CNN]))}),
    Fashion("fashion_flat", _FLAT),
    Fashion("fashion_images", _IMAGES),
    Flights(),
    Criteo(),
)
WORKLOADS: Dict[str, Workload] = {workload.name: workload for workload in _ALL}


def find(name: str) -> Workload:
    """The workload of a name; raises UsageError with the nearest one when there is none."""
    if name not in WORKLOADS:
        raise unknown("workload", name, list(WORKLOADS))
    return WORKLOADS[name]
