"""Settings cerebro.<name> of the session, the role or the database reach a run."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

from cerebro_db import settings
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


def test_file_over_setting_and_argument_over_file(pg: PsycopgDatabase, tmp_path: Path) -> None:
    """From the last to the first: default, setting of the server, configuration file, argument."""
    pg.script(Fragment("set cerebro.strategy = 'streaming'; set cerebro.threads = 3; set cerebro.seed = 7"))
    path = tmp_path / "c.toml"
    path.write_text("[fit]\nstrategy = 'hybrid'\nthreads = 2\n", "utf-8")
    found = settings.read(path)

    def strategy(options: Optional[str] = None, **arguments: str) -> str:
        return found.below(FitRequest("t", "o", "s", 1, **arguments), options).parsed_options(pg).strategy

    options = found.below(FitRequest("t", "o", "s", 1), None).parsed_options(pg)
    assert (options.strategy, options.threads, options.seed, options.cache_mb) == ("hybrid", 2, 7, 1024)
    assert strategy('{"strategy": "export"}') == "export"
    assert strategy('{"strategy": "export"}', strategy="direct") == "direct"
    assert FitRequest("t", "o", "s", 1).parsed_options(pg).strategy == "streaming"
