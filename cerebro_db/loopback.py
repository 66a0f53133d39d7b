"""Loopback sessions: connections of a server to itself that have the caller's rights, and no more.

A superuser's sessions are the server's own (peer over the socket) under the caller's name. Anyone
else's log in as a role made for this one call, a member of the caller with a random password that
only this process knows, and then take the caller's name: RESET ROLE there leads back to a role that
owns nothing. The password is sent to the server as a verifier only, the role goes when the call ends,
and what a crash leaves behind is dropped by the next call.

Where training sessions are kept for the caller's next call, their role stays, without LOGIN and without a
password. That call opens it again under a new password, or whoever calls after they have ended drops it.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Dict, Hashable, Optional, Sequence

import psycopg2
from psycopg2 import extensions

from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.crew import SHELF, Crew
from cerebro_db.database import Database, one
from cerebro_db.engines import on_greenplum
from cerebro_db.errors import SetupError, line_of
from cerebro_db.sessions import SLOTS, Login, Session, session_parameters
from cerebro_db.sqltext import Fragment, ident, query

ROLE_PREFIX = "cerebro_session_"
#: The first version that knows scram-sha-256; before it, libpq makes a verifier of md5.
SCRAM = 100000


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
    caller_oid: int
    caller_pid: int
    caller_is_superuser: bool
    version: int
    greenplum: bool

    @classmethod
    def of(cls, database: Database) -> Server:
        row = one(database, query("sessions", "server"))
        sockets = [item.strip() for item in row.pop("socket_directories").split(",") if item.strip()]
        address = own_address(row.pop("listen_addresses"))
        greenplum = on_greenplum(database)
        return cls(socket_directory=sockets[0] if sockets else None, address=address, greenplum=greenplum, **row)


def own_address(listen_addresses: str) -> Optional[str]:
    """The address by which a server reaches itself over TCP, from its setting listen_addresses."""
    listed = [item.strip() for item in listen_addresses.split(",") if item.strip()]
    if {"*", "0.0.0.0", "localhost", "127.0.0.1"} & set(listed):  # noqa: S104
        return "127.0.0.1"
    return {"::": "::1"}.get(listed[0], listed[0]) if listed else None


class Loopback:
    """Opens sessions with the caller's rights; closing it leaves no session and no role behind but what is kept."""

    def __init__(self, database: Database, lock_seconds: float, keep_seconds: float = 0.0) -> None:
        server = self._server = Server.of(database)
        self._lock_seconds = lock_seconds
        self.keep_seconds = keep_seconds
        #: A name can be given to another role, an oid not; a superuser's sessions are others than a plain role's.
        self.owner: Hashable = (
            "server", server.dbname, server.caller, server.caller_oid, server.caller_is_superuser, lock_seconds,
        )  # fmt: skip
        SHELF.drop_others(self.owner)  # whom the caller was then: SET ROLE
        self._crew = Crew(self.owner, lambda: self.login, keep_seconds, server.version, server.greenplum)
        self._role: Optional[str] = None
        self._broker = self._as_superuser()
        self._password = secrets.token_hex(32)
        self._drop_stale_roles()
        if not server.caller_is_superuser:
            self._take_login_role()

    @property
    def caller_pid(self) -> int:
        """Process of the caller's session, which coordinates."""
        return self._server.caller_pid

    @property
    def login(self) -> Login:
        """How such a session is opened, from this machine, until the call ends."""
        return Login(self._parameters(), str(self._take_role()))

    def connect(self) -> PsycopgDatabase:
        """A session that answers at once, for the catalog."""
        database = self._opened(self._parameters(), self._role_remedy())
        database.script(self._take_role())
        return database

    def ahead(self, count: int) -> None:
        """Have so many training sessions under way before they are started; with 0, close those that nobody took."""
        if count:
            self._crew.ahead(count)
        else:
            self._crew.spare(self._broker)

    def start(self) -> Session:
        """A session that connects, then runs statements, while the caller looks elsewhere."""
        return self._crew.start()

    def rest(self, sessions: Sequence[Session]) -> None:
        """Take back training sessions that are idle: they are kept for the caller's next call, or end."""
        self._crew.rest(sessions)

    def close(self, error: Optional[BaseException] = None) -> None:
        """End what nobody took, and drop the role of this call unless sessions are kept that have it.

        Sessions that are still open lose nothing they need. After an error that is no refusal nothing is kept.
        """
        self._crew.close(error)
        if self._broker.connection.closed:
            return
        if self._role is not None and not (self._crew.kept() and self._role_rests()):
            self._crew.spare()
            self._drop_role(self._role, self._server.caller)
        self._drop_stale_roles()
        self._broker.close()

    def __enter__(self) -> Loopback:
        return self

    def __exit__(self, *exception: object) -> None:
        error = exception[1]
        self.close(error if isinstance(error, BaseException) else None)

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
            reason = line_of(error.__cause__ or error)
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
        method = "scram-sha-256" if self._server.version >= SCRAM else "md5"
        line = f"'host all all {address}/{128 if ':' in address else 32} {method}'"
        if self._server.address is None:
            return f"set listen_addresses = 'localhost' with {line} in pg_hba.conf, and restart the server"
        return f"roles that a run makes for itself log in over TCP by a password, so pg_hba.conf needs {line}"

    def _take_login_role(self) -> None:
        """A login role that can do what the caller can, until this call ends; that of kept sessions where there is one.

        It has the name of this session, the broker, by which other calls know that it is in use.
        """
        name = one(self._broker, query("sessions", "role_name"), prefix=ROLE_PREFIX)["name"]
        if not self._reopened(name):
            self._crew.spare()
            caller = ident(self._server.caller)
            self._give_password(query("sessions", "make_role", role=ident(name), caller=caller), name)
        self._role = name

    def _reopened(self, name: str) -> bool:
        kept = self._crew.kept()
        found = kept and self._broker.rows(query("sessions", "role_of"), pid=kept[0], caller=self._server.caller)
        if not found:
            return False
        old = ident(found[0]["rolname"])
        try:
            self._give_password(query("sessions", "reopen_role", role=old, new=ident(name)), name)
        except psycopg2.Error:  # somebody has dropped it meanwhile
            return False
        return True

    def _give_password(self, sql: Fragment, name: str) -> None:
        verifier = extensions.encrypt_password(self._password, name, self._broker.connection)
        with self._broker.connection.cursor() as cursor:  # a utility statement takes literals only
            cursor.execute(sql, {"verifier": verifier})

    def _role_rests(self) -> bool:
        """Whether nobody can log in by the role any more."""
        try:
            self._broker.rows(query("sessions", "close_role", role=ident(self._role or "")))
        except psycopg2.Error:
            return False
        return True

    def _drop_stale_roles(self) -> None:
        """What calls left behind that a crash ended, or whose sessions were kept and have ended."""
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
        return {
            "dbname": self._server.dbname,
            "port": self._server.port,
            "sslmode": "disable",
            "gssencmode": "disable",
            **session_parameters(self._server.version, self._lock_seconds, self._server.greenplum),
        }

    def _take_role(self) -> Fragment:
        name = "be_caller" if self._server.caller_is_superuser else "take_role"
        return query("sessions", name, caller=ident(self._server.caller))
