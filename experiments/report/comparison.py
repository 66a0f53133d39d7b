"""End to end: every strategy beside every other way."""

from __future__ import annotations

from typing import Dict, List, Optional

from cerebro_db.options import STRATEGIES
from cerebro_db.report import figures
from cerebro_db.report.accounting import Share
from cerebro_db.report.plot import Figure
from experiments.report.answer import Answer, Bar, Grid, Results, ratio, shown
from experiments.results import PARTS, Sample

#: Strategies whose training happens in the database.
INSIDE = ("in_rdbms", "hybrid")
#: Time of a way that does not tell its parts.
NOT_SPLIT = "not split"
COLOURS = {**figures.PART_COLOURS, NOT_SPLIT: "#8a93a3"}
TIMES = ("", "wall s", "training s", *(f"{part} s" for part in PARTS), "accuracy", "mean of configs")
#: What must be known to compare.
REMARKS = {
    "fashion": " The others compute convolutions in torch's usual order, as one writes them; the engine's cnn keeps the"
    " channels of a pixel side by side, which is faster."
}
USED = ("", "CPU s", "memory MB", "written MB", "read MB", "network MB", "hopped MB")


def answer(results: Results) -> Answer:
    samples = results.samples("end_to_end", of_training=False)
    workloads = list(dict.fromkeys(sample.workload for sample in samples))
    grouped = {name: [each for each in samples if each.workload == name] for name in workloads}
    return Answer(
        findings=[sentence for name in workloads for sentence in _finding(name, grouped[name])],
        plots={f"end_to_end_{name}": _bars(grouped[name]) for name in workloads},
        captions={f"end_to_end_{name}": _caption(grouped[name]) for name in workloads},
        tables=[table for name in workloads for table in _tables(name, grouped[name])],
        ours=_ours(grouped),
        bars=bars(grouped.get("fashion", []), grouped.get("flights", [])),
    )


def bars(fashion: List[Sample], flights: List[Sample]) -> List[Bar]:
    """Whole calls of ours, sessions and outputs included, over the training alone of theirs."""
    drift = _drift(flights)
    return [
        Bar("16 configs on Fashion-MNIST: best strategy in the database over two hand-written processes",
            _over(fashion, "processes"), 1.05, "at most", _note(fashion, "processes")),
        Bar("the same over Ray Tune", _over(fashion, "ray_tune"), 0.9, "at most", _note(fashion, "ray_tune")),
        Bar("16 small MLPs on flights: times as fast as Ray Tune", ratio(1.0, _over(flights, "ray_tune")), 4.0,
            "at least", _note(flights, "ray_tune"), 2),
        Bar("the same, as two hand-written processes", ratio(1.0, _over(flights, "processes")), 3.0, "at least",
            _note(flights, "processes"), 2),
        Bar("flights: difference of the best accuracy from theirs", drift, 0.003, "at most", "", 4),
    ]  # fmt: skip


def best_inside(samples: List[Sample]) -> Optional[Sample]:
    """The fastest strategy that trains in the database."""
    return min((each for each in samples if each.approach in INSIDE), key=lambda each: each.seconds, default=None)


def alone(samples: List[Sample], approach: str) -> Optional[float]:
    """Seconds of a baseline's training, modules imported and rows in memory, in the faster of its settings."""
    found = [each.makespan for each in samples if each.approach == approach and each.makespan is not None]
    return min(found, default=None)


def _over(samples: List[Sample], baseline: str) -> Optional[float]:
    ours = best_inside(samples)
    return ratio(ours.seconds if ours else None, alone(samples, baseline))


def _note(samples: List[Sample], baseline: str) -> str:
    ours = best_inside(samples)
    theirs = alone(samples, baseline)
    if ours is None or theirs is None:
        return ""
    trained = ratio(ours.makespan, theirs)
    return f"{ours.seconds:.1f} s of {ours.name} over {theirs:.1f} s; training alone {shown(trained)}"


def _drift(samples: List[Sample]) -> Optional[float]:
    ours = best_inside(samples)
    theirs = [each.accuracy for each in samples if each.approach in ("processes", "ray_tune") and each.accuracy]
    if ours is None or ours.accuracy is None or not theirs:
        return None
    return max(abs(ours.accuracy - each) for each in theirs)


def split(sample: Sample) -> Dict[str, float]:
    """Seconds by part, for one of the workers that train side by side; they add up to the wall time."""
    known = {part: (getattr(sample, part) or 0.0) / sample.workers for part in PARTS}
    rest = max(sample.seconds - sum(known.values()), 0.0)
    told = bool(sample.train)
    return {**known, "idle": known["idle"] + (rest if told else 0.0), NOT_SPLIT: 0.0 if told else rest}


def _bars(samples: List[Sample]) -> Figure:
    ordered = sorted(samples, key=lambda each: each.seconds)
    names = [each.name for each in ordered]
    shares = [Share(place, split(each)) for place, each in enumerate(ordered)]
    parts = [part for part in (*PARTS, NOT_SPLIT) if any(share.seconds[part] for share in shares)]
    return figures.stacked(shares, names, names, parts, COLOURS)


def _caption(samples: List[Sample]) -> str:
    first = samples[0]
    return (
        f"{first.workload}: {first.configs} configs, {first.rows:,} rows, {first.epochs} epochs;"
        " wall time of the whole call, by part"
    )


def _tables(workload: str, samples: List[Sample]) -> List[Grid]:
    return [
        Grid(TIMES, [_times(each) for each in samples], f"{workload}: time by part, and accuracy"),
        Grid(USED, [_used(each) for each in samples], f"{workload}: what was used, by all processes"),
    ]


def _times(sample: Sample) -> List[str]:
    parts = split(sample)
    told = [shown(parts[part], 1) if sample.train else "–" for part in PARTS]
    ends = [shown(sample.accuracy, 4), shown(sample.accuracy_mean, 4)]
    return [sample.name, shown(sample.seconds, 1), shown(sample.makespan, 1), *told, *ends]


def _used(sample: Sample) -> List[str]:
    numbers = [sample.cpu_seconds, sample.memory_mb, sample.disk_written_mb, sample.disk_read_mb, sample.network_mb]
    return [sample.name, *(shown(number, 0) for number in (*numbers, sample.hopped_mb))]


def _finding(workload: str, samples: List[Sample]) -> List[str]:
    ours = best_inside(samples)
    if ours is None:
        return []
    names = dict.fromkeys(each.approach for each in samples if each.approach not in STRATEGIES)
    others = {name: ratio(ours.seconds, alone(samples, name)) for name in names}
    told = ", ".join(f"{value:.2f} × {name}" for name, value in others.items() if value is not None)
    return [
        f"On {workload} the fastest strategy in the database is {ours.name}: {ours.seconds:.1f} s for the whole call"
        + (f". Over the training alone of the others: {told}." if told else ".")
        + REMARKS.get(workload, "")
    ]


def _ours(grouped: Dict[str, List[Sample]]) -> Dict[str, str]:
    return {
        "over_files": _each(grouped, "in_rdbms", "export"),
        "averaging_over_files": _each(grouped, "averaging", "export"),
        "ddp_over_direct": _each(grouped, "ddp", "direct"),
        "over_tasks": _each(grouped, "processes", "in_rdbms"),
        "split": "; ".join(f"{name}: {_shares(samples)}" for name, samples in grouped.items()),
    }


def _each(grouped: Dict[str, List[Sample]], above: str, below: str) -> str:
    """A ratio of wall times for each workload."""
    found = []
    for name, samples in grouped.items():
        walls = {each.name: each.seconds for each in samples}
        value = ratio(walls.get(above), walls.get(below))
        found += [f"{value:.2f} ({name})"] if value is not None else []
    return ", ".join(found)


def _shares(samples: List[Sample]) -> str:
    ours = next((each for each in samples if each.name == "in_rdbms"), None)
    if ours is None:
        return "–"
    parts = split(ours)
    shares = [f"{100 * parts[part] / ours.seconds:.0f}" for part in ("data", "idle", "hop")]
    return " / ".join(shares) + " %"
