"""Put what was measured into the README: `python -m experiments.report.readme`.

The README is its own template: a row of a table is found by its first cell, and its other cells are written anew from
the CSV files of `experiments/results/small`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Optional, Tuple

from cerebro_db.errors import MissingError
from cerebro_db.options import STRATEGIES
from experiments.report import comparison, hopping, learning, scaling, schedules
from experiments.report.answer import Bar, Results, shown
from experiments.results import Sample

README = Path(__file__).parents[2] / "README.md"
RESULTS = Path(__file__).parents[1] / "results" / "small"
#: Ways to train outside of the engine, as the README names them.
WAYS = {
    "two hand-written PyTorch processes": "processes",
    "Ray Tune, processes used again": "ray_tune, reuse_actors",
    "Ray Tune by default": "ray_tune",
    "PyTorch DDP": "ddp",
    "model averaging": "averaging",
    "`in_rdbms`, warm": "in_rdbms, warm",
}
#: The first cell of a row, and the others.
Row = Tuple[str, List[str]]


def rewritten(text: str, folder: Path) -> str:
    """The README with the rows of this folder. Raises MissingError for a row that it does not have once."""
    lines = text.split("\n")
    for first, cells in rows(Results(folder)):
        places = [place for place, line in enumerate(lines) if line.startswith(f"| {first} |")]
        if len(places) != 1:
            raise MissingError(f"README.md has {len(places)} rows that begin with {first!r}, expected one; add it")
        lines[places[0]] = f"| {' | '.join([first, *cells])} |"
    return "\n".join(lines)


def rows(results: Results) -> Iterator[Row]:
    samples = results.samples("end_to_end", of_training=False)
    images, flights = (
        {each.name: each for each in samples if each.workload == name} for name in ("fashion", "flights")
    )
    yield "run time: 16 configs on 6,000 images, s", _walls(images)
    yield "run time: 16 small networks on 20,000 flights, s", _walls(flights)
    yield "memory of all processes, MB", _each(images, lambda sample: shown(sample.memory_mb, 0))
    yield "written to disk, MB", _each(images, lambda sample: shown(sample.disk_written_mb, 0))
    yield "over the network, MB", _each(images, lambda sample: _network(sample.network_mb))
    for words, name in WAYS.items():
        yield words, [*_way(images[name]), *_way(flights[name])]
    yield from _verdicts(results)


def _each(samples: Dict[str, Sample], cell: Callable[[Sample], str]) -> List[str]:
    return [cell(samples[name]) for name in STRATEGIES]


def _walls(samples: Dict[str, Sample]) -> List[str]:
    first, *others = _each(samples, lambda sample: shown(sample.seconds, 1))
    return [f"{first}; {shown(samples['in_rdbms, warm'].seconds, 1)} warm", *others]


def _network(megabytes: Optional[float]) -> str:
    return shown(megabytes, 0 if megabytes is None or megabytes >= 1 else 1)


def _way(sample: Sample) -> List[str]:
    return [shown(sample.seconds, 1), shown(sample.makespan, 1), shown(sample.accuracy, 3)]


def _verdicts(results: Results) -> Iterator[Row]:
    """Values and bounds of the bars."""
    (processes, ray, small_ray, small_processes, drift), (orders, *_) = (
        module.answer(results).bars for module in (comparison, schedules)
    )
    (averaging, *_), (written, *_) = (module.answer(results).bars for module in (learning, hopping))
    (rows_line, rows_memory), (line, memory) = scaling.rows(results).bars, scaling.configs(results).bars
    for words, bar, digits in (
        ("16 configs on Fashion-MNIST: over two hand-written PyTorch processes", processes, 2),
        ("the same over Ray Tune, with processes that it uses again", ray, 2),
        ("16 small networks on flights: times as fast as two hand-written processes", small_processes, 1),
        ("the same, as Ray Tune", small_ray, 1),
        ("difference of the best accuracy there", drift, 3),
        ("makespan over its lower bound, order `portfolio`, 2, 4 and 8 configs on 2 segments, alike and mixed: the "
         "worst", orders, 3),
        ("time over 7,500 to 60,000 rows, R² of a straight line", rows_line, 3),
        ("memory over 7,500 to 60,000 rows: most over least", rows_memory, 2),
        ("time over 4 to 64 configs, R² of a straight line, trained together and not: the lower", line, 3),
        ("memory over 4 to 64 configs, trained together and not: most over least, the higher", memory, 2),
        ("best accuracy of MOP minus that of model averaging, 8 segments", averaging, 2),
        ("bytes written to disk per byte hopped, states of 64 MB", written, 2),
    ):  # fmt: skip
        yield words, [shown(bar.value, digits), _bound(bar)]


def _bound(bar: Bar) -> str:
    return f"{bar.sense} {bar.bound:g}"


def main() -> int:
    README.write_text(rewritten(README.read_text("utf-8"), RESULTS), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
