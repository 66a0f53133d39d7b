"""From an executor's name to the executor."""

from __future__ import annotations

from typing import Callable, Dict

from cerebro_db.errors import unknown
from cerebro_db.executors.base import Executor
from cerebro_db.executors.local import LocalExecutor
from cerebro_db.executors.ray import RayExecutor

EXECUTORS: Dict[str, Callable[[], Executor]] = {
    "local": LocalExecutor,
    "ray": RayExecutor,
}


def open_executor(name: str) -> Executor:
    """The executor of that name, with no worker yet. Raises SetupError when the machine lacks what it needs."""
    if name not in EXECUTORS:
        raise unknown("executor", name, EXECUTORS)
    return EXECUTORS[name]()
