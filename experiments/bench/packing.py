"""How fast rows are packed, and that the time grows in proportion to them."""

from __future__ import annotations

import time
from typing import Callable, Iterator

from cerebro_db.client import PsycopgDatabase
from cerebro_db.sqltext import Fragment
from experiments.bench import data
from experiments.bench.measure import Measure

SEGMENTS = 4
#: The shortest of so many tries is what packing takes.
TRIES = 3


def measure(db: PsycopgDatabase) -> Iterator[Measure]:
    data.take(db, "images_20k", 20000)
    db.script(Fragment("analyze images_20k"))
    small = _seconds(db, lambda: data.pack_images(db, "images_20k", "packed_out", SEGMENTS))
    large = _seconds(db, lambda: data.pack_images(db, "fashion_train", "packed_out", SEGMENTS))
    numbers = _seconds(db, lambda: data.pack_numbers(db, "packed_out", SEGMENTS))
    yield Measure("packing 60,000 images of 784 bytes", large, "s", 2.0, "lower")
    yield Measure("packing images", 60000 * 784 / 1e6 / large, "MB/s", 25, "higher")
    yield Measure("packing 20 numeric columns", 336776 / numbers, "rows/s", 200_000, "higher")
    yield Measure("packing 60k over 20k images, over proportional", large / small / 3, "ratio", 1.3, "lower")


def _seconds(db: PsycopgDatabase, pack: Callable[[], None]) -> float:
    taken = []
    for _ in range(TRIES):
        started = time.perf_counter()
        pack()
        taken.append(time.perf_counter() - started)
        db.script(Fragment("drop table packed_out, packed_out_summary"))
    return min(taken)
