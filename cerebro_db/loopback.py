"""Loopback sessions: connections of a server to itself that have the caller's rights, and no more.

A superuser's sessions are the server's own (peer over the socket) under the caller's name. Anyone
else's log in as a role made for this one call, a member of the caller with a random password that
only this process knows, and then take the caller's name: RESET ROLE there leads back to a role that
owns nothing. The password is sent to the server as a verifier only, the role goes when the call ends,
and what a crash leaves behind is dropped by the next call.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Dict, Optional

import psycopg2
from psycopg2 import extensions

from cerebro_db.client import PsycopgDatabase, connect
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

    @property
    def login(self) -> Login:
        """How such a session is opened, from this machine, until the call ends."""
        return Login(self._parameters(), str(self._take_role()))

    def connect(self) -> PsycopgDatabase:
        """A session that answers at once, for the catalog."""
        database = self._opened(self._parameters(), self._role_remedy())
        database.script(self._take_role())
        return database

    def start(self) -> Session:
        """A session that connects, then runs statements, while the caller looks elsewhere."""
        return Session.opened(self.login)

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
