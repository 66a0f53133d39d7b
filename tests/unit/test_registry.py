"""Every strategy that options know has its class, or says that it is not there."""

from __future__ import annotations

from typing import Any

import pytest

from cerebro_db import options
from cerebro_db.errors import SetupError, UsageError
from cerebro_db.strategies import registry

NOBODY: Any = None


def test_the_registry_holds_what_options_list() -> None:
    assert set(registry.STRATEGIES) <= set(options.STRATEGIES)
    assert [name for name in registry.STRATEGIES if getattr(registry.STRATEGIES[name], "name", None) != name] == []


@pytest.mark.parametrize("name", sorted(set(options.STRATEGIES) - set(registry.STRATEGIES)))
def test_one_that_is_not_there_says_so(name: str) -> None:
    with pytest.raises(SetupError, match=f"strategy '{name}' is not in this release; take one of in_rdbms, hybrid"):
        registry.require(NOBODY, name)


def test_an_unknown_one_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="unknown strategy 'hybird': did you mean 'hybrid'"):
        registry.require(NOBODY, "hybird")


def test_where_a_strategy_trains() -> None:
    assert [registry.in_server(name) for name in ("in_rdbms", "hybrid")] == [True, True]
