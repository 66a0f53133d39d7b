"""The page: what had to be shown, then each question with its plots, its numbers and the published ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from cerebro_db.report.markup import document, figure, pill, section, text, tile
from cerebro_db.report.plot import Figure
from cerebro_db.report.words import duration
from experiments import machine
from experiments.questions import registry
from experiments.report import comparison, fusing, hopping, learning, scaling, schedules
from experiments.report.answer import Answer, Bar, Grid, Results
from experiments.report.published import Published, published
from experiments.results import Outcome, read
from experiments.runner import MEASURED, OUTCOMES

TITLES = {
    "end_to_end": "End to end",
    "segments": "More segments",
    "rows": "More rows",
    "configs": "More configs",
    "mixed": "Order of hops",
    "state": "Size of models",
    "averaging": "Averaging models",
    "fusion": "Configs together",
}
ANSWERS: Dict[str, Callable[[Results], Answer]] = {
    "end_to_end": comparison.answer,
    "segments": scaling.segments,
    "rows": scaling.rows,
    "configs": scaling.configs,
    "mixed": schedules.answer,
    "state": hopping.answer,
    "averaging": learning.answer,
    "fusion": fusing.answer,
}
#: A longer table is folded.
ROWS_SHOWN = 12
_WORDS = {True: ("met", "good"), False: ("missed", "bad"), None: ("not measured", "plain")}
Plots = Mapping[str, Optional[Figure]]
_NAMES = {"at least": "≥", "at most": "≤", "above": ">"}


def render(folder: Path) -> str:
    """The whole page as HTML, from the files of a folder."""
    results = Results(folder)
    answers = {name: make(results) for name, make in ANSWERS.items()}
    plots: Plots = {name: plot for each in answers.values() for name, plot in each.plots.items()}
    outcomes = {each.question: each for each in read(folder / OUTCOMES, Outcome)}
    facts = machine.read(folder)
    bars = [bar for answer in answers.values() for bar in answer.bars]
    figures = published()
    body = [
        _header(facts),
        _tiles(bars, facts, list(outcomes.values())),
        section("What had to be shown", "Ratios of measurements of one run on this machine.", _bars(bars)),
        *(_question(name, each, plots, figures.get(name, []), outcomes.get(name)) for name, each in answers.items()),
        _footer(facts),
    ]
    style = Path(__file__).with_name("page.css").read_text("utf-8")
    return document("cerebro-db experiments", body, plots, style)


def _header(facts: Mapping[str, Any]) -> str:
    shown = {
        "size": facts.get("size"), "cores": facts.get("cores"), "processor": facts.get("processor"),
        "memory": f"{facts['memory_gb']} GB" if "memory_gb" in facts else None, "server": facts.get("server"),
        "torch": facts.get("packages", {}).get("torch"), "commit": facts.get("commit"),
    }  # fmt: skip
    items = "".join(f"<div><dt>{name}</dt><dd>{text(value)}</dd></div>" for name, value in shown.items() if value)
    links = "".join(f'<a href="#question-{name}">{text(title)}</a>' for name, title in TITLES.items())
    lead = "Model selection where the data lives, measured beside what was published and what else there is."
    title = f'<h1>Experiments</h1><p class="lead">{lead}</p>'
    return f'<header>{title}<dl class="facts">{items}</dl><nav>{links}</nav></header>'


def _tiles(bars: Sequence[Bar], facts: Mapping[str, Any], outcomes: Sequence[Outcome]) -> str:
    judged = [bar for bar in bars if bar.met is not None]
    met = sum(bool(bar.met) for bar in judged)
    seconds = sum(outcome.seconds for outcome in outcomes)
    tiles = [
        ("Bars met", f"{met} of {len(bars)}", f"{len(judged) - met} missed, {len(bars) - len(judged)} not measured"),
        ("Questions", str(sum(outcome.outcome == MEASURED for outcome in outcomes)), f"measured of {len(TITLES)}"),
        ("Time", duration(seconds), "to measure all that is here"),
    ]
    return '<div class="tiles">' + "".join(tile(*each) for each in tiles) + "</div>"


def _bars(bars: Sequence[Bar]) -> str:
    rows = "".join(
        f"<tr><td>{pill(*_WORDS[bar.met])}</td><td>{text(bar.what)}</td>"
        f'<td class="number strong">{"–" if bar.value is None else f"{bar.value:.{bar.digits}f}"}</td>'
        f'<td class="number">{_NAMES[bar.sense]} {bar.bound:g}</td><td class="wrap muted">{text(bar.note)}</td></tr>'
        for bar in bars
    )
    head = '<tr><th></th><th></th><th class="number">here</th><th class="number">has to be</th><th></th></tr>'
    return f'<div class="table"><table class="bars"><thead>{head}</thead><tbody>{rows}</tbody></table></div>'


def _question(name: str, answer: Answer, plots: Plots, figures: Sequence[Published], outcome: Optional[Outcome]) -> str:
    parts = [_outcome(outcome, measured=any(grid.rows for grid in answer.tables))]
    if answer.findings:
        parts.append('<ul class="findings">' + "".join(f"<li>{text(each)}</li>" for each in answer.findings) + "</ul>")
    drawn = [_drawn(plots, each, answer.captions.get(each, "")) for each in answer.plots]
    parts.append(f'<div class="plots{" two" * (len(drawn) == 2 and name != "end_to_end")}">{"".join(drawn)}</div>')
    if figures:
        parts.append(_published(figures, answer.ours))
    parts += [_table(grid) for grid in answer.tables if grid.rows]
    return f'<div id="question-{name}">{section(TITLES[name], registry.words(name), "".join(parts))}</div>'


def _outcome(outcome: Optional[Outcome], measured: bool) -> str:
    if outcome is not None and outcome.outcome != MEASURED:
        return f'<p class="error-box">{text(outcome.outcome)}: {text(outcome.error)}</p>'
    return "" if measured else '<p class="empty">Not measured yet.</p>'


def _drawn(plots: Plots, name: str, caption: str) -> str:
    title = f'<p class="caption">{text(caption)}</p>' if caption else ""
    return f"<div>{title}{figure(plots, name, '')}</div>"


def _published(figures: Sequence[Published], ours: Mapping[str, str]) -> str:
    rows = "".join(
        f'<tr><td class="wrap">{text(each.what)}</td><td class="wrap strong">{text(ours.get(each.key) or "–")}</td>'
        f'<td class="wrap">{text(each.published)}</td><td class="wrap muted">{text(each.source)}</td>'
        f'<td class="wrap muted">{text(each.machine)}</td></tr>'
        for each in figures
    )
    head = "<tr><th></th><th>here</th><th>published</th><th>source</th><th>its machine</th></tr>"
    return f'<div class="table published"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>'


def _table(grid: Grid) -> str:
    """Numbers to the right; columns without any value are left out."""
    kept = [place for place in range(len(grid.heads)) if any(row[place] not in ("", "–") for row in grid.rows)]
    head = "".join(f"<th{_side(grid, place)}>{text(grid.heads[place])}</th>" for place in kept)
    rows: List[str] = []
    for row in grid.rows:
        rows.append("<tr>" + "".join(f"<td{_side(grid, place)}>{text(row[place])}</td>" for place in kept) + "</tr>")
    body = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    opened = " open" * (bool(grid.title) or len(grid.rows) <= ROWS_SHOWN)
    summary = f"<summary>{text(grid.title or 'Numbers')}</summary>"
    return f'<details{opened}>{summary}<div class="table">{body}</div></details>'


def _side(grid: Grid, place: int) -> str:
    cells = [row[place] for row in grid.rows]
    numeric = all(cell.replace(",", "").replace(".", "").lstrip("-").isdigit() or cell == "–" for cell in cells)
    return ' class="number"' if numeric else ""


def _footer(facts: Mapping[str, Any]) -> str:
    packages = ", ".join(f"{name} {version}" for name, version in facts.get("packages", {}).items() if version)
    system = f"{text(facts.get('system', ''))}, Python {text(facts.get('python', ''))}, {text(packages)}"
    return (
        f"<footer>Made from the CSV files beside this page by python -m experiments.report. {system}. "
        "Wall: the whole call, sessions and outputs included; of a baseline its processes' start as well. "
        "Warm: the same call once more in the same session. "
        "Training: from the first hop's start to the last one's end; of a baseline, with its modules imported and its "
        "rows in memory. Fastest of the repeats.</footer>"
    )
