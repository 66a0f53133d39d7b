"""From a strategy's name to the strategy."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Callable, Dict, Iterator

from cerebro_db.database import Database
from cerebro_db.errors import unknown
from cerebro_db.executors.registry import workers_ahead
from cerebro_db.options import Options
from cerebro_db.plan import Plan
from cerebro_db.sessions import Sessions
from cerebro_db.strategies.base import Strategy
from cerebro_db.strategies.direct import Direct
from cerebro_db.strategies.export import Export
from cerebro_db.strategies.hybrid import Hybrid
from cerebro_db.strategies.in_rdbms import InRdbms
from cerebro_db.strategies.in_sessions import InSessions
from cerebro_db.strategies.rounds import in_rounds
from cerebro_db.strategies.streaming import Streaming

#: One line per strategy, under the names that options.STRATEGIES lists.
STRATEGIES: Dict[str, Callable[[Plan, Sessions], Strategy]] = {
    "in_rdbms": InRdbms,
    "hybrid": Hybrid,
    "streaming": Streaming,
    "export": Export,
    "direct": Direct,
}


def require(database: Database, name: str) -> None:
    """Refuse, before anything is made, a strategy that this installation or this server lacks."""
    checked = getattr(_find(name), "require", None)
    if checked is not None:
        checked(database)


def open_strategy(plan: Plan, sessions: Sessions) -> Strategy:
    """The strategy that the plan asks for, its segments starting up."""
    kind = _find(plan.options.strategy)
    if kind is InRdbms and plan.options.order == "round":
        kind = in_rounds
    return kind(plan, sessions)


@contextmanager
def under_way(options: Options, sessions: Sessions, segments: int) -> Iterator[None]:
    """Inside, what so many segments will train in starts up while the plan is made; what no strategy takes, ends."""
    if in_server(options.strategy):
        sessions.ahead(segments)
        yield
    else:
        sessions.ahead(0)  # workers have sessions of their own, which may need the room
        with workers_ahead(options.executor, sessions.owner, segments):
            yield


def in_server(name: str) -> bool:
    """Whether it trains on the server's processors; the others train on those of the coordinator."""
    kind = _find(name)
    return isinstance(kind, type) and issubclass(kind, InSessions)


def _find(name: str) -> Callable[[Plan, Sessions], Strategy]:
    if name not in STRATEGIES:
        raise unknown("strategy", name, STRATEGIES)
    return STRATEGIES[name]
