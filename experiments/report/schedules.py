"""Orders of hops against the lower bound."""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

from cerebro_db.report.plot import Figure
from experiments.report import charts
from experiments.report.answer import Answer, Bar, Grid, Results, ratio, shown
from experiments.results import Sample

#: The order that has to come close to the bound.
JUDGED = "portfolio"
BOUND = 1.02


def answer(results: Results) -> Answer:
    samples = results.samples("mixed")
    cells = {key(each): over_bound(each) for each in samples}
    groups = list(dict.fromkeys(place for place, _ in cells))
    orders = list(dict.fromkeys(order for _, order in cells))
    judged = {place: value for (place, order), value in cells.items() if order == JUDGED and value is not None}
    worst = max(judged, key=lambda place: judged[place], default=None)
    return Answer(
        findings=_findings(cells, orders),
        plots={"mixed": _bars(groups, orders, cells)} if samples else {},
        captions={"mixed": "From the first hop to the last, over the busiest segment or the longest config"},
        tables=[_table(samples)],
        ours={"barrier": _barrier(samples), "greedy": _greedy(cells)},
        bars=[Bar("makespan over the lower bound, order portfolio: the worst of all", judged[worst] if worst else None,
                  BOUND, "at most", worst or "")],
    )  # fmt: skip


def key(sample: Sample) -> Tuple[str, str]:
    """("mixed, 2 × segments", "greedy") of a sample whose variant is "mixed, greedy"."""
    grid, order = sample.variant.split(", ")
    return f"{grid}, {sample.configs / sample.segments:g} × segments", order


def over_bound(sample: Sample) -> Optional[float]:
    return ratio(sample.makespan, sample.bound)


def _bars(groups: List[str], orders: List[str], cells: Dict[Tuple[str, str], Optional[float]]) -> Figure:
    series = {order: [_percent(cells.get((group, order))) for group in groups] for order in orders}
    return charts.level(charts.bars(groups, series, "% over the lower bound"), 100 * (BOUND - 1), "2 %")


def _percent(value: Optional[float]) -> Optional[float]:
    return None if value is None else 100 * (value - 1)


def _findings(cells: Dict[Tuple[str, str], Optional[float]], orders: List[str]) -> List[str]:
    means = []
    for order in orders:
        known = [value for (_, other), value in cells.items() if other == order and value is not None]
        if known:
            means.append(f"{order} {sum(known) / len(known):.3f} on average and {max(known):.3f} at worst")
    return [f"Over the lower bound: {'; '.join(means)}."] if means else []


def _barrier(samples: List[Sample]) -> str:
    """Rounds over the portfolio, else over greedy, where configs differ."""
    found: Dict[Tuple[str, str], Sample] = {key(each): each for each in samples if each.variant.startswith("mixed")}
    told = []
    for place in dict.fromkeys(place for place, _ in found):
        barrier, free = found.get((place, "round")), found.get((place, JUDGED)) or found.get((place, "greedy"))
        value = ratio(barrier.makespan if barrier else None, free.makespan if free else None)
        told.append(f"{shown(value)} ({place.split(', ')[1]})")
    return ", ".join(told)


def _greedy(cells: Dict[Tuple[str, str], Optional[float]]) -> str:
    tight = {place: value for (place, order), value in cells.items() if order == "greedy" and ", 1 ×" in place}
    return ", ".join(f"{shown(value, 3)} × the bound ({place.split(',')[0]})" for place, value in tight.items())


def _table(samples: List[Sample]) -> Grid:
    heads = ("configs", "order", "makespan s", "lower bound s", "ratio", "idle s", "wall s")
    cells = [
        [key(each)[0], key(each)[1], shown(each.makespan), shown(each.bound), shown(over_bound(each), 3),
         shown(each.idle), shown(each.seconds, 1)]
        for each in samples
    ]  # fmt: skip
    return Grid(heads, cells)
