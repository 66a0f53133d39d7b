"""One measured number and its bar."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Optional


@dataclass(frozen=True)
class Measure:
    """A value and the bar it must reach, if any; `better` is "higher" or "lower"."""

    measure: str
    value: float
    unit: str
    bar: Optional[float]
    better: str

    @property
    def met(self) -> bool:
        if self.bar is None:
            return True
        return self.value >= self.bar if self.better == "higher" else self.value <= self.bar

    def line(self) -> str:
        return json.dumps({**asdict(self), "value": round(self.value, 4)})
