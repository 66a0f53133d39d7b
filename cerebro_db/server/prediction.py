"""Evaluate and predict in the server. Imported only with signals blocked (`signals.load`).

On PostgreSQL the caller's backend works; on Greenplum the processes of the segments do.
"""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Optional, Sequence

import torch

from cerebro_db import light_torch, memory, prediction, segment_models
from cerebro_db.database import Database
from cerebro_db.engines import on_greenplum
from cerebro_db.raw_rows import unfit
from cerebro_db.server import signals
from cerebro_db.server.plpy_database import PlpyDatabase

light_torch.defer_compiler(torch)

#: SQLSTATE of a row that a segment could not take, see `errors.DataError`.
_UNFIT = "22000"
#: What a segment's error says around its sentence.
_FRAME = re.compile(r"^.*?cerebro: (.*?)(?:\s+\(seg\d+ .*)?$", re.DOTALL)
#: The name of the model that a process of a segment keeps.
_KEPT = "cerebro model"


def evaluate(plpy: Any, database: Database, *arguments: Any) -> None:
    """Arguments in the order of madlib_mop_evaluate."""
    request = prediction.EvaluateRequest(*arguments)
    if on_greenplum(database):
        prediction.evaluate(database, request, _idle, segment_models.evaluate)
        return
    with signals.blocked(), memory.kept_freed():
        torch.set_num_threads(_threads())
        prediction.evaluate(signals.Delivered(database), request, signals.interrupt_check(plpy))


def predict(plpy: Any, database: Database, *arguments: Any) -> None:
    """Arguments in the order of madlib_mop_predict."""
    request = prediction.PredictRequest(*arguments)
    if on_greenplum(database):
        prediction.predict(database, request, _idle, _on_segments(plpy))
        return
    with signals.blocked(), memory.kept_freed():
        torch.set_num_threads(_threads())
        prediction.predict(signals.Delivered(database), request, signals.interrupt_check(plpy))


def _on_segments(plpy: Any) -> prediction.Answer:
    def answer(database: Database, job: prediction.Answering, check: Any) -> int:
        try:
            return segment_models.predict(database, job, check)
        except plpy.SPIError as error:
            if getattr(error, "sqlstate", None) != _UNFIT:
                raise
            raise unfit(database, job.raw, _FRAME.sub(r"\1", str(error))) from None

    return answer


def evaluate_buffer(
    plpy: Any, memory: Dict[Any, Any], name: str, rows: int, columns: Sequence[bytes]
) -> List[float]:
    """Rows, loss and metric of a buffer, summed; in the process of a segment."""
    model = _kept(plpy, memory, name)
    with signals.blocked():
        return model.evaluate(rows, columns, signals.interrupt_check(plpy))


def predict_row(
    plpy: Any, memory: Dict[Any, Any], name: str, row_id: Optional[str], inputs: Sequence[Any], last: bool
) -> Optional[List[str]]:
    """The answers to the rows that wait, when it is time; in the process of a segment."""
    model = memory.get(_KEPT)
    if model is None or model.name != name:
        model = _kept(plpy, memory, name)
    if not last and not model.add(row_id, inputs):
        return None
    model.ended = last
    with signals.blocked():
        answers: Optional[List[str]] = model.answer(signals.interrupt_check(plpy))
        return answers


def _kept(plpy: Any, memory: Dict[Any, Any], name: str) -> segment_models.Model:
    """The model of that name, which this process keeps until there is another."""
    model = memory.get(_KEPT)
    if model is None or model.name != name:
        memory.pop(_KEPT, None)
        with signals.blocked():
            model = segment_models.Model.read(signals.Delivered(PlpyDatabase(plpy)), name)
            torch.set_num_threads(max(1, _threads() // model.job["sharing"]))
        memory[_KEPT] = model
    return model


def _idle() -> None:
    """Nothing to look at between batches: they are not here."""


def _threads() -> int:
    """All cores: one process works here, unlike in training."""
    return max(1, len(os.sched_getaffinity(0)))
