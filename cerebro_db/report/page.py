"""The page: numbers and plots of a run in one HTML file that needs nothing else, no network either."""

from __future__ import annotations

from typing import Dict, List, Optional

from cerebro_db.report import accounting, figures, profile, words
from cerebro_db.report.accounting import Standing
from cerebro_db.report.look import Look
from cerebro_db.report.markup import document, figure, pill, right, section, text, tile, when
from cerebro_db.report.plot import Figure
from cerebro_db.report.record import Record, Run

#: More parameters than this share one column of the leaderboard.
PARAMETER_COLUMNS = 5


def render(record: Record) -> str:
    """The whole page as HTML."""
    look = Look.of(record)
    plots = _plots(look)
    title = f"cerebro-db run {record.run.run_id} {record.run.name or ''}".strip()
    return document(title, _body(look, plots), plots)


def _plots(look: Look) -> Dict[str, Optional[Figure]]:
    return {
        "curves": figures.learning_curves(look),
        "parameters": figures.hyperparameters(look),
        "hops": figures.hops(look),
        "segments": figures.segment_time(look),
        "configs": figures.config_time(look),
        "profile": profile.phases(look),
    }


def _body(look: Look, plots: Dict[str, Optional[Figure]]) -> List[str]:
    record = look.record
    parts = [
        _header(record.run),
        *_notes(record),
        _tiles(look),
        section("Leaderboard", _board_lead(look), _board(look)),
        section(
            "Learning curves", _curves_lead(look), figure(plots, "curves", "No epoch has finished yet.")
        ),
    ]
    if plots["parameters"]:
        lead = "Each mark is a config, the bar is the mean over all configs with that value."
        parts.append(section("Hyper-parameters", lead, figure(plots, "parameters", "")))
    return [
        *parts,
        section("Hops", _hops_lead(look), figure(plots, "hops", "No hop has finished yet.")),
        _schedule(record),
        section("Where the time of each segment went", "Every bar is as long as the run.",
                 figure(plots, "segments", "No hop has finished yet.")),
        section("Where the time of each config went", "Longest first.",
                 figure(plots, "configs", "No hop has finished yet.")),
        *_profile(plots),
        _footer(),
    ]  # fmt: skip


def _profile(plots: Dict[str, Optional[Figure]]) -> List[str]:
    if not plots["profile"]:
        return []
    lead = "Inside the hops, by their own clock; longest first."
    return [section("Where the time of the hops went", lead, figure(plots, "profile", ""))]


def _header(run: Run) -> str:
    title = text(run.name) if run.name else f"Run {run.run_id}"
    facts = {
        "run": run.run_id,
        "owner": run.owner,
        "source": run.source_table,
        "validation": run.validation_table or "none",
        "output": run.model_output_table or "none",
        "strategy": run.strategy,
        "epochs": run.num_iterations,
        "started": when(run.started_at),
    }
    items = "".join(f"<div><dt>{name}</dt><dd>{text(value)}</dd></div>" for name, value in facts.items())
    lead = f'<p class="lead">{text(run.description)}</p>' if run.description else ""
    return f'<header><h1>{title} {pill(run.status)}</h1>{lead}<dl class="facts">{items}</dl></header>'


def _notes(record: Record) -> List[str]:
    notes = []
    if record.run.error:
        notes.append(f'<p class="error-box">{text(record.run.error)}</p>')
    if record.run.status == "running":
        notes.append(
            '<p class="note-box">The run was going on when this page was written; '
            "hops in flight count as idle until they finish.</p>"
        )
    changed = accounting.changed_sessions(record)
    if changed:
        names = ", ".join(map(str, changed))
        notes.append(
            '<p class="note-box">The run was resumed, or lost a session, on segment '
            f"{names}; the time between counts as idle.</p>"
        )
    missing = accounting.segment_count(record) - len(accounting.segments(record))
    if record.hops and missing > 0:
        notes.append(f'<p class="note-box">{missing} segments have finished no hop yet.</p>')
    return notes


def _tiles(look: Look) -> str:
    record, best = look.record, next(iter(look.ranked), None)
    rate, idle = accounting.rows_per_second(record), accounting.idle_share(record)
    ratio = accounting.schedule(record).ratio
    done, total = len(record.hops), record.run.hops_total
    tiles = [
        (f"Best {look.deciding_name}", words.short(look.deciding_value(best) if best else None),
         words.label(best.config, [n for n in look.varied if n != "model"]) if best else "no result yet"),
        ("Configs", str(len(record.configs)), _config_counts(record)),
        ("Hops", f"{done:,}", "all done" if done == total else f"of {total:,}"),
        ("Wall time", words.duration(record.run.seconds), f"{accounting.segment_count(record)} segments"),
        ("Training rows per second", "–" if rate is None else f"{rate:,.0f}", "over all segments, whole run"),
        ("Makespan / lower bound", words.short(ratio, 3), "1 is the shortest possible"),
        ("Idle", "–" if idle is None else f"{idle:.1%}", "of segments × wall time"),
    ]  # fmt: skip
    return '<div class="tiles">' + "".join(tile(*each) for each in tiles) + "</div>"


def _config_counts(record: Record) -> str:
    statuses = [config.status for config in record.configs]
    return ", ".join(f"{statuses.count(status)} {status}" for status in sorted(set(statuses)))


def _board_lead(look: Look) -> str:
    direction = "lower" if look.record.run.ranking in ("loss", "metric_lower") else "higher"
    common = [f"{name} {value}" for name, value in look.common.items()]
    return (
        f"Ranked by the {look.deciding_name} of the last epoch, {direction} is better; the colour is the "
        f"config's in every plot.{' All configs: ' * bool(common)}{', '.join(common)}{'.' * bool(common)}"
    )


def _board(look: Look) -> str:
    heads = [("Rank", 1), ("Config", 0), *((name, 1) for name in _own_columns(look)), ("", 0),
             (look.metric_name, 1), ("loss", 1), ("Epochs", 1), ("Rows trained", 1), ("State", 1),
             ("Status", 0)]  # fmt: skip
    head = "".join(f"<th{right(number)}>{text(name)}</th>" for name, number in heads)
    rows = "".join(_board_row(look, standing, len(heads)) for standing in look.board)
    return f'<div class="table"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _own_columns(look: Look) -> List[str]:
    """Parameters with a column of their own: the first that differ."""
    return [name for name in look.varied if name != "model"][:PARAMETER_COLUMNS]


def _board_row(look: Look, standing: Standing, width: int) -> str:
    config, own = standing.config, _own_columns(look)
    rest = [
        f"{name} {config.params[name]}" for name in look.varied if name in config.params and name not in own
    ]
    cells = [
        (text(standing.rank or "–"), "number"),
        (f'<span class="swatch" style="background:{look.colours[config.mst_key]}"></span>'
         f"#{config.mst_key} {text(config.model)}", ""),
        *((text(config.params.get(name, "–")), "number") for name in own),
        (text(", ".join(rest)), "params"),
        (words.short(standing.metric), "number"),
        (words.short(standing.loss), "number"),
        (f"{standing.epochs} / {look.record.run.num_iterations}", "number"),
        (f"{standing.rows:,}", "number"),
        (words.size(config.state_bytes), "number"),
        (pill(config.status), ""),
    ]  # fmt: skip
    kinds = {"best": standing.rank == 1, "lost": standing.rank is None, "has-error": config.error}
    classes = " ".join(kind for kind, holds in kinds.items() if holds)
    row = "".join(f'<td class="{kind}">{cell}</td>' for cell, kind in cells)
    error = f'<tr><td></td><td class="error" colspan="{width - 1}">{text(config.error)}</td></tr>'
    return f'<tr class="{classes}">{row}</tr>' + (error if config.error else "")


def _curves_lead(look: Look) -> str:
    lead = "After each epoch; hover a line for its parameters."
    if len(look.board) > figures.LEGEND_LINES:
        lead += f" The legend names the best {figures.LEGEND_LINES}; colour goes from best (dark) to worst."
    return lead + (" A dash pattern stands for a model." if len(set(look.models.values())) > 1 else "")


def _hops_lead(look: Look) -> str:
    return "One lane per segment, one bar per visit of a config, coloured as on the leaderboard."


def _schedule(record: Record) -> str:
    found = accounting.schedule(record)
    if found.ratio is None:
        return ""
    lead = (
        f"From the first hop to the last the run took {found.ratio:.3f} times the lower bound: no order "
        "of these hops can be faster than its busiest segment, nor than its longest config."
    )
    bars = [("makespan", found.makespan, ""), ("busiest segment", found.busiest_segment, " bound"),
            ("longest config", found.longest_config, " bound")]  # fmt: skip
    longest = max(value for _, value, _ in bars)
    rows = "".join(
        f'<span class="name">{name}</span><span>'
        f'<span class="bar{kind}" style="width:{100 * value / longest:.2f}%"></span></span>'
        f"<span>{words.duration(value)}</span>"
        for name, value, kind in bars
    )
    return section("Schedule", lead, f'<div class="meter">{rows}</div>')


def _footer() -> str:
    return (
        f"<footer>Written by cerebro-db at {when(None)}. "
        "Training values come from the training pass itself; validation follows the last hop of an epoch. "
        "data: reading and decoding rows; hop: moving model state; start: building models; "
        "idle: the rest of the wall time."
        "</footer>"
    )
