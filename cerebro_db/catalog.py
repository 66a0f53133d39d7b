"""Runs in the catalog: the event log, statuses and states, over any `Database`."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional

from cerebro_db import hopper
from cerebro_db.database import Database, Row, one
from cerebro_db.errors import MissingError
from cerebro_db.plan import Plan
from cerebro_db.sqltext import query

_KINDS = {
    hopper.ConfigAdded: "config_added",
    hopper.ConfigStopped: "config_stopped",
    hopper.SegmentUp: "segment_up",
    hopper.SegmentDown: "segment_down",
    hopper.HopFinished: "hop_finished",
    hopper.HopFailed: "hop_failed",
}


class Catalog:
    """One run's rows. Each call is a transaction of its own when the database commits by itself."""

    def __init__(self, database: Database, run_id: int) -> None:
        self._database = database
        self.run_id = run_id

    def claim(self, coordinator_pid: int) -> bool:
        """Become the only coordinator for as long as this database session lives."""
        row = one(self._database, query("catalog", "claim_run"), run_id=self.run_id, pid=coordinator_pid)
        return bool(row["claimed"])

    def join(self) -> None:
        """Show, until this database session ends, that it may commit hops of the run."""
        self._call("join_run")

    def trainers_gone(self) -> bool:
        """Wait, up to the session's lock_timeout, for trainers of a coordinator that is gone; they may still commit."""
        return bool(one(self._database, query("catalog", "trainers_gone"), run_id=self.run_id)["gone"])

    def plan(self) -> Plan:
        return Plan.from_json(one(self._database, query("catalog", "plan"), run_id=self.run_id)["plan"])

    def record(self, event: hopper.Event) -> None:
        """Append an event to the log. A finished hop is recorded by the session that ran it."""
        self._database.rows(query("catalog", "add_event"), run_id=self.run_id, **_event_row(event))

    def events(self) -> List[hopper.Event]:
        """The log in order."""
        rows = self._database.rows(query("catalog", "events"), run_id=self.run_id)
        return [_event(row) for row in rows]

    def finished_hop(self, hop: hopper.Hop) -> Optional[Row]:
        """`seconds` and `diverged` of a hop when it is committed; first waits until its session is done with it."""
        self._call("settle_state", mst_key=hop.config)
        values = {"mst_key": hop.config, "epoch": hop.epoch, "segment_id": hop.segment}
        rows = self._database.rows(query("catalog", "finished_hop"), run_id=self.run_id, **values)
        return rows[0] if rows else None

    def end_config(self, config: int, status: str, error: Optional[str] = None) -> None:
        """A config is over: finished, diverged or failed."""
        self._call("end_config", mst_key=config, status=status, error=error)

    def end_run(self, status: str, error: Optional[str] = None) -> None:
        """Training is over: trained, failed or cancelled."""
        self._call("end_run", status=status, error=error)

    def release(self) -> None:
        """Coordinate it no longer, once its end is committed; whoever asks next finds it so."""
        self._call("release_run")

    def cancel_wished(self) -> bool:
        """Whether another session asked to cancel the run."""
        return bool(one(self._database, query("catalog", "cancel_wished"), run_id=self.run_id)["wished"])

    def save_initial(self, mst_key: int, weights: bytes) -> None:
        """Weights that a config starts from instead of random ones."""
        self._call("save_state", mst_key=mst_key, part="initial", chunk=0, data=weights)

    def _call(self, name: str, **values: Any) -> None:
        self._database.rows(query("catalog", name), run_id=self.run_id, **values)


def start_run(database: Database, plan: Plan, heading: Dict[str, Optional[str]]) -> Catalog:
    """Record a run with its configs and segments; call inside one transaction.

    `heading`: strategy, ranking, model_selection_table, name, description.
    """
    run_id = one(
        database,
        query("catalog", "start_run"),
        source_table=str(plan.source),
        packed_table=str(plan.packed),
        validation_table=str(plan.validation) if plan.validation else None,
        model_output_table=plan.outputs["model_output_table"],
        num_iterations=plan.epochs,
        plan=plan.to_json(),
        **heading,
    )["run_id"]
    catalog = Catalog(database, run_id)
    for config in plan.configs:
        database.rows(query("catalog", "add_config"), run_id=run_id, **vars(config))
    for segment in plan.segments:
        database.rows(query("catalog", "add_segment"), run_id=run_id, **vars(segment))
    for event in first_events(plan):
        catalog.record(event)
    return catalog


def first_events(plan: Plan) -> Iterable[hopper.Event]:
    """What a run begins with, before any segment is up."""
    return [hopper.ConfigAdded(config.mst_key, plan.epochs) for config in plan.configs]


def run_row(database: Database, run_id: int) -> Row:
    """The run as its owner sees it; MissingError when there is none."""
    rows = database.rows(query("catalog", "status"), run_id=run_id)
    if not rows:
        raise MissingError(
            f"run {run_id} does not exist or belongs to another role; the view cerebro.run lists yours"
        )
    return rows[0]


def _event_row(event: hopper.Event) -> Dict[str, Any]:
    row: Dict[str, Any] = dict.fromkeys(("mst_key", "epoch", "segment_id", "seconds", "reason"))
    row["kind"] = _KINDS[type(event)]
    row["reason"] = getattr(event, "reason", None)
    if isinstance(event, (hopper.HopFinished, hopper.HopFailed)):
        row.update(mst_key=event.hop.config, epoch=event.hop.epoch, segment_id=event.hop.segment)
        row["seconds"] = getattr(event, "seconds", None)
    elif isinstance(event, (hopper.SegmentUp, hopper.SegmentDown)):
        row["segment_id"] = event.segment
    else:
        row["mst_key"] = event.config
        row["epoch"] = getattr(event, "epochs", None)
    return row


def _event(row: Row) -> hopper.Event:
    kind, reason = row["kind"], row["reason"] or ""
    if kind == "config_added":
        return hopper.ConfigAdded(row["mst_key"], row["epoch"])
    if kind == "config_stopped":
        return hopper.ConfigStopped(row["mst_key"], reason)
    if kind == "segment_up":
        return hopper.SegmentUp(row["segment_id"])
    if kind == "segment_down":
        return hopper.SegmentDown(row["segment_id"], reason)
    hop = hopper.Hop(row["epoch"], row["mst_key"], row["segment_id"])
    return hopper.HopFinished(hop, row["seconds"]) if kind == "hop_finished" else hopper.HopFailed(hop, reason)
