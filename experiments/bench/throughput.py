"""rows/s of `in_rdbms` after its first epoch over a raw PyTorch loop.

Both are taken in turn, the best epoch of each gives the ratio of a turn, and the median of the turns counts: on a
shared machine a core is up to twice as fast in one minute as in another.
"""

from __future__ import annotations

from statistics import median
from typing import Dict, Iterator, List

from cerebro_db.client import PsycopgDatabase
from cerebro_db.sqltext import Fragment
from experiments.bench import data, raw_loop
from experiments.bench.measure import Measure

#: Model, batch size, rows, epochs of one comparison.
CASES = (("mlp", 256, 60000, 5), ("cnn", 64, 5000, 4))
RATE = 0.001
TURNS = 7
BAR = 0.90

_EPOCHS = Fragment(
    "select extract(epoch from finished_at - lag(finished_at) over (order by epoch))::float8 as seconds"
    " from cerebro.hop where run_id = %(run_id)s order by epoch"
)


def measure(db: PsycopgDatabase) -> Iterator[Measure]:
    for model, batch_rows, rows, epochs in CASES:
        source, selection = f"rows_{model}", f"one_{model}"
        data.take(db, source, rows)
        data.pack_images(db, source, source + "_packed", segments=1)
        data.select_configs(db, selection, [model], [RATE], [batch_rows])
        ratios: Dict[str, List[float]] = {"index": [], "select": []}
        for _ in range(TURNS):
            raw = {way: raw_loop.run([(model, batch_rows, RATE, 0.0)], rows, epochs, way)[0] for way in ratios}
            ours = _our_epochs(db, source + "_packed", selection, epochs)
            for way, found in ratios.items():
                found.append(min(raw[way][1:]) / min(ours))
        for way, bar, told in (("index", BAR, "x[index]"), ("select", None, "x.index_select")):
            yield Measure(
                f"in_rdbms rows/s over raw PyTorch loop by {told}, {model} batch {batch_rows}, one thread",
                median(ratios[way]), "ratio", bar, "higher",
            )  # fmt: skip


def _our_epochs(db: PsycopgDatabase, source: str, selection: str, epochs: int) -> List[float]:
    """Seconds from the end of one epoch to the end of the next: the hop, its commit and the way between."""
    run_id = data.fit(db, source, selection, epochs, {"threads": 1})
    return [row["seconds"] for row in db.rows(_EPOCHS, run_id=run_id)[1:]]
