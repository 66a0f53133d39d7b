"""Learning curves of Model Hopper Parallelism and of model averaging."""

from __future__ import annotations

from typing import Callable, Dict, List, Optional, Sequence, Tuple

from experiments.report import charts
from experiments.report.answer import Answer, Bar, Grid, Results, ratio, shown
from experiments.results import Point

AVERAGING = "averaging"
#: (epoch, value) in order.
Curve = List[Tuple[float, Optional[float]]]
_Value = Callable[[Point], Optional[float]]
_Choice = Callable[[Sequence[float]], float]


def answer(results: Results) -> Answer:
    points = results.points("averaging")
    approaches = list(dict.fromkeys(point.approach for point in points))
    accuracy = _curves(points, approaches, lambda point: point.accuracy, max)
    loss = _curves(points, approaches, lambda point: point.loss, min)
    hopping = next((name for name in approaches if name != AVERAGING), None)
    behind = _behind(accuracy, hopping, "best")
    axes = {"x_axis": {"dtick": 1}, "y_axis": {"rangemode": "normal"}}
    return Answer(
        findings=_findings(accuracy, hopping),
        plots={
            "averaging": charts.paired(accuracy, "epoch", "validation accuracy", **axes),
            "averaging_loss": charts.paired(loss, "epoch", "validation loss", **axes),
        } if points else {},
        tables=[_table(accuracy, "Validation accuracy"), _table(loss, "Validation loss")],
        ours={"loss": _loss_ratio(loss, hopping)},
        bars=[Bar("accuracy of MOP minus that of model averaging, best configs after the last epoch", behind, 0.0,
                  "above", f"mean of all configs: {shown(_behind(accuracy, hopping, 'mean'), 4)}" * bool(points), 4)],
    )  # fmt: skip


def _curves(points: Sequence[Point], approaches: Sequence[str], value: _Value, choose: _Choice) -> Dict[str, Curve]:
    """By "approach, best" and "approach, mean of configs", over epochs."""
    found: Dict[str, Curve] = {}
    for approach in approaches:
        for name, make in (("best", choose), ("mean", mean)):
            found[f"{approach}, {name}"] = _curve([each for each in points if each.approach == approach], value, make)
    return found


def _curve(points: Sequence[Point], value: _Value, make: _Choice) -> Curve:
    by_epoch: Dict[int, List[float]] = {}
    for point in points:
        seen = value(point)
        if seen is not None:
            by_epoch.setdefault(point.epoch, []).append(seen)
    return [(epoch, make(values)) for epoch, values in sorted(by_epoch.items())]


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _last(curves: Dict[str, Curve], name: str) -> Optional[float]:
    curve = curves.get(name)
    return curve[-1][1] if curve else None


def _behind(curves: Dict[str, Curve], hopping: Optional[str], which: str) -> Optional[float]:
    ours, theirs = _last(curves, f"{hopping}, {which}"), _last(curves, f"{AVERAGING}, {which}")
    return None if ours is None or theirs is None else ours - theirs


def _findings(accuracy: Dict[str, Curve], hopping: Optional[str]) -> List[str]:
    ours, theirs = _last(accuracy, f"{hopping}, best"), _last(accuracy, f"{AVERAGING}, best")
    if ours is None or theirs is None:
        return []
    means = [shown(_last(accuracy, f"{name}, mean"), 4) for name in (hopping, AVERAGING)]
    return [
        f"After the last epoch the best config reaches {ours:.4f} by hopping and {theirs:.4f} by averaging;"
        f" the mean of all is {' and '.join(means)}."
    ]


def _loss_ratio(loss: Dict[str, Curve], hopping: Optional[str]) -> str:
    told = []
    for which in ("best", "mean"):
        value = ratio(_last(loss, f"{AVERAGING}, {which}"), _last(loss, f"{hopping}, {which}"))
        told.append(f"{shown(value)} ({which} of configs)")
    return ", ".join(told)


def _table(curves: Dict[str, Curve], title: str) -> Grid:
    epochs = sorted({int(epoch) for curve in curves.values() for epoch, _ in curve})
    columns = [dict(curve) for curve in curves.values()]
    cells = [[str(epoch), *(shown(column.get(epoch), 4) for column in columns)] for epoch in epochs]
    return Grid(("epoch", *curves), cells, title)
