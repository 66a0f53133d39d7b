"""Pieces of a page: HTML of plain values, escaped, and the document around them."""

from __future__ import annotations

import html
import json
from datetime import datetime, timezone
from pathlib import Path
from string import Template
from typing import Any, Mapping, Optional, Sequence

from plotly.offline import get_plotlyjs

from cerebro_db.report.plot import Figure

_ASSETS = Path(__file__).parent / "assets"
_TONES = {
    "finished": "good", "trained": "good", "failed": "bad", "diverged": "bad", "cancelled": "warn",
    "interrupted": "warn", "running": "plain", "training": "plain",
}  # fmt: skip


def document(title: str, body: Sequence[str], plots: Mapping[str, Optional[Figure]], style: str = "") -> str:
    """The whole page as HTML; `plots` are drawn into the elements of their names. `style` is CSS of the page's own."""
    return Template(_asset("page.html")).substitute(
        title=text(title),
        style=_asset("page.css") + style,
        script=_asset("page.js"),
        plotly=get_plotlyjs(),
        figures=script_json({name: plot for name, plot in plots.items() if plot}),
        body="\n".join(body),
    )


def figure(plots: Mapping[str, Optional[Figure]], name: str, empty: str) -> str:
    """Where a plot is drawn, or the words that stand for it."""
    plot = plots[name]
    if plot is None:
        return f'<p class="empty">{empty}</p>'
    return f'<div class="figure" id="{name}" style="min-height:{plot["layout"]["height"]}px"></div>'


def tile(name: str, value: str, note: str) -> str:
    return (
        f'<div class="tile"><div class="name">{text(name)}</div><div class="value">{text(value)}</div>'
        f'<div class="note">{text(note)}</div></div>'
    )


def section(title: str, lead: str, inner: str) -> str:
    return f'<section><h2>{title}</h2><p class="lead">{text(lead)}</p>{inner}</section>'


def pill(status: str, tone: Optional[str] = None) -> str:
    """A word on a colour: "good", "bad", "warn" or "plain"; by itself that of a status."""
    return f'<span class="pill {tone or _TONES.get(status, "plain")}">{text(status)}</span>'


def right(number: int) -> str:
    return ' class="number"' if number else ""


def text(value: object) -> str:
    return html.escape(str(value))


def script_json(value: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    return (
        json.dumps(value, allow_nan=False)
        .replace("<", "\\u003c")
        .replace(">", "\\u003e")
        .replace("&", "\\u0026")
    )


def when(seconds: Optional[float]) -> str:
    moment = datetime.now(timezone.utc) if seconds is None else datetime.fromtimestamp(seconds, timezone.utc)
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text("utf-8")
