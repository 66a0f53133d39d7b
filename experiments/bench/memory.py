"""Peak memory of a process that reads a segment as strategy `streaming` does, for 1 x and 8 x the rows."""

from __future__ import annotations

import resource
import subprocess
import sys
from functools import partial
from typing import Iterator

from cerebro_db import memory
from cerebro_db.batches import SegmentRows
from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.copy_source import CopySource
from cerebro_db.packed import read_packed
from cerebro_db.sqltext import Fragment, fill, ident
from experiments.bench import data
from experiments.bench.measure import Measure

#: Copies of the 60,000 training images, of 784 bytes each.
COPIES = (1, 8)
#: Size of windows and bound of what is read ahead: smaller than the fewest rows [bytes].
WINDOW_BYTES = 16_000_000
EPOCHS, BATCH_ROWS = 3, 256
BAR = 1.10

_RAW = Fragment("create table {name} as select img, label from fashion_train, generate_series(1, %(copies)s::integer)")
_DROP = Fragment("drop table {raw}, {packed}, {summary}")


def measure(db: PsycopgDatabase) -> Iterator[Measure]:
    peaks = [_peak(db, copies) for copies in COPIES]
    for copies, peak in zip(COPIES, peaks):
        yield Measure(f"peak memory of streaming {60_000 * copies} images", peak / 1e6, "MB", None, "lower")
    yield Measure("peak memory of streaming, 8 x the rows over 1 x", peaks[1] / peaks[0], "ratio", BAR, "lower")


def _peak(db: PsycopgDatabase, copies: int) -> int:
    """In a process of its own, whose memory nothing else has raised."""
    raw, packed = f"memory_raw_{copies}", f"memory_{copies}"
    db.rows(fill(_RAW, name=ident(raw)), copies=copies)
    data.pack_images(db, raw, packed, segments=1)
    command = [sys.executable, "-m", "experiments.bench.memory", db.connection.dsn, packed]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    db.script(fill(_DROP, raw=ident(raw), packed=ident(packed), summary=ident(packed + "_summary")))
    return int(done.stdout)


def read_epochs(dsn: str, table: str) -> int:
    """Rows of a few epochs over the first segment, in batches."""
    memory.keep_freed()
    with connect(dsn) as db:
        packed = read_packed(db, table)
        columns = [column.column for column in packed.layout.columns]
        key = packed.segments[0].dist_key
        source = CopySource(db, partial(connect, dsn), columns, packed.table, key, WINDOW_BYTES)
        rows = SegmentRows(source, packed.layout, 0, WINDOW_BYTES)
        epochs = ((0, epoch // 2, 0) for epoch in range(EPOCHS))  # two in the same order: the second is read ahead
        found = sum(len(target) for key in epochs for _, target in rows.epoch(key, BATCH_ROWS))
        source.close()
        return found


if __name__ == "__main__":
    read_epochs(*sys.argv[1:])
    sys.stdout.write(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024))
