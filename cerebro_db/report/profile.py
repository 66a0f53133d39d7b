"""Where the time inside the hops went, of a run with option profile: a bar per config, made of its phases."""

from __future__ import annotations

import html
from typing import Any, Dict, List, Mapping, Optional

from cerebro_db.phases import PHASES
from cerebro_db.report.look import Look
from cerebro_db.report.plot import Figure, axis, blank, categories, legend_above

#: One per phase: neighbours differ, and what belongs together is of one hue.
COLOURS: Mapping[str, str] = {
    "load state": "#e0a030", "build": "#b07aa1", "rows": "#2ba58b", "zero gradients": "#c6d9ea", "forward": "#2774ae",
    "loss": "#6fa3cc", "backward": "#123f66", "optimizer": "#4f8fc0", "read loss": "#a9c7e0", "metric": "#8a6fb0",
    "look for interrupts": "#9a9a9a", "schedule": "#c9c9c9", "validation rows": "#8fd3c1", "validation": "#7fc97f",
    "dump state": "#f0c470", "save state": "#c17d11", "record": "#8c5a0c",
}  # fmt: skip


def phases(look: Look) -> Optional[Figure]:
    """Seconds of each phase by config, longest first; None for a run that has no profile."""
    found = sorted(look.record.profile.items(), key=lambda item: -sum(item[1].values()))
    if not found:
        return None
    names = [f"#{key} {html.escape(look.labels[key])}" for key, _ in found]
    known = {phase for _, seconds in found for phase in seconds}
    layout = blank(110 + (30 if len(names) <= 20 else 19) * len(names), barmode="stack", hovermode="closest", bargap=0)
    layout["legend"] = {**legend_above(), "traceorder": "normal"}
    layout["xaxis"] = axis("seconds")
    layout["yaxis"] = axis("", showgrid=False, dtick=1, **categories(names[::-1]))
    spent = [seconds for _, seconds in found]
    return {"data": [_bar(phase, names, spent) for phase in PHASES if phase in known], "layout": layout}


def _bar(phase: str, names: List[str], spent: List[Mapping[str, float]]) -> Dict[str, Any]:
    values = [seconds.get(phase, 0.0) for seconds in spent]
    shares = [value / (sum(seconds.values()) or 1.0) for value, seconds in zip(values, spent)]
    return {
        "type": "bar",
        "orientation": "h",
        "name": phase,
        "width": 0.74,
        "y": names,
        "x": values,
        "text": [f"<b>{name}</b><br>{phase} {value:.3f} s ({share:.1%})"
                 for name, value, share in zip(names, values, shares)],
        "textposition": "none",
        "hovertemplate": "%{text}<extra></extra>",
        "marker": {"color": COLOURS[phase], "line": {"width": 0}},
    }  # fmt: skip
