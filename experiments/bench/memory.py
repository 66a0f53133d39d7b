"""Peak memory of a worker of strategy `streaming` that trains on 1 x and on 8 x the rows."""

from __future__ import annotations

import resource
import subprocess
import sys
from typing import Iterator

import cerebro_db
from cerebro_db.client import PsycopgDatabase
from cerebro_db.sqltext import Fragment, fill, ident
from experiments.bench import data
from experiments.bench.measure import Measure

#: Copies of the 60,000 training images, of 784 bytes each.
COPIES = (1, 8)
#: Windows, and what is read ahead: smaller than the fewest rows.
WINDOW_MB = 16
EPOCHS, BATCH_ROWS = 2, 256
BAR = 1.10

_RAW = Fragment("create table {name} as select img, label from fashion_train, generate_series(1, %(copies)s::integer)")
_DROP = Fragment("drop table {raw}, {packed}, {summary}")


def measure(db: PsycopgDatabase) -> Iterator[Measure]:
    data.select_configs(db, "memory_configs", ["mlp"], [1e-3], [BATCH_ROWS])
    peaks = [_peak(db, copies) for copies in COPIES]
    for copies, peak in zip(COPIES, peaks):
        yield Measure(f"peak memory of a streaming worker, {60_000 * copies} images", peak / 1e6, "MB", None, "lower")
    grown = peaks[1] / peaks[0]
    yield Measure("peak memory of a streaming worker, 8 x the rows over 1 x", grown, "ratio", BAR, "lower")


def _peak(db: PsycopgDatabase, copies: int) -> int:
    """Bytes, of the only child that a process of its own has had."""
    raw, packed = f"memory_raw_{copies}", f"memory_{copies}"
    db.rows(fill(_RAW, name=ident(raw)), copies=copies)
    data.pack_images(db, raw, packed, segments=1)
    command = [sys.executable, "-m", "experiments.bench.memory", db.connection.dsn, packed]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    db.script(fill(_DROP, raw=ident(raw), packed=ident(packed), summary=ident(packed + "_summary")))
    return int(done.stdout)


def train(dsn: str, table: str) -> None:
    """One config over the segment; validation would read the same way."""
    options = {"threads": 1, "window_mb": WINDOW_MB}
    cerebro_db.fit(dsn, table, table + "_models", "memory_configs", EPOCHS, strategy="streaming", options=options)


if __name__ == "__main__":
    train(*sys.argv[1:])
    sys.stdout.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024))
