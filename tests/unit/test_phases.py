"""The clock of a hop: every second belongs to one phase, and to one config."""

from __future__ import annotations

import time

import pytest

from cerebro_db.errors import UsageError
from cerebro_db.options import Options
from cerebro_db.phases import Phases, Spent


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at it is a second later than the one before."""
    seconds = iter(range(100))
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(seconds)))


def test_time_between_marks_is_the_latters(clock: None) -> None:
    phases = Phases()
    for name in ("rows", "forward", "rows"):
        phases.mark(name)
    assert phases.spent() == [Spent("rows", 2, 2.0), Spent("forward", 1, 1.0)]
    assert phases.spent(4) == [Spent("rows", 2, 0.5), Spent("forward", 1, 0.25)]
    phases.start()
    assert phases.spent() == []


@pytest.mark.parametrize(("text", "value"), [("true", True), ("on", True), ("1", True), ("off", False), ("No", False)])
def test_the_option_is_read_as_the_server_reads_settings(text: str, value: bool) -> None:
    assert Options.parse(None, {"profile": text}).profile is value
    assert Options.parse(f'{{"profile": {str(value).lower()}}}', {}).profile is value


def test_what_is_no_flag_is_refused() -> None:
    with pytest.raises(UsageError, match="option profile is 'maybe', expected true or false"):
        Options.parse('{"profile": "maybe"}', {})
    with pytest.raises(UsageError, match="option seed is True, expected a number"):
        Options.parse('{"seed": true}', {})
