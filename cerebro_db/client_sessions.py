"""Sessions of a run whose coordinator is a client: as the caller's own session, under the caller's role.

The coordinator works in a thread of its own, since psycopg2 waits in C, where Python's signals do not
reach: the thread that the signals do reach stops it (`Stop`).
"""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from typing import Any, Dict, Hashable, Iterator, List, Optional, Sequence, Union

import psycopg2
from psycopg2 import extensions

from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.crew import Crew
from cerebro_db.database import Row, one
from cerebro_db.engines import on_greenplum
from cerebro_db.errors import CancelledError
from cerebro_db.sessions import Login, Session, session_parameters
from cerebro_db.sqltext import Fragment, ident, query


class Stop:
    """Ends a coordinator from another thread: between its statements, and in the middle of one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted = False
        #: Told once; what cleans up after that runs undisturbed.
        self._told = False
        self._waiting: Optional[extensions.connection] = None

    @property
    def pending(self) -> bool:
        """Whether the coordinator was asked to end and has not noticed yet."""
        return self._wanted and not self._told

    def ask(self) -> None:
        """From another thread; again and again until it is no longer pending."""
        with self._lock:
            self._wanted = True
            if not self._told and self._waiting is not None:
                with suppress(psycopg2.Error):  # the session is lost: then its statement fails anyhow
                    self._waiting.cancel()

    def check(self) -> None:
        """From the coordinator: raises CancelledError when it is to end."""
        with self._lock:
            if not self._wanted:
                return
            self._told = True
        raise CancelledError("cancelled by its caller")

    @contextmanager
    def statement(self, connection: extensions.connection) -> Iterator[None]:
        """Around a statement of the coordinator that may take long."""
        if self.pending:
            self.check()
        self._set(connection)
        try:
            yield
        except psycopg2.extensions.QueryCanceledError:
            if self.pending:
                self.check()
            raise
        finally:
            self._set(None)

    def _set(self, connection: Optional[extensions.connection]) -> None:
        with self._lock:
            self._waiting = connection


class StoppableDatabase(PsycopgDatabase):
    """A session whose statements give way to a `Stop`."""

    def __init__(self, database: PsycopgDatabase, stop: Stop) -> None:
        super().__init__(database.connection, database.notice)
        self._stop = stop

    def rows(self, sql: Fragment, **values: Any) -> List[Row]:
        with self._stop.statement(self.connection):
            return super().rows(sql, **values)

    def script(self, sql: Fragment) -> None:
        if sql == "rollback":  # what is undone is undone to its end
            super().script(sql)
            return
        with self._stop.statement(self.connection):
            super().script(sql)


class ClientSessions:
    """Opens sessions like `database`: to the same server with the same parameters, under the same role."""

    def __init__(
        self, database: PsycopgDatabase, stop: Stop, lock_seconds: float, keep_seconds: float = 0.0
    ) -> None:
        self._stop = stop
        self._database = database
        self._caller = database.connection.info
        self.keep_seconds = keep_seconds
        greenplum = on_greenplum(database)
        parameters = _like(database, lock_seconds, greenplum)
        self._login = Login(parameters, _setup(database, self._caller.user))
        self.owner: Hashable = ("client", tuple(sorted(parameters.items())), self._login.setup)
        version = database.connection.server_version
        self._crew = Crew(self.owner, lambda: self._login, keep_seconds, version, greenplum)
        self._opened: List[Union[PsycopgDatabase, Session]] = []

    @property
    def caller_pid(self) -> int:
        """Process of the caller's own session in the server."""
        return self._caller.backend_pid

    @property
    def login(self) -> Login:
        """How such a session is opened, from any machine that reaches the server as this one does."""
        return self._login

    def connect(self) -> PsycopgDatabase:
        """A session that answers at once, for the catalog."""
        database = StoppableDatabase(connect("", **self._login.parameters), self._stop)
        self._opened.append(database)
        if self._login.setup:
            database.script(Fragment(self._login.setup))
        return database

    def ahead(self, count: int) -> None:
        """Have so many training sessions under way before they are started; with 0, close those that nobody took."""
        if count:
            self._crew.ahead(count)
        else:
            self._crew.spare(self._database)

    def start(self) -> Session:
        """A session that connects, then runs statements, while the caller looks elsewhere."""
        session = self._crew.start()
        self._opened.append(session)
        return session

    def rest(self, sessions: Sequence[Session]) -> None:
        """Take back training sessions that are idle: they are kept for the caller's next call, or end."""
        self._opened = [one for one in self._opened if one not in sessions]
        self._crew.rest(sessions)

    def close(self, error: Optional[BaseException] = None) -> None:
        """End every session that is still open but for what is kept; after an error that is no refusal, that too."""
        self._crew.close(error)
        while self._opened:
            self._opened.pop().close()

    def __enter__(self) -> ClientSessions:
        return self

    def __exit__(self, *exception: object) -> None:
        error = exception[1]
        self.close(error if isinstance(error, BaseException) else None)


def _like(database: PsycopgDatabase, lock_seconds: float, greenplum: bool) -> Dict[str, Any]:
    """Keywords of libpq for one more session like this one."""
    connection = database.connection
    theirs = connection.get_dsn_parameters()  # all but the password
    ours = session_parameters(connection.server_version, lock_seconds, greenplum)
    info = connection.info
    if "," in theirs.get("host", "") or "," in theirs.get("hostaddr", ""):  # of several servers, the one that we are in
        theirs.pop("hostaddr", None)
        theirs.update(host=info.host, port=str(info.port))
    options = f"{theirs.pop('options', '')} {ours.pop('options')}".strip()
    for name in ("application_name", "fallback_application_name"):
        theirs.pop(name, None)
    password = {"password": info.password} if info.password else {}
    return {**ours, **theirs, **password, "options": options}


def _setup(database: PsycopgDatabase, login: str) -> str:
    """SQL by which a new session gets the role that the caller has taken since it logged in."""
    row = one(database, query("sessions", "roles"))
    taken = []
    if row["session_user"] != login:
        taken.append(query("sessions", "be_caller", caller=ident(row["session_user"])))
    if row["role"] != "none":
        taken.append(query("sessions", "take_role", caller=ident(row["role"])))
    return "; ".join(taken).replace("%%", "%")
