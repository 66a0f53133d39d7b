"""From a strategy's name to the strategy."""

from __future__ import annotations

from typing import Callable, Dict

from cerebro_db.errors import unknown
from cerebro_db.plan import Plan
from cerebro_db.sessions import Sessions
from cerebro_db.strategies.base import Strategy
from cerebro_db.strategies.direct import Direct
from cerebro_db.strategies.export import Export
from cerebro_db.strategies.in_rdbms import InRdbms
from cerebro_db.strategies.streaming import Streaming

STRATEGIES: Dict[str, Callable[[Plan, Sessions], Strategy]] = {
    "in_rdbms": InRdbms,
    "streaming": Streaming,
    "export": Export,
    "direct": Direct,
}


def open_strategy(plan: Plan, sessions: Sessions) -> Strategy:
    """The strategy that the plan asks for, its segments starting up."""
    name = plan.options.strategy
    if name not in STRATEGIES:
        raise unknown("strategy", name, STRATEGIES)
    return STRATEGIES[name](plan, sessions)
