"""Plots of measurements, with the look of the report of a run."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from cerebro_db.report.look import DISTINCT, SYMBOLS
from cerebro_db.report.plot import Figure, axis, blank, categories, finite, legend_above
from experiments.line import Line

#: (x, y) in order.
Series = Mapping[str, Sequence[Tuple[float, Optional[float]]]]
HEIGHT = 340


def lines(series: Series, x: str, y: str, **axes: Any) -> Figure:
    """A line with marks per series; `axes` are settings of the axes: x_axis and y_axis."""
    data = [_line(name, points, place) for place, (name, points) in enumerate(series.items())]
    return _figure(data, x, y, axes)


def paired(series: Series, x: str, y: str, **axes: Any) -> Figure:
    """The same where two series in a row belong together: they share a colour, and the second is dashed."""
    data = [_line(name, points, place // 2) for place, (name, points) in enumerate(series.items())]
    for second in data[1::2]:
        second["line"] = {**second["line"], "dash": "dash", "width": 1.75}
    return _figure(data, x, y, axes)


def fits(series: Series, found: Mapping[str, Line], x: str, y: str, **axes: Any) -> Figure:
    """Marks, and the straight line through those of each series."""
    data: List[Dict[str, Any]] = []
    for place, (name, points) in enumerate(series.items()):
        ends = [min(x for x, _ in points), max(x for x, _ in points)]
        data.append({**_line(name, points, place), "mode": "markers"})
        data.append({
            "type": "scatter", "mode": "lines", "x": ends, "y": [found[name].at(end) for end in ends],
            "line": {"color": colour(place), "width": 1.5, "dash": "dot"}, "showlegend": False, "hoverinfo": "skip",
        })  # fmt: skip
    return _figure(data, x, y, axes)


def bars(groups: Sequence[str], series: Mapping[str, Sequence[Optional[float]]], y: str, **axes: Any) -> Figure:
    """A bar per series in each group."""
    data = [
        {
            "type": "bar", "name": name, "x": list(groups), "y": [finite(value) for value in values],
            "marker": {"color": colour(place)}, "hovertemplate": f"{name}, %{{x}}: %{{y:.4g}}<extra></extra>",
        }
        for place, (name, values) in enumerate(series.items())
    ]  # fmt: skip
    plot = _figure(data, "", y, axes)
    plot["layout"]["xaxis"] = axis("", showgrid=False, **categories(list(groups)))
    plot["layout"].update(bargap=0.28, bargroupgap=0.06)
    return plot


def level(plot: Figure, y: float, text: str) -> Figure:
    """The same with a dashed line across at y."""
    line = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y,
            "line": {"color": "var(--muted)", "width": 1.2, "dash": "dash"}}  # fmt: skip
    word = {"xref": "paper", "x": 1, "y": y, "text": text, "showarrow": False, "xanchor": "right", "yanchor": "bottom",
            "font": {"size": 12}}  # fmt: skip
    plot["layout"].update(shapes=[line], annotations=[word])
    return plot


def colour(place: int) -> str:
    return DISTINCT[place % len(DISTINCT)]


def _line(name: str, points: Sequence[Tuple[float, Optional[float]]], place: int) -> Dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": [x for x, _ in points],
        "y": [finite(y) for _, y in points],
        "line": {"color": colour(place), "width": 2.25},
        "marker": {"size": 8, "color": colour(place), "symbol": SYMBOLS[place % len(SYMBOLS)]},
        "hovertemplate": f"{name}<br>%{{x}}: %{{y:.4g}}<extra></extra>",
    }


def _figure(data: List[Dict[str, Any]], x: str, y: str, axes: Mapping[str, Any]) -> Figure:
    names = [item["name"] for item in data if "name" in item]
    layout = blank(HEIGHT, hovermode="closest", legend=legend_above(), showlegend=len(names) > 1)
    layout["xaxis"] = axis(x, **axes.get("x_axis", {}))
    layout["yaxis"] = axis(y, **{"rangemode": "tozero", **axes.get("y_axis", {})})
    return {"data": data, "layout": layout}
