"""Sessions of a run: asynchronous connections, and what gives way to interrupts.

Who opens them is a `Sessions`: a server that connects to itself (`loopback`), or a client.
"""

from __future__ import annotations

import select
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Callable, Dict, Hashable, Iterator, List, Mapping, Optional, Protocol, Sequence

import psycopg2
from psycopg2 import extensions

from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.errors import CancelledError, RunError, SetupError, line_of
from cerebro_db.outages import outage
from cerebro_db.sqltext import Fragment, query

#: What the server or the connection to it raises.
ServerError = psycopg2.Error
#: Long enough for a busy server to accept a session, short enough for a person to wait.
CONNECT_SECONDS = 10
#: How often a session looks whether its coordinator still lives.
ALIVE_MILLISECONDS = 1000
#: How long a kept session may take to answer [s].
WAKE_SECONDS = 2.0
#: How long a blocking statement waits before it looks for interrupts [s].
LOOK_SECONDS = 0.1
SLOTS = "free connections or raise max_connections: a run takes one per segment and two more"


@dataclass(frozen=True)
class Login:
    """How a session with the caller's rights is opened; holds a password, so it is never shown or stored."""

    #: Keywords of libpq.
    parameters: Mapping[str, Any]
    #: SQL that the session runs first, such as SET ROLE; "" for none.
    setup: str

    def __repr__(self) -> str:
        return "Login(...)"

    def connect(self) -> PsycopgDatabase:
        """Such a session. Raises SetupError when the server lets none in."""
        database = connect("", **self.parameters)
        if self.setup:
            database.script(Fragment(self.setup))
        return database


class Sessions(Protocol):
    """Opens sessions with the caller's rights; closing it leaves nothing behind."""

    @property
    def caller_pid(self) -> int:
        """Process of the caller's own session in the server."""

    @property
    def login(self) -> Login:
        """How other processes open such a session, until this is closed."""

    def connect(self) -> PsycopgDatabase:
        """A session that answers at once, for the catalog. Raises SetupError."""

    @property
    def owner(self) -> Hashable:
        """Whose sessions these are: what is kept for later calls is for those with an equal owner."""

    @property
    def keep_seconds(self) -> float:
        """How long what is idle stays for the caller's next call; 0: it ends with this one."""

    def ahead(self, count: int) -> None:
        """Have so many training sessions under way before they are started; with 0, close those that nobody took."""

    def start(self) -> Session:
        """A session that connects, then runs statements, while the caller looks elsewhere."""

    def rest(self, sessions: Sequence[Session]) -> None:
        """Take back training sessions that are idle: they are kept for the caller's next call, or end."""

    def close(self) -> None: ...

    def __enter__(self) -> Sessions: ...

    def __exit__(self, *exception: object) -> None: ...


def session_parameters(version: int, lock_seconds: float, greenplum: bool = False) -> Dict[str, Any]:
    """Keywords of libpq that every session of a run has; `version` as server_version_num."""
    settings = {
        "statement_timeout": "0",
        "lock_timeout": f"{int(lock_seconds * 1000)}ms",
        "search_path": "pg_catalog",
        "client_min_messages": "warning",
    }
    # A server refuses a session that names a setting it does not know.
    if version >= 90600:
        settings["idle_in_transaction_session_timeout"] = "0"
    if version >= 110000:
        settings["jit"] = "off"
    if greenplum:  # processes on the segments keep rows and modules, and would end when the session is idle
        settings["gp_vmem_idle_resource_timeout"] = "0"
    if version >= 140000:
        settings["idle_session_timeout"] = "0"
        settings["client_connection_check_interval"] = f"{ALIVE_MILLISECONDS}ms"
    return {
        "connect_timeout": CONNECT_SECONDS,
        "application_name": "cerebro",
        "options": " ".join(f"-c {name}={value}" for name, value in settings.items()),
    }


class Session:
    """One asynchronous session: connecting, then one statement at a time, first `setup`."""

    def __init__(self, connection: Any, setup: str) -> None:
        self.connection = connection
        self._login_setup = setup or None
        self._setup = self._login_setup
        #: Whether it imports, or has imported, what training needs.
        self.warm = False
        #: Whether an earlier call has used it.
        self.was_kept = False
        self._cursor: Any = None
        #: What the socket waits for, as psycopg2 says.
        self._wants = extensions.POLL_WRITE
        self._queued: List[Any] = []

    @classmethod
    def opened(cls, login: Login) -> Session:
        """A session that begins to connect. Raises SetupError when it cannot even begin."""
        try:
            connection = psycopg2.connect(async_=True, **login.parameters)
        except psycopg2.OperationalError as error:
            raise SetupError(f"cannot open a training session: {line_of(error)}; {SLOTS}") from error
        return cls(connection, login.setup)

    @property
    def pid(self) -> int:
        """Its process in the server; 0 when it has ended."""
        return 0 if self.connection.closed else int(self.connection.info.backend_pid)

    @property
    def busy(self) -> bool:
        return self._cursor is not None or bool(self._queued) or self._setup is not None

    def send(self, sql: Fragment, **values: Any) -> None:
        """Run a statement as soon as the session is free; its rows come from `advance`."""
        self._queued.append((str(sql), values))
        if self._cursor is None:  # an idle session has nothing to read: it is to write, at once
            self._wants = extensions.POLL_WRITE

    def advance(self) -> Optional[List[Any]]:
        """Do what can be done without waiting; the rows of a statement that ended, else None.

        Raises psycopg2.Error when the statement failed or the session is lost.
        """
        while True:
            self._wants = self.connection.poll()
            if self._wants != extensions.POLL_OK:
                return None
            if self._cursor is not None:
                cursor, self._cursor = self._cursor, None
                if self._setup is None:
                    return list(cursor.fetchall()) if cursor.description else []
                self._setup = None
            if not self._next():
                return None

    def finish(self) -> Optional[List[Any]]:
        """`advance` over all that was sent; the rows of the last statement when it has ended, else None."""
        rows = self.advance()
        while rows is not None and self.busy:
            rows = self.advance()
        return rows

    def cancel(self) -> None:
        """Ask the server to end the statement that runs; the session stays."""
        with suppress(psycopg2.Error):
            if self._cursor is not None and not self.connection.closed:
                self.connection.cancel()

    def close(self) -> None:
        self.cancel()
        self.connection.close()

    def lost(self) -> bool:
        """Whether it has ended, or failed in what was sent; waits for nothing."""
        try:
            self.advance()
        except psycopg2.Error:
            return True
        return bool(self.connection.closed)

    def under_way(self, until: float) -> bool:
        """Whether the last statement that was sent runs, at the latest at `until`, by time.monotonic()."""
        return self._waited(lambda: self._setup is None and not self._queued, until)

    def done(self, until: float) -> bool:
        """Whether all that was sent ends, at the latest at `until`. False when something fails."""
        try:
            return self._waited(lambda: not self.busy, until)
        except psycopg2.Error:
            return False

    def rest(self, seconds: float) -> bool:
        """Begin to forget all that was done in it, to end by itself after so long; False when it is busy."""
        if self.busy or self.connection.closed:
            return False
        self.send(query("sessions", "clear"))
        self.send(query("sessions", "discard"))
        self.send(query("sessions", "rest"), milliseconds=max(1, int(seconds * 1000)))  # 0 would be for ever
        return True

    def awake(self) -> bool:
        """After a rest: take the caller's role anew, and stay; False when it has ended."""
        self._setup = self._login_setup
        self.send(query("sessions", "wake"))
        self.warm = self.was_kept = True
        return self.done(time.monotonic() + WAKE_SECONDS)

    def _waited(self, condition: Callable[[], bool], until: float) -> bool:
        while not condition():
            left = until - time.monotonic()
            if left <= 0:
                return False
            wait_any([self], left)
            self.finish()
        return True

    def waits_to_write(self) -> bool:
        return bool(self._wants == extensions.POLL_WRITE)

    def _next(self) -> bool:
        """Start the statement that is next; False when there is none."""
        if self._setup is not None:
            text, values = self._setup, None
        elif self._queued:
            text, values = self._queued.pop(0)
        else:
            return False
        self._cursor = self.connection.cursor()
        self._cursor.execute(text, values)
        return True


def why_lost(database: PsycopgDatabase) -> Optional[str]:
    """Why an idle session has ended, None while it lives; costs nothing unless the server says something."""
    if not select.select([database.connection], [], [], 0)[0]:
        return None
    try:
        database.rows(query("sessions", "alive"))
    except psycopg2.Error as error:
        return line_of(error)
    return None


@contextmanager
def interruptible(check: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """Inside, a statement or connection that takes long gives way to what `check` raises.

    psycopg2 waits in C, where the server's interrupts do not reach. The interrupt is raised when the
    statement is over, which it is soon, since the server is asked to cancel it. Gives the function
    to call from then on in place of `check`.
    """
    before = extensions.get_wait_callback()
    patience = _Patience(check)
    extensions.set_wait_callback(patience.wait)
    try:
        yield patience.check
        patience.raise_interrupt()
    except psycopg2.Error as error:
        patience.raise_interrupt()
        raise as_ours(error) from error
    finally:
        extensions.set_wait_callback(before)


def told(error: psycopg2.Error) -> str:
    """The server's message without its context, or what the driver said; of a segment that is down, what to do."""
    return outage(line_of(error)) or (error.diag.message_primary if error.diag else None) or line_of(error)


def as_ours(error: psycopg2.Error) -> RunError:
    """What the server said in a session of the run, for the caller's session: in one line, with its SQLSTATE."""
    kind = CancelledError if error.pgcode == CancelledError.sqlstate else RunError
    ours = kind(told(error))
    ours.sqlstate = error.pgcode or RunError.sqlstate
    return ours


class _Patience:
    """psycopg2's wait callback: looks for an interrupt now and then, until it has seen one."""

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check
        self._interrupt: Optional[BaseException] = None

    def check(self) -> None:
        self.raise_interrupt()
        try:
            self._check()
        except BaseException as error:  # it is told once: what is written down about it must not wait for another
            self._interrupt = error
            raise

    def raise_interrupt(self) -> None:
        if self._interrupt is not None:
            raise self._interrupt from None

    def wait(self, connection: Any) -> None:
        while True:
            wants = connection.poll()
            if wants == extensions.POLL_OK:
                return
            readers = [connection] if wants == extensions.POLL_READ else []
            writers = [connection] if wants == extensions.POLL_WRITE else []
            if not any(select.select(readers, writers, [], LOOK_SECONDS)) and self._interrupt is None:
                self._look(connection)

    def _look(self, connection: Any) -> None:
        try:
            self._check()
        except BaseException as error:
            if connection.status == extensions.STATUS_SETUP:  # it connects: nothing to wait for
                raise
            self._interrupt = error
            connection.cancel()


def wait_any(sessions: Sequence[Session], seconds: float) -> None:
    """Wait until one of the sessions can go on, at most so long."""
    readers = [s.connection for s in sessions if s.busy and not s.waits_to_write()]
    writers = [s.connection for s in sessions if s.busy and s.waits_to_write()]
    select.select(readers, writers, [], seconds)
