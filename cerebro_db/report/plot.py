"""What every plot of a page shares: layout, axes and legend, as plain Plotly dictionaries."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Optional

Figure = Dict[str, Any]


def finite(value: Optional[float]) -> Optional[float]:
    """NaN and infinity cannot be drawn: a gap."""
    return value if value is not None and math.isfinite(value) else None


def categories(names: List[str]) -> Dict[str, Any]:
    return {"type": "category", "categoryorder": "array", "categoryarray": names}


def legend_above() -> Dict[str, Any]:
    return {
        "orientation": "h",
        "x": 0,
        "xanchor": "left",
        "y": 1.02,
        "yanchor": "bottom",
        "font": {"size": 12},
    }


def axis(title: str, **more: Any) -> Dict[str, Any]:
    return {
        "title": {"text": title, "font": {"size": 12}, "standoff": 10},
        "gridcolor": "var(--grid)",
        "linecolor": "var(--grid)",
        "zeroline": False,
        "tickfont": {"size": 12},
        "automargin": True,
        **more,
    }


def blank(height: int, **more: Any) -> Dict[str, Any]:
    return {
        "height": height,
        "autosize": True,
        "margin": {"l": 8, "r": 12, "t": 12, "b": 8},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, 'Segoe UI', Roboto, sans-serif", "size": 13, "color": "var(--muted)"},
        "hoverlabel": {
            "align": "left",
            "bgcolor": "var(--tip)",
            "bordercolor": "var(--tip)",
            "font": {"color": "var(--tip-ink)", "size": 12},
        },
        **more,
    }
