"""The preprocessors as SQL functions."""

from __future__ import annotations

from typing import Any

from cerebro_db.environment import cores
from cerebro_db.server import signals
from cerebro_db.server.entry import sql_function
from cerebro_db.server.plpy_database import PlpyDatabase

_PACKING = "cerebro_db.packing"


@sql_function
def training_preprocessor_dl(plpy: Any, *arguments: Any) -> None:
    """Pack a training table; arguments in the order of the SQL function."""
    packing = signals.load(_PACKING)
    *given, normalizing_const, num_classes, rules, options = arguments
    scale = 1.0 if normalizing_const is None else normalizing_const
    classes = None if num_classes is None else tuple(num_classes)
    parsed = packing.PackOptions.parse(options)
    request = packing.PackRequest(*given, scale, classes, rules, parsed)
    packing.pack_training(PlpyDatabase(plpy), request)


@sql_function
def validation_preprocessor_dl(plpy: Any, *arguments: Any) -> None:
    """Pack a validation table; arguments in the order of the SQL function."""
    packing = signals.load(_PACKING)
    packing.pack_validation(PlpyDatabase(plpy), packing.ValidationRequest(*arguments))


def cpu_count() -> int:
    """Processors that the server may use."""
    return cores()
