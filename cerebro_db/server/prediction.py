"""Evaluate and predict inside the caller's backend. Imported only with signals blocked (`signals.load`)."""

from __future__ import annotations

import os
from typing import Any

import torch

from cerebro_db import prediction
from cerebro_db.database import Database
from cerebro_db.server import signals


def evaluate(plpy: Any, database: Database, *arguments: Any) -> None:
    """Arguments in the order of madlib_mop_evaluate."""
    with signals.blocked():
        torch.set_num_threads(_threads())
        request = prediction.EvaluateRequest(*arguments)
        prediction.evaluate(signals.Delivered(database), request, signals.interrupt_check(plpy))


def predict(plpy: Any, database: Database, *arguments: Any) -> None:
    """Arguments in the order of madlib_mop_predict."""
    with signals.blocked():
        torch.set_num_threads(_threads())
        request = prediction.PredictRequest(*arguments)
        prediction.predict(signals.Delivered(database), request, signals.interrupt_check(plpy))


def _threads() -> int:
    """All cores: one process works here, unlike in training."""
    return max(1, len(os.sched_getaffinity(0)))
