"""Run every measure on a throwaway server: `python -m experiments.bench [name ...]`."""

from __future__ import annotations

import os
import sys
from typing import Callable, Dict, Iterator, List

from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.cluster import temporary_cluster
from experiments.bench import data, memory, orders, packing, pages, predict, schedule, start, strategies, throughput
from experiments.bench.measure import Measure

MEASURES: Dict[str, Callable[[PsycopgDatabase], Iterator[Measure]]] = {
    "memory": memory.measure,
    "packing": packing.measure,
    "pages": pages.measure,
    "predict": predict.measure,
    "disk": schedule.measure_disk,
    "schedule": schedule.measure,
    "portfolio": schedule.measure_portfolio,
    "orders": orders.measure,
    "start": start.measure,
    "throughput": throughput.measure,
    "strategies": strategies.measure,
}


def main(names: List[str]) -> int:
    """Print a line per measure; 1 when a bar is missed."""
    missed = 0
    # What autovacuum writes meanwhile belongs to earlier measures.
    with temporary_cluster({"autovacuum": "off"}) as cluster:
        os.environ["CEREBRO_EXPORTS"] = str(cluster.home / "exports")
        cluster.up()
        with connect(cluster.dsn()) as db:
            data.load(db)
            for name in names or MEASURES:
                for measure in MEASURES[name](db):
                    sys.stdout.write(measure.line() + "\n")
                    sys.stdout.flush()
                    missed += not measure.met
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
