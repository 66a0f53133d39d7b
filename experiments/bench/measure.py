"""One measured number and its bar."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Measure:
    """A value and the bar it must reach; `better` is "higher" or "lower"."""

    measure: str
    value: float
    unit: str
    bar: float
    better: str

    @property
    def met(self) -> bool:
        return self.value >= self.bar if self.better == "higher" else self.value <= self.bar

    def line(self) -> str:
        return json.dumps({**asdict(self), "value": round(self.value, 4)})
