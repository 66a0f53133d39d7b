"""rows/s of `in_rdbms` after its first epoch over a raw PyTorch loop that runs beside it."""

from __future__ import annotations

import statistics
import subprocess
import sys
from typing import Iterator, List, Tuple

from cerebro_db.client import PsycopgDatabase
from cerebro_db.sqltext import Fragment
from experiments.bench import data
from experiments.bench.measure import Measure

#: Model, batch size, rows, epochs of one comparison.
CASES = (("mlp", 256, 60000, 8), ("cnn", 64, 10000, 5))
REPEATS = 3
BAR = 0.90

_WINDOW = Fragment(
    "select extract(epoch from min(finished_at))::float8 as first, extract(epoch from max(finished_at))::float8 as last"
    ", sum(rows) filter (where epoch > 1)::float8 as rows from cerebro.hop where run_id = %(run_id)s"
)


def measure(db: PsycopgDatabase) -> Iterator[Measure]:
    for model, batch_rows, rows, epochs in CASES:
        source, selection = f"rows_{model}", f"one_{model}"
        data.take(db, source, rows)
        data.pack_images(db, source, source + "_packed", segments=1)
        data.select_configs(db, selection, [model], [0.001], [batch_rows])
        case = (model, batch_rows, rows, epochs)
        ratios = [_ratio(db, source + "_packed", selection, case) for _ in range(REPEATS)]
        yield Measure(
            f"in_rdbms rows/s over raw PyTorch loop, {model} batch {batch_rows}, one thread",
            statistics.median(ratios), "ratio", BAR, "higher",
        )  # fmt: skip


def _ratio(db: PsycopgDatabase, source: str, selection: str, case: Tuple[str, int, int, int]) -> float:
    model, batch_rows, rows, epochs = case
    command = [sys.executable, "-m", "experiments.bench.raw_loop", model, str(batch_rows), str(rows)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as raw:
        assert raw.stdout is not None
        raw.stdout.readline()  # its first epoch, too, is not counted
        try:
            run_id = data.fit(db, source, selection, epochs, {"threads": 1})
        finally:
            raw.terminate()
        lines = raw.stdout.read().splitlines()
    window = db.rows(_WINDOW, run_id=run_id)[0]
    ours = window["rows"] / (window["last"] - window["first"])
    return float(ours / _raw_rate(lines, window["first"], window["last"]))


def _raw_rate(lines: List[str], first: float, last: float) -> float:
    """rows/s of the raw loop over the epochs that touch the window."""
    ends = [(float(end), int(rows)) for end, rows in (line.split() for line in lines)]
    before = max((end for end, _ in ends if end <= first), default=ends[0][0])
    inside = [(end, rows) for end, rows in ends if before < end <= last]
    return sum(rows for _, rows in inside) / (inside[-1][0] - before)
