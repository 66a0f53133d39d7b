"""How a server reaches itself, and how its sessions run statements."""

from __future__ import annotations

from typing import List, Optional

import pytest
from psycopg2 import extensions

from cerebro_db import sessions
from cerebro_db.loopback import own_address
from cerebro_db.sqltext import Fragment


@pytest.mark.parametrize(("listen_addresses", "address"), [
    ("localhost", "127.0.0.1"),
    ("*", "127.0.0.1"),
    ("10.0.0.5, localhost", "127.0.0.1"),
    ("10.0.0.5,10.0.0.6", "10.0.0.5"),
    ("::", "::1"),
    ("", None),
])  # fmt: skip
def test_own_address(listen_addresses: str, address: Optional[str]) -> None:
    assert own_address(listen_addresses) == address


class Idle:
    """A connection without a server: every poll finds it ready."""

    def __init__(self) -> None:
        self.ran: List[str] = []

    def poll(self) -> int:
        return int(extensions.POLL_OK)

    def cursor(self) -> Idle:
        return self

    description = None

    def execute(self, text: str, values: object) -> None:
        self.ran.append(text)


def test_a_statement_for_an_idle_session_is_started_without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(sessions.select, "select", lambda *lists: asked.append(lists))
    connection = Idle()
    session = sessions.Session(connection, "set role x")
    session.advance()
    session.send(Fragment("select 1"))
    sessions.wait_any([session], 30)
    ((readers, writers, _, _),) = asked
    assert (readers, writers) == ([], [connection])
    session.advance()
    assert connection.ran == ["set role x", "select 1"]
