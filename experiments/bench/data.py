"""Tables that the measures share."""

from __future__ import annotations

import json
from typing import Dict, List, Optional, Sequence

from cerebro_db.client import PsycopgDatabase
from cerebro_db.datasets import load_fashion_mnist
from cerebro_db.sqltext import Fragment, fill, ident, join

#: The two models of the throughput measures; layers and defaults equal those of `raw_loop`.
ARCHITECTURES = {
    "mlp": {"model": "mlp", "hidden": [128]},
    "small": {"model": "mlp", "hidden": [64]},
    "wide": {"model": "mlp", "hidden": [1024]},
    "cnn": {"model": "cnn", "channels": [16, 32], "hidden": 64, "input_shape": [1, 28, 28]},
}


_NUMBERS = Fragment("create table numbers as select i as id, i % 2 as y, {columns} from generate_series(1, 336776) i")
_COLUMN = Fragment("random()::real as {name}")
_PART = Fragment("create table {name} as select * from fashion_train where id < %(rows)s::bigint")
_PACK = Fragment(
    "select training_preprocessor_dl(%(source)s, %(output)s, %(label)s, %(features)s, null"
    ", %(constant)s::float8, options := %(options)s::jsonb)"
)
_ARCH = Fragment("select load_model_arch(%(arch)s, %(json)s::json) as id")
_SELECT = Fragment(
    "select load_model_selection_table(%(arch)s, %(name)s, %(ids)s::integer[], %(compile)s::varchar[]"
    ", %(fit)s::varchar[])"
)
_FIT = Fragment(
    "select run_id from madlib_mop_fit(%(source)s, %(output)s, %(selection)s, %(epochs)s::integer"
    ", options := %(options)s::jsonb)"
)


def load(db: PsycopgDatabase) -> None:
    """Fashion-MNIST, and 20 numeric columns of 336,776 rows."""
    load_fashion_mnist(db)
    columns = join(", ", [fill(_COLUMN, name=ident(f"c{number}")) for number in range(20)])
    db.script(Fragment("select setseed(0.5)"))
    db.script(fill(_NUMBERS, columns=columns))
    db.script(Fragment("vacuum analyze"))


def take(db: PsycopgDatabase, name: str, rows: int) -> None:
    """A table of the first `rows` training images."""
    db.rows(fill(_PART, name=ident(name)), rows=rows)


def pack_images(db: PsycopgDatabase, source: str, output: str, segments: int) -> None:
    """Images of 784 bytes with their labels, to be divided by 255."""
    columns = {"label": "label", "features": "img", "constant": 255.0}
    db.rows(_PACK, source=source, output=output, options=json.dumps({"segments": segments}), **columns)


def pack_numbers(db: PsycopgDatabase, output: str, segments: int) -> None:
    """The 20 numeric columns."""
    features = ", ".join(f"c{number}" for number in range(20))
    columns = {"label": "y", "features": features, "constant": 1.0}
    db.rows(_PACK, source="numbers", output=output, options=json.dumps({"segments": segments}), **columns)


def select_configs(
    db: PsycopgDatabase, name: str, models: List[str], rates: List[float], batches: List[int],
    decays: Sequence[float] = (0.0,),
) -> None:
    """A selection table `<name>` over models x learning rates x weight decays x batch sizes."""
    arch = name + "_arch"
    ids = [db.rows(_ARCH, arch=arch, json=json.dumps(ARCHITECTURES[model]))[0]["id"] for model in models]
    compiled = [
        f"optimizer='Adam(lr={rate}, weight_decay={decay})', loss='cross_entropy', metrics=['accuracy']"
        for rate in rates for decay in decays
    ]  # fmt: skip
    fitted = [f"batch_size={size}" for size in batches]
    db.rows(_SELECT, arch=arch, name=name, ids=ids, compile=compiled, fit=fitted)


def fit(
    db: PsycopgDatabase, source: str, selection: str, epochs: int, options: Optional[Dict[str, object]] = None
) -> int:
    """Run a fit into `<selection>_models`; gives the number of the run."""
    tables = {"source": source, "selection": selection, "output": selection + "_models"}
    for suffix in ("", "_info", "_summary"):
        db.script(fill(Fragment("drop table if exists {name}"), name=ident(tables["output"] + suffix)))
    return int(db.rows(_FIT, epochs=epochs, options=json.dumps(options or {}), **tables)[0]["run_id"])
