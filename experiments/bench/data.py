"""Tables that the measures share."""

from __future__ import annotations

import json
from typing import Dict, List, Optional

from cerebro_db.client import PsycopgDatabase
from cerebro_db.datasets import load_fashion_mnist
from cerebro_db.sqltext import Fragment

#: The two models of the throughput measures; layers and defaults equal those of `raw_loop`.
ARCHITECTURES = {
    "mlp": {"model": "mlp", "hidden": [128]},
    "wide": {"model": "mlp", "hidden": [1024]},
    "cnn": {"model": "cnn", "channels": [16, 32], "hidden": 64, "input_shape": [1, 28, 28]},
}


def load(db: PsycopgDatabase) -> None:
    """Fashion-MNIST, and 20 numeric columns of 336,776 rows."""
    load_fashion_mnist(db)
    columns = ", ".join(f"random()::real as c{number}" for number in range(20))
    db.script(Fragment("select setseed(0.5)"))
    db.script(Fragment(f"create table numbers as select i as id, i % 2 as y, {columns} from generate_series(1, 336776) i"))
    db.script(Fragment("vacuum analyze"))


def pack(db: PsycopgDatabase, source: str, output: str, segments: int, label: str = "label", features: str = "img") -> None:
    db.rows(
        Fragment(
            "select training_preprocessor_dl(%(source)s, %(output)s, %(label)s, %(features)s, null, %(constant)s::float8"
            ", options := %(options)s::jsonb)"
        ),
        source=source, output=output, label=label, features=features,
        constant=255.0 if features == "img" else 1.0, options=json.dumps({"segments": segments}),
    )  # fmt: skip


def select_configs(db: PsycopgDatabase, name: str, models: List[str], rates: List[float], batches: List[int]) -> None:
    """A selection table `<name>` over models x learning rates x batch sizes."""
    arch = name + "_arch"
    ids = [
        db.rows(
            Fragment("select load_model_arch(%(arch)s, %(json)s::json) as id"),
            arch=arch, json=json.dumps(ARCHITECTURES[model]),
        )[0]["id"]
        for model in models
    ]  # fmt: skip
    compile_params = [f"optimizer='Adam(lr={rate})', loss='cross_entropy', metrics=['accuracy']" for rate in rates]
    db.rows(
        Fragment(
            "select load_model_selection_table(%(arch)s, %(name)s, %(ids)s::integer[], %(compile)s::varchar[]"
            ", %(fit)s::varchar[])"
        ),
        arch=arch, name=name, ids=ids, compile=compile_params, fit=[f"batch_size={size}" for size in batches],
    )  # fmt: skip


def fit(db: PsycopgDatabase, source: str, output: str, selection: str, epochs: int, options: Optional[Dict[str, object]] = None) -> int:
    """Run a fit; gives the number of the run."""
    sql = Fragment(
        "select run_id from madlib_mop_fit(%(source)s, %(output)s, %(selection)s, %(epochs)s::integer"
        ", options := %(options)s::jsonb)"
    )
    row = db.rows(
        sql, source=source, output=output, selection=selection, epochs=epochs, options=json.dumps(options or {})
    )[0]
    return int(row["run_id"])
