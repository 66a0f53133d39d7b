"""From an executor's name to the executor."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Callable, Dict, Hashable

from cerebro_db.errors import unknown
from cerebro_db.executors.base import Executor
from cerebro_db.executors.local import LocalExecutor, local_ahead
from cerebro_db.executors.ray import RayExecutor

#: Given whose workers they are.
EXECUTORS: Dict[str, Callable[[Hashable], Executor]] = {
    "local": LocalExecutor,
    "ray": RayExecutor,
}


def open_executor(name: str, owner: Hashable = None) -> Executor:
    """The executor of that name, with no worker yet. Raises SetupError when the machine lacks what it needs.

    `owner`: workers that are kept are for calls with an equal one.
    """
    if name not in EXECUTORS:
        raise unknown("executor", name, EXECUTORS)
    return EXECUTORS[name](owner)


def workers_ahead(name: str, owner: Hashable, count: int) -> AbstractContextManager[None]:
    """Inside, so many workers start up before they are asked for, where that is of use; what nobody took ends."""
    return local_ahead(owner, count) if name == "local" else nullcontext()
