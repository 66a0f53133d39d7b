"""Read a run from the views."""

from __future__ import annotations

from typing import Dict, List

from cerebro_db.database import Database, Row
from cerebro_db.errors import MissingError
from cerebro_db.report.record import PARTS, Config, Epoch, Hop, Record, Run
from cerebro_db.report.words import flat_params, model_word
from cerebro_db.sqltext import query


def read_run(db: Database, run_id: int, with_hops: bool = True) -> Record:
    """All that a report shows; raises MissingError when the caller has no run of that number.

    Without its hops, which can be many, a record is enough for the leaderboard.
    """
    found = db.rows(query("report", "run"), run_id=run_id)
    if not found:
        raise MissingError(f"run {run_id} does not exist or is another role's; view cerebro.run lists yours")
    values = {name: db.rows(query("report", name), run_id=run_id) for name in ("configs", "epochs")}
    hops = db.rows(query("report", "hops"), run_id=run_id) if with_hops else []
    return Record(
        run=Run(**found[0]),
        configs=tuple(_config(row) for row in values["configs"]),
        hops=tuple(_hop(row) for row in hops),
        epochs=tuple(Epoch(**row) for row in values["epochs"]),
        profile=_profile(db.rows(query("report", "profile"), run_id=run_id)) if with_hops else {},
    )


def _profile(rows: List[Row]) -> Dict[int, Dict[str, float]]:
    found: Dict[int, Dict[str, float]] = {}
    for row in rows:
        found.setdefault(row["mst_key"], {})[row["phase"]] = row["seconds"]
    return found


def _config(row: Row) -> Config:
    return Config(
        mst_key=row["mst_key"],
        model_id=row["model_id"],
        model=model_word(row["model_arch"]),
        params=flat_params(row["compile_params"], row["fit_params"]),
        state_bytes=row["state_bytes"],
        status=row["status"],
        error=row["error"],
    )


def _hop(row: Row) -> Hop:
    return Hop(
        mst_key=row["mst_key"],
        epoch=row["epoch"],
        segment_id=row["segment_id"],
        rows=row["rows"],
        started=row["started"],
        finished=row["finished"],
        parts=tuple(row[f"{part}_seconds"] for part in PARTS),
        session_pid=row["session_pid"],
    )
