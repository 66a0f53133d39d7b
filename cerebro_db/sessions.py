"""Loopback sessions: connections of a server to itself that have the caller's rights, and no more.

A superuser's sessions are the server's own (peer over the socket) under the caller's name. Anyone
else's log in as a role made for this one call, a member of the caller with a random password that
only this process knows, and then take the caller's name: RESET ROLE there leads back to a role that
owns nothing. The password is sent to the server as a verifier only, the role goes when the call ends,
and what a crash leaves behind is dropped by the next call.
"""

from __future__ import annotations

import secrets
import select
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

import psycopg2
from psycopg2 import extensions

from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.database import Database, one
from cerebro_db.errors import RunError, SetupError
from cerebro_db.sqltext import Fragment, ident, query

#: What the server or the connection to it raises.
ServerError = psycopg2.Error
ROLE_PREFIX = "cerebro_session_"
#: Long enough for a busy server to accept a session, short enough for a person to wait.
CONNECT_SECONDS = 10
#: How often a session looks whether its coordinator still lives.
ALIVE_MILLISECONDS = 1000
#: How long a blocking statement waits before it looks for interrupts [s].
LOOK_SECONDS = 0.1
SLOTS = "free connections or raise max_connections: a run takes one per segment and two more"


@dataclass(frozen=True)
class Server:
    """The server that the caller is in, and who asks."""

    dbname: str
    port: int
    socket_directory: Optional[str]
    #: Where it listens for TCP on this machine; None when it does not.
    address: Optional[str]
    superuser: str
    caller: str
    caller_pid: int
    caller_is_superuser: bool
    version: int

    @classmethod
    def of(cls, database: Database) -> Server:
        row = one(database, query("sessions", "server"))
        sockets = [item.strip() for item in row.pop("socket_directories").split(",") if item.strip()]
        address = own_address(row.pop("listen_addresses"))
        return cls(socket_directory=sockets[0] if sockets else None, address=address, **row)


def own_address(listen_addresses: str) -> Optional[str]:
    """The address by which a server reaches itself over TCP, from its setting listen_addresses."""
    listed = [item.strip() for item in listen_addresses.split(",") if item.strip()]
    if {"*", "0.0.0.0", "localhost", "127.0.0.1"} & set(listed):  # noqa: S104
        return "127.0.0.1"
    return {"::": "::1"}.get(listed[0], listed[0]) if listed else None


class Loopback:
    """Opens sessions with the caller's rights; closing it leaves no session and no role behind."""

    def __init__(self, database: Database, lock_seconds: float) -> None:
        self._server = Server.of(database)
        self._lock_seconds = lock_seconds
        self._broker = self._as_superuser()
        self._role: Optional[str] = None
        self._password = secrets.token_hex(32)
        self._drop_stale_roles()
        if not self._server.caller_is_superuser:
            self._make_role()

    @property
    def caller_pid(self) -> int:
        """Process of the caller's session, which coordinates."""
        return self._server.caller_pid

    def connect(self) -> PsycopgDatabase:
        """A session that answers at once, for the catalog."""
        database = self._opened(self._parameters(), self._role_remedy())
        self._become_caller(database)
        return database

    def start(self) -> Session:
        """A session that connects, then runs statements, while the caller looks elsewhere."""
        take = self._take_role()
        try:
            connection = psycopg2.connect(async_=True, **self._parameters())
        except psycopg2.OperationalError as error:
            raise SetupError(f"cannot open a training session: {_line(error)}; {SLOTS}") from error
        return Session(connection, take)

    def close(self) -> None:
        """Drop the role of this call; sessions that are still open lose nothing they need."""
        if self._broker.connection.closed:
            return
        if self._role is not None:
            self._drop_role(self._role, self._server.caller)
        self._broker.close()

    def __enter__(self) -> Loopback:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _as_superuser(self) -> PsycopgDatabase:
        server = self._server
        if server.socket_directory is None:
            raise SetupError(
                "the server has no unix socket (unix_socket_directories is empty), which training sessions "
                "are opened through; set it and restart the server"
            )
        parameters = {"host": server.socket_directory, "user": server.superuser, **self._common()}
        return self._opened(parameters, self._superuser_remedy())

    def _opened(self, parameters: Dict[str, Any], remedy: str) -> PsycopgDatabase:
        try:
            return connect("", **parameters)
        except SetupError as error:
            reason = _line(error.__cause__ or error)
            if "connection slots" in reason or "too many" in reason:
                remedy = SLOTS
            raise SetupError(
                f"the server cannot open a session to itself as {parameters['user']}: {reason}; {remedy}"
            ) from error

    def _superuser_remedy(self) -> str:
        name = self._server.superuser
        return (
            f"let the server's own OS user in by 'local all {name} peer' in pg_hba.conf, or put the password of "
            f"{name} into that OS user's ~/.pgpass"
        )

    def _role_remedy(self) -> str:
        """What lets the role of a call in, which has a password."""
        if self._role is None:
            return self._superuser_remedy()
        address = self._server.address or "127.0.0.1"
        line = f"'host all all {address}/{128 if ':' in address else 32} scram-sha-256'"
        if self._server.address is None:
            return f"set listen_addresses = 'localhost' with {line} in pg_hba.conf, and restart the server"
        return f"roles that a run makes for itself log in over TCP by a password, so pg_hba.conf needs {line}"

    def _make_role(self) -> None:
        """A login role that can do what the caller can, for this call only."""
        name = one(self._broker, query("sessions", "role_name"), prefix=ROLE_PREFIX)["name"]
        verifier = extensions.encrypt_password(self._password, name, self._broker.connection)
        sql = query("sessions", "make_role", role=ident(name), caller=ident(self._server.caller))
        with self._broker.connection.cursor() as cursor:  # a utility statement takes literals only
            cursor.execute(sql, {"verifier": verifier})
        self._role = name

    def _drop_stale_roles(self) -> None:
        """What calls left behind that a crash ended."""
        for stale in self._broker.rows(query("sessions", "stale_roles")):
            self._drop_role(stale["rolname"], stale["caller"])

    def _drop_role(self, role: str, caller: str) -> None:
        """Drop a role of a call; what a user's function made under its name goes to the caller."""
        sql = query("sessions", "drop_role", role=ident(role), caller=ident(caller))
        with suppress(psycopg2.Error):  # one that owns something in another database stays, without harm
            self._broker.script(Fragment(sql.replace("%%", "%")))

    def _parameters(self) -> Dict[str, Any]:
        server = self._server
        if self._role is None:
            return {"host": server.socket_directory, "user": server.superuser, **self._common()}
        host = server.address or server.socket_directory
        return {"host": host, "user": self._role, "password": self._password, **self._common()}

    def _common(self) -> Dict[str, Any]:
        settings = {
            "statement_timeout": "0",
            "lock_timeout": f"{int(self._lock_seconds * 1000)}ms",
            "idle_in_transaction_session_timeout": "0",
            "search_path": "pg_catalog",
            "client_min_messages": "warning",
            "jit": "off",
        }
        if self._server.version >= 140000:
            settings["idle_session_timeout"] = "0"
            settings["client_connection_check_interval"] = f"{ALIVE_MILLISECONDS}ms"
        return {
            "dbname": self._server.dbname,
            "port": self._server.port,
            "connect_timeout": CONNECT_SECONDS,
            "sslmode": "disable",
            "gssencmode": "disable",
            "application_name": "cerebro",
            "options": " ".join(f"-c {name}={value}" for name, value in settings.items()),
        }

    def _take_role(self) -> Fragment:
        name = "be_caller" if self._server.caller_is_superuser else "take_role"
        return query("sessions", name, caller=ident(self._server.caller))

    def _become_caller(self, database: PsycopgDatabase) -> None:
        database.script(self._take_role())


class Session:
    """One asynchronous session: connecting, then one statement at a time, first `setup`."""

    def __init__(self, connection: Any, setup: Fragment) -> None:
        self.connection = connection
        self._setup: Optional[Fragment] = setup
        self._cursor: Any = None
        #: What the socket waits for, as psycopg2 says.
        self._wants = extensions.POLL_WRITE
        self._queued: List[Any] = []

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

    def cancel(self) -> None:
        """Ask the server to end the statement that runs; the session stays."""
        with suppress(psycopg2.Error):
            if self._cursor is not None and not self.connection.closed:
                self.connection.cancel()

    def close(self) -> None:
        self.cancel()
        self.connection.close()

    def waits_to_write(self) -> bool:
        return bool(self._wants == extensions.POLL_WRITE)

    def _next(self) -> bool:
        """Start the statement that is next; False when there is none."""
        if self._setup is not None:
            text, values = str(self._setup), None
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
        return _line(error)
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
        raise _as_ours(error) from error
    finally:
        extensions.set_wait_callback(before)


def _as_ours(error: psycopg2.Error) -> RunError:
    """What the server said in a session of the run, for the caller's session: in one line, with its SQLSTATE."""
    ours = RunError((error.diag.message_primary if error.diag else None) or _line(error))
    ours.sqlstate = error.pgcode or RunError.sqlstate
    return ours


class _Patience:
    """psycopg2's wait callback: looks for an interrupt now and then, until it has seen one."""

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check
        self._interrupt: Optional[BaseException] = None

    def check(self) -> None:
        self.raise_interrupt()
        self._check()

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


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())
