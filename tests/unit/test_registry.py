"""Every strategy that options know has its class."""

from __future__ import annotations

from typing import Any

import pytest

from cerebro_db import options
from cerebro_db.errors import UsageError
from cerebro_db.strategies import registry

NOBODY: Any = None


def test_the_registry_holds_what_options_list() -> None:
    assert tuple(registry.STRATEGIES) == options.STRATEGIES
    assert [name for name in registry.STRATEGIES if getattr(registry.STRATEGIES[name], "name", None) != name] == []


def test_an_unknown_one_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="unknown strategy 'hybird': did you mean 'hybrid'"):
        registry.require(NOBODY, "hybird")


def test_where_a_strategy_trains() -> None:
    assert [name for name in options.STRATEGIES if registry.in_server(name)] == ["in_rdbms", "hybrid"]
