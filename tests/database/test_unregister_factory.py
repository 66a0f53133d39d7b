"""Taking a factory off the list; that it works no longer is shown in test_register_factory."""

from __future__ import annotations

import psycopg2
import pytest

from cerebro_db.client import PsycopgDatabase
from tests.runs import sql


def test_what_was_listed_goes_and_what_was_not_is_an_error(pg: PsycopgDatabase) -> None:
    pg.rows(sql("select register_factory('torch.nn:Linear')"))
    pg.rows(sql("select unregister_factory('torch.nn:Linear')"))
    assert pg.rows(sql("select * from cerebro_private.factories()")) == []
    with pytest.raises(psycopg2.errors.UndefinedObject, match="factory 'torch.nn:Linear' is not on the list"):
        pg.rows(sql("select unregister_factory('torch.nn:Linear')"))
