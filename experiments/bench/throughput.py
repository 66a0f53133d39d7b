"""rows/s of `in_rdbms` over a raw PyTorch loop, hop by hop, for a large batch and for many small ones."""

from __future__ import annotations

from typing import Iterator

from cerebro_db.client import PsycopgDatabase
from experiments.bench import data
from experiments.bench.hops import Job, compare
from experiments.bench.measure import Measure
from experiments.bench.raw_loop import RawLoops

#: Model, batch size, rows, hops of one comparison.
CASES = (("mlp", 256, 60000, 30), ("cnn", 64, 10000, 8))
RATE = 0.001
BAR = 0.90
#: The raw loops of a model: their name of it, how they take rows, what the ratio must be at least.
LOOPS = {
    "mlp": (("mlp", "index", BAR), ("mlp", "select", None)),
    "cnn": (("cnn", "index", BAR), ("cnn", "select", None), ("cnn_tuned", "select", None)),
}
TOLD = {"index": "x[index]", "select": "x.index_select"}


def measure(db: PsycopgDatabase) -> Iterator[Measure]:
    for model, batch_rows, rows, turns in CASES:
        data.take(db, f"rows_{model}", rows)
        data.pack_images(db, f"rows_{model}", f"rows_{model}_packed", segments=1)
        for written, take, bar in LOOPS[model]:
            selection = f"one_{written}_{take}"
            data.select_configs(db, selection, [model], [RATE], [batch_rows])
            job = Job(f"rows_{model}_packed", selection, {1: (written, batch_rows, RATE, 0.0)})
            with RawLoops(rows, take) as raw:
                value = compare(db, job, "in_rdbms", raw, turns)
            yield Measure(
                f"in_rdbms rows/s over raw PyTorch loop of {written} by {TOLD[take]}, batch {batch_rows}, one thread",
                value, "ratio", bar, "higher",
            )  # fmt: skip
