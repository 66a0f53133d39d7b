"""The tables a run leaves: `<out>`, `<out>_info`, `<out>_summary`, with MADlib's columns and a few more."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Dict, List, Tuple

from cerebro_db import __version__, names, packing
from cerebro_db.database import Database, Row, one
from cerebro_db.engines import dialect, stored
from cerebro_db.errors import MissingError, RunError
from cerebro_db.hopper import EpochDone
from cerebro_db.plan import ConfigPlan, Plan
from cerebro_db.sqltext import Fragment, TableName, ident, query

SUFFIXES = ("", "_info", "_summary")
_NEW_RUN = "so the run cannot be resumed; start a new one"


@dataclass(frozen=True)
class OutputPlan:
    """Where a run writes; `replace` only for a warm start, which continues these very tables."""

    table: TableName
    replace: bool

    def to_dict(self, selection_table: str) -> Dict[str, Any]:
        return {
            "schema": self.table.schema,
            "name": self.table.name,
            "model_output_table": str(self.table),
            "model_selection_table": selection_table,
            "replace": self.replace,
        }


def plan_outputs(database: Database, text: Any, warm_start: bool) -> OutputPlan:
    """The output tables: new, or all there when a warm start goes on from them."""
    if not warm_start:
        return OutputPlan(names.require_new(database, text, "model_output_table", SUFFIXES[1:]), replace=False)
    table = names.require(database, text, "model_output_table")
    for suffix in SUFFIXES[1:]:
        if names.find(database, table.suffixed(suffix)) is None:
            raise MissingError(
                f"warm_start is true, but table {table.suffixed(suffix)} does not exist; a warm start needs the "
                "three output tables of an earlier fit"
            )
    return OutputPlan(table, replace=True)


def require_free(database: Database, made: Dict[str, Any]) -> None:
    """Before a resume: the outputs must still be free to write."""
    if not made["replace"]:
        names.require_new(database, made["model_output_table"], "model_output_table", SUFFIXES[1:])


def require_unchanged(database: Database, plan: Plan) -> None:
    """Before a resume: the packed rows must be those that the run began with."""
    there = names.find(database, plan.packed) is not None and packing.is_packed(database, plan.packed)
    packed = packing.read_packed(database, str(plan.packed)) if there else None
    if packed is None or packed.packed_at != plan.packed_at:
        raise RunError(f"packed table {plan.packed} was dropped or made anew since the run began, {_NEW_RUN}")
    now = {segment.segment_id: segment.rows for segment in packed.segments}
    if now != {segment.segment_id: segment.rows for segment in plan.segments}:
        raise RunError(f"packed table {plan.packed} holds other rows than when the run began, {_NEW_RUN}")


def previous_weights(database: Database, made: OutputPlan, configs: Tuple[ConfigPlan, ...]) -> Dict[int, bytes]:
    """Weights of the keys that were there before; a key whose architecture changed is refused."""
    found: Dict[int, bytes] = {}
    for config in configs:
        sql = query("outputs", "previous", output=made.table.sql())
        for row in database.rows(sql, mst_key=config.mst_key, model_arch=config.model_arch):
            if not row["same_arch"]:
                raise RunError(
                    f"warm_start: mst_key {config.mst_key} has another architecture than in {made.table}; give it a "
                    "new mst_key or its old model_id"
                )
            found[config.mst_key] = row["model_weights"]
    return found


def write(database: Database, run_id: int, plan: Plan) -> Row:
    """Create the three tables in the caller's transaction and drop the hopping states.

    Gives `mst_key` and `metric` of the best config ({} when none has a usable value).
    """
    table = TableName(plan.outputs["schema"], plan.outputs["name"])
    parts = _parts(database, table, plan)
    if plan.outputs["replace"]:
        for suffix in SUFFIXES:
            database.rows(query("outputs", "drop", table=table.suffixed(suffix).sql()))
    values = {"run_id": run_id, **_values(plan)}
    for name in ("models", "external", "fill_models", "primary_key", "info", "fill_info", "info_key", "summary"):
        sql = query("outputs", name, **parts)
        database.rows(sql, **{key: value for key, value in values.items() if f"%({key})s" in sql})
    database.rows(query("catalog", "finish_run"), run_id=run_id)
    best = database.rows(query("outputs", "best"), run_id=run_id)
    return best[0] if best else {}


def _values(plan: Plan) -> Dict[str, Any]:
    objectives = [config.compiled for config in plan.configs]
    return {
        "epochs": list(plan.metric_epochs()),
        "mst_keys": [config.mst_key for config in plan.configs],
        "losses": [objective.loss for objective in objectives],
        "metrics": [objective.metric for objective in objectives],
        "model_arch_table": plan.outputs.get("model_arch_table"),
        "frequency": plan.metrics_frequency,
        "warm_start": plan.outputs["replace"],
        "version": __version__,
        "options": json.dumps(plan.options.to_dict(), sort_keys=True),
        "layout": plan.layout.to_json(),
    }


def _parts(database: Database, table: TableName, plan: Plan) -> Dict[str, Fragment]:
    return {
        "by_key": stored(database, "mst_key"),
        "heap": dialect(database, "heap"),
        "by_run": dialect(database, "distributed", columns=ident("run_id")),
        "models": table.sql(),
        "info": table.suffixed("_info").sql(),
        "summary": table.suffixed("_summary").sql(),
        "packed_summary": plan.packed.suffixed("_summary").sql(),
        "class_values": ident(packing.class_column(plan.layout.target.source)),
    }


class Announcer:
    """Tells the caller of every finished epoch, from what the run has committed."""

    def __init__(self, caller: Database, control: Database, run_id: int, plan: Plan) -> None:
        self._caller = caller
        self._control = control
        self._run_id = run_id
        self._plan = plan
        caller.notice(
            f"run {run_id}: {_counted(len(plan.configs), 'config')}, {_counted(len(plan.segments), 'segment')}, "
            f"{_counted(plan.epochs, 'epoch')}"
        )

    def epoch_done(self, done: EpochDone) -> None:
        sql = query("outputs", "epoch")
        row = one(self._control, sql, run_id=self._run_id, mst_key=done.config, epoch=done.epoch)
        parts = [f"[{row['percent']:>3}%] config {done.config} epoch {done.epoch}/{self._plan.epochs}:"]
        parts += _shown(row)
        self._caller.notice(" ".join(parts) + f" after {row['seconds']:.1f} s")


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _shown(row: Row) -> List[str]:
    labels = (("loss", "training_loss"), ("metric", "training_metric"),
              ("validation loss", "validation_loss"), ("validation metric", "validation_metric"))
    return [f"{label} {row[key]:.4f}" for label, key in labels if row[key] is not None]
