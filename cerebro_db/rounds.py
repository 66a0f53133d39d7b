"""A round on Greenplum: one statement trains one config on every segment, where its rows are kept (`resident`).

The states lie in tables whose rows are moved, by that statement, to the segments that their configs visit, and whose
new rows are written there: a state hops inside the database and passes neither the coordinator nor a client. What
comes back is what a hop counted. A config whose training failed keeps its state; the others are not touched by it.
No torch here.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Sequence

from cerebro_db.database import Database, one
from cerebro_db.errors import RunError
from cerebro_db.remote import ForgottenError, RemoteWorker
from cerebro_db.sqltext import ident, query
from cerebro_db.state_store import StateStore
from cerebro_db.visits import Taken, Visit, Visited


class ReplacedError(ForgottenError):
    """The same, told to whoever coordinates: this session's segments are to be opened anew."""

    sqlstate = "57P01"  # admin_shutdown


@dataclass(frozen=True)
class Start:
    """A hop of a round."""

    mst_key: int
    epoch: int
    segment_id: int
    last: bool

    @property
    def visit(self) -> Visit:
        return Visit((self.mst_key,), self.epoch, self.last)


def train(
    database: Database, run_id: int, workers: Mapping[int, RemoteWorker], starts: Sequence[Start]
) -> List[Dict[str, Any]]:
    """What became of each hop: seconds and diverged, or why it failed. `workers`: by segment, all open here."""
    started = time.perf_counter()
    tables = one(database, query("rounds", "start"), run_id=run_id)
    answers = _answers(database, workers, starts, tables)
    configs = [start.mst_key for start in starts]
    database.rows(query("rounds", "end"), run_id=run_id, target=tables["target"], configs=configs)
    longest = max(answer.get("seconds", 0.0) for answer in answers.values())
    moved = time.perf_counter() - started - longest
    states = StateStore(database, run_id)
    return [_settled(states, start, answers[start.mst_key], moved) for start in starts]


def _answers(
    database: Database, workers: Mapping[int, RemoteWorker], starts: Sequence[Start], tables: Mapping[str, str]
) -> Dict[int, Dict[str, Any]]:
    """Run the statement: mst_key -> the answer of the process that trained it."""
    at = [workers[start.segment_id] for start in starts]
    rows = database.rows(
        query("rounds", "train", packed=at[0].packed.sql(), **{name: ident(table) for name, table in tables.items()}),
        keys=[worker.dist_key for worker in at],
        configs=[start.mst_key for start in starts],
        heads=[worker.told({"do": "round", "visit": start.visit}) for worker, start in zip(at, starts)],
        buffers=[worker.first_buffer for worker in at],
    )
    answers = {row["mst_key"]: json.loads(row["head"]) for row in rows}
    if len(answers) < len(starts):
        raise RunError(f"buffers of table {at[0].packed} are gone: it changed during the run")
    if any(answer["answer"] == "unknown" for answer in answers.values()):
        raise ReplacedError("the process of a segment was replaced, and keeps no rows")
    return answers


def _settled(states: StateStore, start: Start, answer: Mapping[str, Any], moved: float) -> Dict[str, Any]:
    """Record a hop that finished; `moved`: seconds that the round took beside its longest training."""
    result: Dict[str, Any] = {"segment_id": start.segment_id, "failed": None}
    if answer["answer"] == "failed":
        return {**result, "failed": answer["message"]}
    visited = [Visited.from_json(item) for item in answer["visited"]]
    taken = Taken(answer["seconds"] + moved)
    told = states.record(start.segment_id, start.visit, visited, taken, answer["state_bytes"])
    return {**result, **told}
