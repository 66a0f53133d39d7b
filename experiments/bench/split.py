"""Where the time of one small job goes, by every strategy, against a server that runs already.

    python -m experiments.bench.split --dsn ... [--rows 10000] [--segments 3] [strategy ...]

The tables are made in a schema of their own, which is dropped in the end. A line per strategy: wall time of the fit,
then the seconds of all segments by part, which add up to segments x (run's seconds), and rows trained per second.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Dict, List

import cerebro_db
from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.datasets import load_fashion_mnist
from cerebro_db.report.accounting import rows_per_second, time_of_segments
from cerebro_db.report.read import read_run
from cerebro_db.report.record import PARTS
from cerebro_db.sqltext import Fragment
from cerebro_db.strategies.registry import STRATEGIES
from experiments.bench import data

SCHEMA = "cerebro_split"
MODELS, BATCHES, RATES = ["mlp", "cnn"], [64], [1e-3, 1e-4]
COLUMNS = ("wall", *PARTS, "idle", "rows/s")


def main(words: List[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments.bench.split")
    parser.add_argument("--dsn", required=True)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--segments", type=int, default=3)
    parser.add_argument("strategies", nargs="*")
    asked = parser.parse_args(words)
    with connect(asked.dsn) as db:
        _prepare(db, asked.rows, asked.segments)
        try:
            version = db.rows(Fragment("select version() as v"))[0]["v"].split(" on ")[0]
            sys.stdout.write(f"{version}; {asked.rows} rows, {asked.segments} segments, 1 thread each; seconds\n")
            _print("strategy", dict(zip(COLUMNS, COLUMNS)))
            for name in asked.strategies or STRATEGIES:
                _print(name, {key: f"{value:.2f}" for key, value in split(db, asked.dsn, name).items()})
        finally:
            db.script(Fragment("drop schema cerebro_split cascade"))
    return 0


def split(db: PsycopgDatabase, dsn: str, strategy: str) -> Dict[str, float]:
    """Seconds by COLUMNS of one fit of the job."""
    started = time.perf_counter()
    run = cerebro_db.fit(
        dsn, f"{SCHEMA}.packed", f"{SCHEMA}.by_{strategy}", f"{SCHEMA}.configs", 1,
        validation_table=f"{SCHEMA}.checked", strategy=strategy, options={"threads": 1},
    )  # fmt: skip
    wall = time.perf_counter() - started
    record = read_run(db, run.run_id)
    shares = time_of_segments(record)
    sums = {part: sum(share.seconds[part] for share in shares) for part in (*PARTS, "idle")}
    return {"wall": wall, **sums, "rows/s": rows_per_second(record) or 0.0}


def _prepare(db: PsycopgDatabase, rows: int, segments: int) -> None:
    load_fashion_mnist(db)
    db.script(Fragment("drop schema if exists cerebro_split cascade; create schema cerebro_split"))
    db.script(Fragment("set search_path = cerebro_split, public, cerebro"))
    data.take(db, "images", rows)
    data.pack_images(db, "images", "packed", segments)
    db.rows(Fragment("select validation_preprocessor_dl('fashion_test', 'checked', 'label', 'img', 'packed')"))
    data.select_configs(db, "configs", MODELS, RATES, BATCHES)


def _print(name: str, cells: Dict[str, str]) -> None:
    sys.stdout.write(f"{name:<10}" + "".join(f"{cells[column]:>10}" for column in COLUMNS) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
