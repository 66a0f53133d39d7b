"""rows/s of `in_rdbms` after its first epoch over a raw PyTorch loop, taken in turn so that both have the machine."""

from __future__ import annotations

import statistics
import subprocess
import sys
from typing import Iterator, Tuple

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
    """Ours over the mean of the raw loop just before and just after."""
    before = _raw_rate(case)
    run_id = data.fit(db, source, selection, case[3], {"threads": 1})
    window = db.rows(_WINDOW, run_id=run_id)[0]
    ours = window["rows"] / (window["last"] - window["first"])
    return float(ours / statistics.mean([before, _raw_rate(case)]))


def _raw_rate(case: Tuple[str, int, int, int]) -> float:
    """rows/s of the raw loop over as many epochs, the first not counted."""
    model, batch_rows, rows, epochs = case
    command = [sys.executable, "-m", "experiments.bench.raw_loop", model, str(batch_rows), str(rows), str(epochs)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    ends = [float(line) for line in done.stdout.splitlines()]
    return rows * (len(ends) - 1) / (ends[-1] - ends[0])
