"""More segments, more rows, more configs."""

from __future__ import annotations

import math
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from experiments import machine
from experiments.line import Line, fit_line
from experiments.report import charts
from experiments.report.answer import Answer, Bar, Grid, Results, ratio, shown
from experiments.results import Sample

#: Memory may grow by so much over all sizes and still be called flat.
FLAT = 1.10
#: Bytes of an image, as they lie in the table.
IMAGE_BYTES = 784
_R2 = 0.99


def segments(results: Results) -> Answer:
    samples = results.samples("segments")
    grouped = _grouped(samples)
    speedups = {name: [(each.segments, ratio(group[0].makespan, each.makespan)) for each in group]
                for name, group in grouped.items()}  # fmt: skip
    plot = charts.lines(speedups, "segments", "times as fast as on 1", x_axis={"tickvals": _ticks(samples, "segments")})
    told = {name: max((value or 0.0 for _, value in points), default=0.0) for name, points in speedups.items()}
    cores = machine.read(results.folder).get("cores", "these")
    words = ", ".join(f"{shown(value)} × ({name})" for name, value in told.items())
    return Answer(
        findings=[f"The most that more segments give is {words}, on {cores} cores; the paper had a machine per worker."]
        * bool(samples),
        plots={"segments": plot} if samples else {},
        captions={"segments": "Training alone, from the first hop to the last"},
        tables=[_table(samples)],
        ours={"speedup": "; ".join(f"{name}: {', '.join(f'{shown(value)} on {x}' for x, value in points[1:])}"
                                   for name, points in speedups.items())},
    )  # fmt: skip


def rows(results: Results) -> Answer:
    return _linear(results, "rows", lambda sample: sample.rows, {"rate": _rate, "memory": _memory})


def configs(results: Results) -> Answer:
    return _linear(results, "configs", lambda sample: sample.configs, {"bytes": _hopped})


def _linear(
    results: Results, name: str, x: Callable[[Sample], int], ours: Dict[str, Callable[[List[Sample]], str]]
) -> Answer:
    """Seconds and memory over sizes."""
    samples = results.samples(name)
    grouped = {key: group for key, group in _grouped(samples).items() if len({x(each) for each in group}) > 1}
    fits = {key: fit_line(*_fastest(group, x)) for key, group in grouped.items()}
    flat = {key: _growth(group) for key, group in grouped.items()}
    answer = Answer(
        findings=[_sentence(name, key, fits[key], flat[key], group) for key, group in grouped.items()],
        tables=[_table(samples)],
        ours={key: make(samples) for key, make in ours.items()} if samples else {},
        bars=[
            Bar(f"time over {name}: R² of a straight line", min((fit.r2 for fit in fits.values()), default=None), _R2,
                "at least", ", ".join(f"{key}: {fit.r2:.4f}" for key, fit in fits.items()), 4),
            Bar(f"memory over {name}: most over least", max(filter(None, flat.values()), default=None), FLAT, "at most",
                _range(samples, x, name)),
        ],
    )  # fmt: skip
    if grouped:
        seconds = {key: [(x(each), each.makespan) for each in group] for key, group in grouped.items()}
        memory = {key: [(x(each), each.memory_mb) for each in group] for key, group in grouped.items()}
        answer.plots[name] = charts.fits(seconds, fits, name, "seconds of training")
        answer.plots[f"{name}_memory"] = charts.lines(memory, name, "peak memory of all processes, MB")
    return answer


def _fastest(group: Sequence[Sample], x: Callable[[Sample], int]) -> Tuple[List[float], List[float]]:
    """Sizes, and the fastest of the repeats of each: what else ran on the machine only ever adds."""
    best: Dict[int, float] = {}
    for each in group:
        best[x(each)] = min(each.makespan or 0.0, best.get(x(each), math.inf))
    return [float(size) for size in best], list(best.values())


def _sentence(name: str, key: str, line: Line, growth: Optional[float], group: Sequence[Sample]) -> str:
    each = f"{1000 * line.slope:.3f} s per 1,000 rows" if name == "rows" else f"{line.slope:.3f} s per config"
    sizes = len({each.rows if name == "rows" else each.configs for each in group})
    memory = f", while memory grows by a factor of {growth:.2f}" if growth else ""
    return f"{key}: {each} and {line.intercept:.2f} s besides, R² {line.r2:.4f} over {sizes} sizes{memory}."


def _growth(group: Sequence[Sample]) -> Optional[float]:
    found = [each.memory_mb for each in group if each.memory_mb]
    return max(found) / min(found) if found else None


def _range(samples: Sequence[Sample], x: Callable[[Sample], int], name: str) -> str:
    sizes = sorted({x(each) for each in samples})
    return f"{sizes[0]:,} to {sizes[-1]:,} {name}" if sizes else ""


def _rate(samples: List[Sample]) -> str:
    """Bytes of the rows that were read, over the seconds that this took."""
    last = max(samples, key=lambda each: each.rows)
    rate = ratio(last.rows_trained * IMAGE_BYTES / 1e6, last.data)
    return f"{shown(rate, 0)} ({last.approach}, {last.rows:,} rows, nothing kept between hops)"


def _memory(samples: List[Sample]) -> str:
    last = max(samples, key=lambda each: each.rows)
    return f"{shown(last.memory_mb, 0)} MB in all for {last.rows:,} rows"


def _hopped(samples: List[Sample]) -> str:
    last = max(samples, key=lambda each: each.configs)
    value = ratio(last.hops, last.epochs * last.segments * last.configs)
    return f"{shown(value)} ({shown(last.hopped_mb, 0)} MB in {last.hops:,} hops)"


def _grouped(samples: Sequence[Sample]) -> Dict[str, List[Sample]]:
    found: Dict[str, List[Sample]] = {}
    for sample in samples:
        found.setdefault(sample.name, []).append(sample)
    return found


def _ticks(samples: Sequence[Sample], name: str) -> List[int]:
    return sorted({getattr(sample, name) for sample in samples})


def _table(samples: Sequence[Sample]) -> Grid:
    heads = ("", "segments", "rows", "configs", "wall s", "training s", "rows/s", "start s", "memory MB", "accuracy")
    cells = [
        [each.name, str(each.segments), f"{each.rows:,}", str(each.configs), shown(each.seconds, 1),
         shown(each.makespan), shown(ratio(each.rows_trained, each.makespan), 0), shown(each.start, 1),
         shown(each.memory_mb, 0), shown(each.accuracy, 4)]
        for each in samples
    ]  # fmt: skip
    return Grid(heads, cells)
