"""The models that a fit left: which config, its weights, and how its rows were encoded."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

from cerebro_db import names, params
from cerebro_db.database import Database, Row, one
from cerebro_db.errors import MissingError, RunError, UsageError
from cerebro_db.layout import Layout
from cerebro_db.sqltext import TableName, query

#: The output tables of a fit by suffix, and the columns that predicting needs of each.
_NEEDED: Dict[str, Tuple[str, ...]] = {
    "": ("mst_key", "model_weights", "model_arch"),
    "_info": (
        "mst_key", "loss_type", "metrics_type", "validation_metrics_final", "training_metrics_final",
        "validation_loss_final", "training_loss_final",
    ),
    "_summary": ("layout", "packed_table"),
}
_SHOWN_KEYS = 20


@dataclass(frozen=True)
class Trained:
    """One config of a fit."""

    table: TableName
    mst_key: int
    model_arch: str
    #: safetensors, see `state`.
    weights: bytes
    loss: str
    metric: Optional[str]
    layout: Layout
    #: The packed table that it was trained on.
    packed_table: str


def read_trained(database: Database, text: Optional[str], mst_key: Optional[int]) -> Trained:
    """The config `mst_key` of the fit that wrote table `text`; None takes the best.

    The best is by the metric where all configs report the same one, else by loss, after the last
    epoch; of validation rows when the fit had them. Raises MissingError for a table or key that
    does not exist, UsageError for a table that no fit wrote, RunError for a config without weights.
    """
    table = names.require(database, text, "model_table")
    _check_tables(database, table)
    model, info = table.sql(), table.suffixed("_info").sql()
    candidates = database.rows(query("prediction", "candidates", model=model, info=info))
    if not candidates:
        raise UsageError(f"model_table {table} has no rows; give the output table of madlib_mop_fit")
    chosen = _best(table, candidates) if mst_key is None else _named(table, candidates, mst_key)
    weights = one(database, query("prediction", "weights", model=model), mst_key=chosen["mst_key"])
    summary = _summary(database, table.suffixed("_summary"))
    return Trained(
        table=table,
        mst_key=chosen["mst_key"],
        model_arch=weights["model_arch"],
        weights=weights["model_weights"],
        loss=chosen["loss_type"],
        metric=next(iter(chosen["metrics_type"] or ()), None),
        layout=Layout.from_json(summary["layout"]),
        packed_table=summary["packed_table"],
    )


def _check_tables(database: Database, table: TableName) -> None:
    for suffix, needed in _NEEDED.items():
        part = table.suffixed(suffix)
        if names.find(database, part) is None:
            raise MissingError(
                f"table {part} does not exist, which madlib_mop_fit writes beside {table}; "
                "fit again, or bring the three tables under one name"
            )
        known = names.columns(database, part)
        lacking = [name for name in needed if name not in known]
        if lacking:
            raise UsageError(
                f"table {part} has no column {', '.join(lacking)}, so it is no output of madlib_mop_fit; "
                "give model_table the name that was its model_output_table"
            )


def _summary(database: Database, table: TableName) -> Row:
    rows = database.rows(query("prediction", "summary", summary=table.sql()))
    if len(rows) != 1:
        raise UsageError(f"table {table} has {len(rows)} rows, expected the one that madlib_mop_fit wrote")
    return rows[0]


def _named(table: TableName, candidates: List[Row], mst_key: int) -> Row:
    for row in candidates:
        if row["mst_key"] == mst_key:
            return _usable(table, row)
    keys = ", ".join(str(row["mst_key"]) for row in candidates[:_SHOWN_KEYS])
    more = "" if len(candidates) <= _SHOWN_KEYS else f" and {len(candidates) - _SHOWN_KEYS} more"
    raise MissingError(
        f"mst_key {mst_key} is not in {table}; it has {keys}{more}; NULL takes the best of them"
    )


def _usable(table: TableName, row: Row) -> Row:
    key = f"mst_key {row['mst_key']} of {table}"
    if not row["trained"]:
        raise RunError(f"{key} has no weights, because its training failed; take another")
    if row["loss_type"] is None:
        raise UsageError(f"{key} is not in {table.suffixed('_info')}; fit again")
    return row


def _best(table: TableName, candidates: List[Row]) -> Row:
    sign, value = _ranking(candidates)
    ranked = [
        row for row in candidates if row["trained"] and row[value] is not None and not math.isnan(row[value])
    ]
    if not ranked:
        raise RunError(f"no config of {table} has a {value} to choose by; name one by mst_key")
    return _usable(table, min(ranked, key=lambda row: (sign * row[value], _loss(row), row["mst_key"])))


def _loss(row: Row) -> float:
    loss = row["loss"]
    return math.inf if loss is None or math.isnan(loss) else float(loss)


def _ranking(candidates: List[Row]) -> Tuple[int, str]:
    """What the run ranked by: the sign that makes smaller better, and "metric" or "loss"."""
    metrics = {tuple(row["metrics_type"] or ()) for row in candidates}
    common = metrics.pop() if len(metrics) == 1 else ()
    if not common:
        return 1, "loss"
    return -1 if params.higher_is_better(common[0]) else 1, "metric"
