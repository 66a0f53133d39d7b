"""What madlib_mop_evaluate and madlib_mop_predict call. Light: torch comes in with signals blocked."""

from __future__ import annotations

import sys
from typing import Any

from cerebro_db.server import signals
from cerebro_db.server.entry import sql_function
from cerebro_db.server.plpy_database import PlpyDatabase

_PREDICTION = "cerebro_db.server.prediction"


@sql_function
def evaluate(plpy: Any, *arguments: Any) -> None:
    """Loss and metric of one config over packed rows."""
    signals.load(_PREDICTION).evaluate(plpy, PlpyDatabase(plpy), *arguments)


@sql_function
def predict(plpy: Any, *arguments: Any) -> None:
    """Predict raw rows."""
    signals.load(_PREDICTION).predict(plpy, PlpyDatabase(plpy), *arguments)


@sql_function
def evaluate_buffer(plpy: Any, *arguments: Any) -> Any:
    """Rows, loss and metric of a buffer, summed; in the process of a segment."""
    return signals.load(_PREDICTION).evaluate_buffer(plpy, *arguments)


@sql_function
def predict_row(plpy: Any, *arguments: Any) -> Any:
    """Have a row wait for its answer, and give the answers to all that wait when it is time."""
    # Called for every row: blocking signals, as loading does, takes many times as long as the call.
    module: Any = sys.modules.get(_PREDICTION) or signals.load(_PREDICTION)
    return module.predict_row(plpy, *arguments)
