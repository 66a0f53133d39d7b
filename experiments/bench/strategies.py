"""The five strategies on the 16 configs of the demo, one segment and one thread, beside a raw PyTorch loop."""

from __future__ import annotations

import time
from typing import Any, Dict, Iterator

import cerebro_db
from cerebro_db.client import PsycopgDatabase
from cerebro_db.params import CompileParams, FitParams
from cerebro_db.sqltext import Fragment
from cerebro_db.strategies.registry import STRATEGIES
from experiments.bench import data
from experiments.bench.hops import Job, compare
from experiments.bench.measure import Measure
from experiments.bench.raw_loop import Config, RawLoops

ROWS, TURNS = 10000, 2
MODELS, BATCHES, RATES, DECAYS = ["mlp", "cnn"], [64, 256], [1e-3, 1e-4], [0.0, 1e-4]
BARS = {"in_rdbms": 0.95, "hybrid": 0.95, "streaming": 0.85, "export": 0.95, "direct": 0.95}
#: in_rdbms over export, wall time of a whole fit; the better of WALLS fits of each.
WALL_BAR, WALLS = 1.05, 2

_CONFIGS = Fragment(
    "select s.mst_key, a.model_arch->>'model' as model, s.compile_params, s.fit_params"
    "  from grid_configs s join grid_configs_arch a using (model_id) order by s.mst_key"
)


def measure(db: PsycopgDatabase) -> Iterator[Measure]:
    data.take(db, "grid", ROWS)
    data.pack_images(db, "grid", "grid_packed", segments=1)
    data.select_configs(db, "grid_configs", MODELS, RATES, BATCHES, DECAYS)
    job = Job("grid_packed", "grid_configs", {row["mst_key"]: _plain(row) for row in db.rows(_CONFIGS)})
    with RawLoops(ROWS) as raw:
        for name in STRATEGIES:
            value = compare(db, job, name, raw, TURNS)
            yield Measure(f"{name} rows/s over raw PyTorch loop, 16 configs", value, "ratio", BARS[name], "higher")
    yield _walls(db)


def _walls(db: PsycopgDatabase) -> Measure:
    walls: Dict[str, float] = {}
    for turn in range(WALLS):
        for name in ("in_rdbms", "export"):
            started = time.perf_counter()
            cerebro_db.fit(
                db.connection.dsn, "grid_packed", f"grid_{name}_{turn}", "grid_configs", 1,
                strategy=name, options={"threads": 1},
            )  # fmt: skip
            walls[name] = min(time.perf_counter() - started, walls.get(name, float("inf")))
    ratio = walls["in_rdbms"] / walls["export"]
    return Measure("wall time of in_rdbms over export, 16 configs", ratio, "ratio", WALL_BAR, "lower")


def _plain(row: Dict[str, Any]) -> Config:
    """A row of the selection table as the raw loop takes it."""
    compiled, fitted = CompileParams.parse(row["compile_params"]), FitParams.parse(row["fit_params"])
    given = dict(compiled.optimizer_args)
    return row["model"], fitted.batch_size, given["lr"], given["weight_decay"]
