"""Settings cerebro.<name> of the session, the role or the database reach a run."""

from __future__ import annotations

from cerebro_db.client import PsycopgDatabase
from cerebro_db.planning import FitRequest
from cerebro_db.sqltext import Fragment


def test_argument_over_option_over_setting(pg: PsycopgDatabase) -> None:
    pg.script(Fragment("set cerebro.seed = 7; set cerebro.threads = 3; set cerebro.lock_seconds = ''"))
    request = FitRequest("t", "o", "s", 1, use_caching=False, options='{"threads": 1}')
    options = request.parsed_options(pg)
    assert (options.seed, options.threads, options.lock_seconds, options.cache_mb) == (7, 1, 10.0, 0)


def test_none_is_set(pg: PsycopgDatabase) -> None:
    assert FitRequest("t", "o", "s", 1).parsed_options(pg).seed == 0
