"""From a strategy's name to the strategy."""

from __future__ import annotations

from typing import Callable, Dict, List

from cerebro_db.errors import unknown
from cerebro_db.plan import Plan
from cerebro_db.sessions import Sessions
from cerebro_db.strategies.base import Strategy
from cerebro_db.strategies.in_rdbms import InRdbms

_STRATEGIES: Dict[str, Callable[[Sessions, List[int]], Strategy]] = {"in_rdbms": InRdbms}


def open_strategy(plan: Plan, sessions: Sessions) -> Strategy:
    """The strategy that the plan asks for, its segments starting up."""
    name = plan.options.strategy
    if name not in _STRATEGIES:
        raise unknown("strategy", name, _STRATEGIES)
    return _STRATEGIES[name](sessions, [segment.segment_id for segment in plan.segments])
