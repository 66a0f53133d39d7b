"""The training sessions of a call: kept from its caller's call before, opened ahead, or new; and kept for the next."""

from __future__ import annotations

import time
from typing import Callable, Hashable, List, Optional, Sequence

from cerebro_db.database import Database
from cerebro_db.errors import SetupError, UsageError
from cerebro_db.kept import Shelf
from cerebro_db.sessions import CONNECT_SECONDS, Login, ServerError, Session
from cerebro_db.sqltext import query

#: The first version that ends an idle session by itself; without that none is kept.
IDLE_TIMEOUT = 140000
#: How long sessions may take to clean up before they are kept [s]; one that takes longer is closed.
REST_SECONDS = 5.0
#: How long the processes of closed sessions are waited for [s].
LEAVE_SECONDS = 2.0

#: Idle training sessions of this process.
SHELF: Shelf[Session] = Shelf()


class Crew:
    """Opens the training sessions of one call. Used from one thread."""

    def __init__(
        self, owner: Hashable, login: Callable[[], Login], keep_seconds: float, version: int, greenplum: bool
    ) -> None:
        self._owner = owner
        self._login = login
        #: On Greenplum what takes long is in the segments' processes, which a packed table's rows lead to.
        self._opens_ahead = not greenplum
        self._keep_seconds = keep_seconds if version >= IDLE_TIMEOUT and not greenplum else 0.0
        self._ahead: List[Session] = []

    def ahead(self, count: int) -> None:
        """Have so many sessions that import what training needs, while the caller does something else."""
        while self._opens_ahead and len(self._ahead) < count:
            session = SHELF.take(self._owner) or self._begun()
            if session is None:  # whoever asks for it is told why
                return
            self._ahead.append(session)

    def start(self) -> Session:
        """A session that connects or is open, whatever is at hand. Raises SetupError."""
        while self._ahead:
            session = self._ahead.pop(0)
            if not session.lost():
                return session
            session.close()
        return Session.opened(self._login())

    def spare(self, database: Optional[Database] = None) -> None:
        """Close what is open and not in use; with a session of the server to ask, until others can connect instead."""
        idle = [*self._ahead, *SHELF.of(self._owner)]
        pids = [session.pid for session in idle if session.pid]
        self._close_ahead()
        SHELF.drop(self._owner)
        until = time.monotonic() + LEAVE_SECONDS
        while pids and database is not None and time.monotonic() < until:
            pids = [row["pid"] for row in database.rows(query("sessions", "living"), pids=pids)]

    def rest(self, sessions: Sequence[Session]) -> None:
        """Keep these for the caller's next call, cleaned of this one; close those that cannot be."""
        resting = [session for session in sessions if self._keep_seconds and session.rest(self._keep_seconds)]
        until = time.monotonic() + REST_SECONDS
        for session in sessions:
            if session in resting and session.done(until):
                SHELF.put(self._owner, session, self._keep_seconds)
            else:
                session.close()

    def close(self, error: Optional[BaseException]) -> None:
        """End what nobody took. What was kept before stays so when the call was refused, and may come again.

        After any other error nothing is kept.
        """
        kept = [session for session in self._ahead if session.was_kept] if isinstance(error, UsageError) else []
        self._ahead = [session for session in self._ahead if session not in kept]
        if error is None or isinstance(error, UsageError):
            self._close_ahead()
        else:
            self.spare()
        self.rest(kept)

    def kept(self) -> List[int]:
        """Processes of the sessions that are kept for this caller."""
        return [session.pid for session in SHELF.of(self._owner)]

    def _close_ahead(self) -> None:
        while self._ahead:
            self._ahead.pop().close()

    def _begun(self) -> Optional[Session]:
        """A new session, connected and importing; None when the server lets none in."""
        session = None
        try:
            session = Session.opened(self._login())
            session.send(query("strategies", "warm_up"), packed="", dist_key=0)
            if session.under_way(time.monotonic() + CONNECT_SECONDS):
                session.warm = True
                return session
        except (SetupError, ServerError):
            pass
        if session is not None:
            session.close()
        return None
