"""Plots as plain Plotly dictionaries, from plain values.

Colours of texts, grids and gaps are CSS variables (`var(--ink)`); the page puts their values in
when it draws, so that one figure suits a light and a dark page.
"""

from __future__ import annotations

import html
import math
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from cerebro_db.report import accounting
from cerebro_db.report.accounting import Share
from cerebro_db.report.look import DASHES, SYMBOLS, Look
from cerebro_db.report.plot import Figure, axis, blank, categories, finite, legend_above
from cerebro_db.report.record import PARTS, Config, Epoch, Hop

PART_COLOURS = {
    "train": "#2774ae",
    "validate": "#8fc1e3",
    "data": "#2ba58b",
    "hop": "#e0a030",
    "start": "#b07aa1",
    "idle": "var(--idle)",
}
#: Lines that a legend names; more would be unreadable, and every line tells its name on hover.
LEGEND_LINES = 8


def learning_curves(look: Look) -> Optional[Figure]:
    """Metric and loss after each epoch, one line per config; None before the first finished epoch."""
    record = look.record
    if not record.epochs:
        return None
    panels = {f"{look.kind} loss": accounting.seen_loss}
    if any(accounting.seen_metric(epoch) is not None for epoch in record.epochs):
        panels = {f"{look.kind} {look.metric_name}": accounting.seen_metric, **panels}
    layout = blank(420 if len(look.board) > 1 else 320, hovermode="closest", legend=legend_above())
    data: List[Dict[str, Any]] = []
    for panel, (title, value) in enumerate(panels.items()):
        # The best lines are drawn last, above the others.
        data += [_curve(look, place, panel, value) for place in reversed(range(len(look.board)))]
        tail = _tail(panel)
        domain = [0.0, 1.0] if len(panels) == 1 else [panel * 0.56, 0.44 + panel * 0.56]
        layout[f"xaxis{tail}"] = axis("epoch", domain=domain, anchor=f"y{tail}", **_epoch_ticks(look))
        layout[f"yaxis{tail}"] = axis(html.escape(title), anchor=f"x{tail}")
    return {"data": data, "layout": layout}


def _curve(look: Look, place: int, panel: int, value: Callable[[Epoch], Optional[float]]) -> Dict[str, Any]:
    config = look.board[place].config
    key, top = config.mst_key, place < LEGEND_LINES
    epochs = look.epochs(key)
    return {
        "type": "scatter",
        "mode": "lines+markers",
        **_on(panel),
        "x": [epoch.epoch for epoch in epochs],
        "y": [finite(value(epoch)) for epoch in epochs],
        "name": look.labels[key],
        "legendgroup": str(key),
        "legendrank": place + 1,
        "showlegend": top and panel == 0 and bool(epochs),
        "line": {
            "color": look.colours[key],
            "width": 2.25 if top else 1.25,
            "dash": _sign(look, config, DASHES),
        },
        "marker": {"size": 7 if top else 4},
        "opacity": 1.0 if top else 0.6,
        "hovertemplate": f"<b>{look.labels[key]}</b><br>epoch %{{x}}: %{{y:.4f}}<br>"
        f"{look.details[key]}<extra></extra>",
    }


def hyperparameters(look: Look) -> Optional[Figure]:
    """The deciding value against each parameter that differs between configs; None when nothing does."""
    if not look.ranked or not look.varied:
        return None
    columns = min(len(look.varied), 4)
    rows = math.ceil(len(look.varied) / columns)
    layout = blank(rows * 270, hovermode="closest", showlegend=False)
    layout["grid"] = {"rows": rows, "columns": columns, "pattern": "independent", "xgap": 0.16, "ygap": 0.35}
    data: List[Dict[str, Any]] = []
    for panel, (name, values) in enumerate(look.varied.items()):
        tail = _tail(panel)
        data += [_dots(look, name, panel), _means(look, name, panel)]
        title = html.escape(look.deciding_name) if panel % columns == 0 else ""
        layout[f"yaxis{tail}"] = axis(title, nticks=6)
        layout[f"xaxis{tail}"] = axis(html.escape(name), **categories([html.escape(v) for v in values]))
        layout[f"xaxis{tail}"]["range"] = [-0.6, len(values) - 0.4]
    return {"data": data, "layout": layout}


def _dots(look: Look, name: str, panel: int) -> Dict[str, Any]:
    configs = [standing.config for standing in look.ranked]
    return {
        "type": "scatter",
        "mode": "markers",
        **_on(panel),
        "x": [html.escape(_value(config, name)) for config in configs],
        "y": [look.deciding_value(standing) for standing in look.ranked],
        "text": [f"<b>{look.labels[c.mst_key]}</b><br>{look.details[c.mst_key]}" for c in configs],
        "marker": {
            "size": 11,
            "opacity": 0.9,
            "color": [look.colours[config.mst_key] for config in configs],
            "symbol": [_sign(look, config, SYMBOLS) for config in configs],
            "line": {"width": 1, "color": "var(--surface)"},
        },
        "hovertemplate": "%{text}<br>%{y:.4f}<extra></extra>",
    }


def _means(look: Look, name: str, panel: int) -> Dict[str, Any]:
    """A short bar at the mean of each value, so that its effect is seen at once."""
    means = mean_by_value(look, name)
    return {
        "type": "scatter",
        "mode": "markers",
        **_on(panel),
        "x": [html.escape(value) for value in means],
        "y": list(means.values()),
        "marker": {"symbol": "line-ew-open", "size": 30, "color": "var(--ink)", "line": {"width": 2}},
        "hovertemplate": "mean %{y:.4f}<extra></extra>",
    }


def mean_by_value(look: Look, name: str) -> Dict[str, float]:
    """Mean of the deciding value over the ranked configs, per value of a parameter."""
    groups: Dict[str, List[float]] = {}
    for standing in look.ranked:
        found = look.deciding_value(standing)
        if found is not None:
            groups.setdefault(_value(standing.config, name), []).append(found)
    return {value: sum(found) / len(found) for value, found in groups.items()}


#: The part of a lane that its bars fill.
LANE = 0.8


def hops(look: Look) -> Optional[Figure]:
    """Every hop as a bar in the lane of its segment, those of a group side by side; None before the first one."""
    record = look.record
    if not record.hops:
        return None
    lanes = [f"segment {lane}" for lane in accounting.segments(record)]
    company = accounting.company(record)
    bars = {
        "type": "bar",
        "orientation": "h",
        "width": [round(LANE / count, 4) for _, count in company],
        "offset": [round(LANE * (number / count - 0.5), 4) for number, count in company],
        "y": [f"segment {hop.segment_id}" for hop in record.hops],
        "base": [round(hop.started, 4) for hop in record.hops],
        "x": [round(hop.seconds, 4) for hop in record.hops],
        "marker": {
            "color": [look.colours[hop.mst_key] for hop in record.hops],
            "line": {"width": 1 if len(record.hops) <= 600 else 0.4, "color": "var(--surface)"},
        },
        "text": [_hop_text(look, hop) for hop in record.hops],
        "textposition": "none",
        "hovertemplate": "%{text}<extra></extra>",
    }
    end = max([record.run.seconds, *(hop.finished for hop in record.hops)])
    height = max(36, 9 * max(count for _, count in company))
    layout = blank(max(160, 70 + height * len(lanes)), hovermode="closest", showlegend=False, bargap=0)
    layout["barmode"] = "overlay"
    layout["xaxis"] = axis("seconds since the start of the run", range=[0, end])
    layout["yaxis"] = axis("", showgrid=False, **categories(lanes[::-1]))
    return {"data": [bars], "layout": layout}


def _hop_text(look: Look, hop: Hop) -> str:
    rate = f"{hop.rows / hop.seconds:,.0f} rows/s" if hop.seconds > 0 else "–"
    parts = ", ".join(f"{part} {seconds:.2f}" for part, seconds in zip(PARTS, hop.parts))
    return (
        f"<b>{look.labels[hop.mst_key]}</b><br>epoch {hop.epoch}, segment {hop.segment_id}<br>"
        f"{hop.rows:,} rows, {rate}<br>{hop.started:.2f} to {hop.finished:.2f} s<br>{parts} s"
    )


def segment_time(look: Look) -> Optional[Figure]:
    """Where the time of each segment went; every bar is as long as the run."""
    shares = accounting.time_of_segments(look.record)
    names = [f"segment {share.key}" for share in shares]
    return stacked(shares, names, names, (*PARTS, "idle")) if shares else None


def config_time(look: Look) -> Optional[Figure]:
    """Where the time of each config went, longest first."""
    shares = accounting.time_of_configs(look.record)
    models = {config.mst_key: config.model for config in look.record.configs}
    names = [f"#{share.key} {html.escape(models[share.key])}" for share in shares]
    return stacked(shares, names, [look.labels[share.key] for share in shares], PARTS) if shares else None


def stacked(
    shares: Sequence[Share], names: List[str], titles: List[str], parts: Sequence[str],
    colours: Mapping[str, str] = PART_COLOURS,
) -> Figure:  # fmt: skip
    """A bar per share, made of its parts; `titles` are their names on hover."""
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": part,
            "width": 0.74,
            "y": names,
            "x": [share.seconds[part] for share in shares],
            "text": [_share_text(share, title, part) for share, title in zip(shares, titles)],
            "textposition": "none",
            "hovertemplate": "%{text}<extra></extra>",
            "marker": {"color": colours[part], "line": {"width": 0}},
        }
        for part in parts
    ]
    row = 30 if len(names) <= 20 else 19
    layout = blank(90 + row * len(names), barmode="stack", hovermode="closest", bargap=0)
    layout["legend"] = {**legend_above(), "traceorder": "normal"}
    layout["xaxis"] = axis("seconds")
    layout["yaxis"] = axis("", showgrid=False, dtick=1, **categories(names[::-1]))
    return {"data": data, "layout": layout}


def _share_text(share: Share, title: str, part: str) -> str:
    seconds = share.seconds[part]
    return f"<b>{title}</b><br>{part} {seconds:.2f} s ({seconds / (share.total or 1.0):.1%})"


def _value(config: Config, name: str) -> str:
    return config.model if name == "model" else config.params.get(name, "–")


def _sign(look: Look, config: Config, signs: Sequence[str]) -> str:
    """A dash or symbol per model, so that models differ without colour too."""
    return signs[look.models[config.mst_key] % len(signs)]


def _epoch_ticks(look: Look) -> Dict[str, Any]:
    """Whole epochs, at most about ten ticks."""
    last = max(epoch.epoch for epoch in look.record.epochs)
    room = 0.02 * last + 0.1
    return {"dtick": max(1, math.ceil(last / 10)), "tick0": 1, "range": [1 - room, last + room]}


def _tail(panel: int) -> str:
    return "" if panel == 0 else str(panel + 1)


def _on(panel: int) -> Dict[str, str]:
    """The axes of a panel."""
    return {"xaxis": f"x{_tail(panel)}", "yaxis": f"y{_tail(panel)}"}
