"""Configs trained together, over the same ones one after the other."""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

from experiments.report import charts
from experiments.report.answer import Answer, Grid, Results, ratio, shown
from experiments.results import Sample

OFF = "fuse off"
#: (together, one after the other) by architecture and configs.
Pairs = Dict[Tuple[str, int], Tuple[Optional[Sample], Optional[Sample]]]


def answer(results: Results) -> Answer:
    samples = results.samples("fusion")
    pairs = _pairs(samples)
    series: Dict[str, List[Tuple[float, Optional[float]]]] = {}
    for (name, count), (fused, single) in pairs.items():
        series.setdefault(name, []).append((count, faster(fused, single)))
    most = {name: max((value or 0.0, count) for count, value in points) for name, points in series.items()}
    told = ", ".join(f"{value:.2f} × on {name} with {count:.0f} configs" for name, (value, count) in most.items())
    ticks = {"type": "log", "tickvals": sorted({count for _, count in pairs})}
    finding = f"Where the probe finds it faster, configs are trained together; the most this gives is {told}."
    return Answer(
        findings=[finding] if told else [],
        plots={"fusion": charts.level(charts.lines(series, "configs", "rows/s over one after the other", x_axis=ticks),
                                      1.0, "one after the other")} if series else {},
        tables=[_table(pairs)],
        ours={"speedup": told or "–"},
    )  # fmt: skip


def faster(fused: Optional[Sample], single: Optional[Sample]) -> Optional[float]:
    """Rows a second of training, without moving states and validating, over each other."""
    return ratio(single.train, fused.train) if fused and single else None


def _pairs(samples: List[Sample]) -> Pairs:
    found: Dict[Tuple[str, int], Dict[str, Sample]] = {}
    for each in samples:
        label, _, variant = each.variant.partition("; ")
        found.setdefault((f"{each.workload}, {label}", each.configs), {})[variant] = each
    return {place: (pair.get(""), pair.get(OFF)) for place, pair in found.items()}


def _table(pairs: Pairs) -> Grid:
    heads = ("", "configs", "together s", "one by one s", "times as fast", "accuracy together", "one by one")
    cells = [
        [name, str(count), shown(fused.train if fused else None), shown(single.train if single else None),
         shown(faster(fused, single)), shown(fused.accuracy if fused else None, 4),
         shown(single.accuracy if single else None, 4)]
        for (name, count), (fused, single) in pairs.items()
    ]  # fmt: skip
    return Grid(heads, cells)
