"""Which training sessions are kept: not those of a server that would let them idle for ever."""

from __future__ import annotations

from typing import Any

import pytest

from cerebro_db.crew import IDLE_TIMEOUT, SHELF, Crew
from cerebro_db.errors import RunError, SetupError, UsageError


class Idle:
    """A session that can rest, until it is told to fail at that."""

    pid = 0

    def __init__(self, cleans: bool = True) -> None:
        self.closed = False
        self.was_kept = False
        self._cleans = cleans

    def rest(self, seconds: float) -> bool:
        return True

    def done(self, until: float) -> bool:
        return self._cleans

    def awake(self) -> bool:
        self.was_kept = True
        return True

    def lost(self) -> bool:
        return False

    def close(self) -> None:
        self.closed = True


def crew(keep_seconds: float = 60.0, version: int = IDLE_TIMEOUT, greenplum: bool = False) -> Crew:
    def login() -> Any:
        raise SetupError("no server")

    return Crew("me", login, keep_seconds, version, greenplum)


def rested(made: Crew, *sessions: Any) -> int:
    """How many of these are kept."""
    made.rest(sessions)
    return SHELF.count


@pytest.mark.parametrize(
    ("keep_seconds", "version", "greenplum", "kept"),
    [(60.0, IDLE_TIMEOUT, False, 1), (0.0, IDLE_TIMEOUT, False, 0), (60.0, IDLE_TIMEOUT - 1, False, 0),
     (60.0, IDLE_TIMEOUT, True, 0)],
)  # fmt: skip
def test_only_what_ends_by_itself_is_kept(keep_seconds: float, version: int, greenplum: bool, kept: int) -> None:
    session = Idle()
    assert rested(crew(keep_seconds, version, greenplum), session) == kept
    assert session.closed == (not kept)
    SHELF.drop("me")


def test_what_cannot_be_cleaned_is_closed() -> None:
    session = Idle(cleans=False)
    assert rested(crew(), session) == 0
    assert session.closed


@pytest.mark.parametrize(
    ("error", "kept"), [(UsageError("refused"), 1), (RunError("failed"), 0), (KeyboardInterrupt(), 0)]
)
def test_what_was_kept_before_stays_after_a_refusal_only(error: BaseException, kept: int) -> None:
    session: Any = Idle()
    rested(crew(), session)
    call = crew()
    call.ahead(1)
    assert SHELF.count == 0  # it is in use
    call.close(error)
    assert (SHELF.count, session.closed) == (kept, not kept)
    SHELF.drop("me")


def test_what_is_kept_is_taken_first_and_what_is_not_needed_is_closed() -> None:
    sessions: Any = [Idle(), Idle(), Idle()]
    rested(crew(), *sessions)
    call = crew()
    call.ahead(2)
    assert call.start() is sessions[0]
    call.spare()
    assert [session.closed for session in sessions] == [False, True, True]
    assert SHELF.count == 0
    with pytest.raises(SetupError, match="no server"):
        call.start()
