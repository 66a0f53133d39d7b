"""The `Database` seam over psycopg2, and the only `connect()`."""

from __future__ import annotations

import io
import itertools
import os
import re
from contextlib import contextmanager, suppress
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Union

import psycopg2
from psycopg2 import extensions, extras

from cerebro_db.database import Row, sql_type
from cerebro_db.environment import embedded_dsn
from cerebro_db.errors import SetupError, UsageError, line_of
from cerebro_db.sqltext import Fragment, fill, ident

#: What one round trip of a stream fetches at most.
FETCH_BYTES = 8 << 20
FETCH_ROWS = 5000
#: What COPY sends in one message.
COPY_BYTES = 1 << 20

_LIBPQ = ("PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGUSER", "PGSERVICE")
_DECLARE = Fragment("declare {cursor} no scroll cursor for {query}")
#: Statements in which a value has a type; others (create role) take literals only.
_PLANNED = frozenset(("select", "insert", "update", "delete", "with", "values", "declare"))
_VERB = re.compile(r"(?:\s|--[^\n]*\n)*(\w*)")
_SEVERITY = re.compile(r"^[A-Z0-9]+:\s+")
_cursor_numbers = itertools.count(1)


def _bytes(value: Union[str, bytes, None], cursor: Any) -> Optional[bytes]:
    view = psycopg2.BINARY(value, cursor)
    return None if view is None else bytes(view)


def _text(value: Union[str, bytes, None], cursor: Any) -> Union[str, bytes, None]:
    return value


_BYTES = extensions.new_type((17,), "BYTES", _bytes)
_JSON = extensions.new_type((114, 3802), "JSON_TEXT", _text)
_TYPES = (
    _BYTES,
    _JSON,
    extensions.new_array_type((1001,), "BYTES[]", _BYTES),
    extensions.new_array_type((199, 3807), "JSON_TEXT[]", _JSON),
)


class PsycopgDatabase:
    """One session over an autocommit connection; used from one thread.

    Values get the SQL types that they have inside a backend, so a statement behaves the same in
    both: int is bigint, float is float8, str is text, None is a NULL of type text, lists and
    tuples are arrays, NumPy scalars are plain numbers. `json` comes back as text.
    """

    def __init__(
        self, connection: extensions.connection, on_notice: Optional[Callable[[str], None]] = None
    ) -> None:
        self.connection = connection
        self._on_notice = on_notice or _ignore
        connection.notices = _Notices(self.notice)
        for kind in _TYPES:
            extensions.register_type(kind, connection)

    def rows(self, sql: Fragment, **values: Any) -> List[Row]:
        text, plain = _bound(sql, values)
        with self.connection.cursor(cursor_factory=extras.RealDictCursor) as cursor:
            cursor.execute(text, plain)
            return [dict(row) for row in cursor.fetchall()] if cursor.description else []

    def stream(self, sql: Fragment, **values: Any) -> Iterator[Row]:
        """Rows through a cursor, about FETCH_BYTES at a time; the stream is one transaction."""
        cursor = ident(f"cerebro_{next(_cursor_numbers)}")
        with self.transaction():
            self.rows(fill(_DECLARE, cursor=cursor, query=sql), **values)
            count = 1
            while True:
                rows = self._fetched(cursor, count)
                yield from rows
                if len(rows) < count:
                    break
                count = _fetch_count(rows)
            self.script(Fragment(f"close {cursor}"))

    def copy_out(self, sql: Fragment, write: Callable[[bytes], object], **values: Any) -> None:
        """Run a COPY ... TO STDOUT and hand `write` its output piece by piece.

        COPY binds no values, so they become literals here. When `write` raises, the session is closed:
        it could go on only after the rest of the output.
        """
        with self.connection.cursor() as cursor:
            text = cursor.mogrify(sql, {name: _plain(value) for name, value in values.items()})
            sink = _Sink(write)
            try:
                cursor.copy_expert(text, sink)
            except psycopg2.Error as error:
                if error.pgcode is not None:
                    raise
                self.close()  # libpq has often no words for it
                raise psycopg2.OperationalError(f"the session ended in the middle of COPY: {line_of(error)}") from error
            except BaseException:
                if sink.failed:
                    self.close()
                raise

    def copy_in(self, sql: Fragment, data: bytes) -> None:
        """Run a COPY ... FROM STDIN over `data`."""
        with self.connection.cursor() as cursor:
            cursor.copy_expert(sql, io.BytesIO(data), size=COPY_BYTES)

    def cancel(self) -> None:
        """End the statement that runs, from any thread; the session stays. Nothing to do in one that is closed."""
        with suppress(psycopg2.InterfaceError):
            self.connection.cancel()

    def notice(self, message: str) -> None:
        self._on_notice(message)

    def script(self, sql: Fragment) -> None:
        """Run statements of our own files as they stand: no values, `%` is just a character."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit what happens inside together, or none of it; joins a transaction that is open."""
        idle = self.connection.info.transaction_status == extensions.TRANSACTION_STATUS_IDLE
        if not (self.connection.autocommit and idle):
            yield
            return
        self.script(Fragment("begin"))
        try:
            yield
        except BaseException:
            if not self.connection.closed:
                self.script(Fragment("rollback"))
            raise
        self.script(Fragment("commit"))

    def close(self) -> None:
        """End the session; closing twice is fine."""
        self.connection.close()

    def __enter__(self) -> PsycopgDatabase:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _fetched(self, cursor: Fragment, count: int) -> List[Row]:
        # FETCH takes a literal, not an expression, so the count is put in as a number.
        return self.rows(Fragment(f"fetch forward {count:d} from {cursor}"))


def connect(
    dsn: Optional[str] = None, on_notice: Optional[Callable[[str], None]] = None, **overrides: Any
) -> PsycopgDatabase:
    """Open a session by libpq's rules: a DSN, else PGHOST, PGSERVICE and the rest.

    When nothing at all is set and the embedded server is up, it is taken. `overrides` are libpq
    parameters such as `dbname`. Raises SetupError when the server cannot be reached.
    """
    wanted = dsn if dsn is not None else _default_dsn(overrides)
    try:
        connection = psycopg2.connect(wanted, fallback_application_name="cerebro-db", **overrides)
    except psycopg2.OperationalError as error:
        raise SetupError(
            f"cannot connect to {_shown(wanted, overrides)}: {line_of(error)}; {_remedy(wanted)}"
        ) from error
    except psycopg2.ProgrammingError as error:
        raise UsageError(
            f"the DSN is not valid: {line_of(error)}; expected 'host=... dbname=...' or 'postgresql://...'"
        ) from error
    connection.autocommit = True
    return PsycopgDatabase(connection, on_notice)


def make_dsn(dsn: str = "", **parts: Any) -> str:
    """A libpq DSN with some of its parts replaced, every value quoted as libpq wants."""
    return str(extensions.make_dsn(dsn, **parts))


class _Notices(List[str]):
    """What psycopg2 appends the server's messages to; hands each on without its severity."""

    def __init__(self, notice: Callable[[str], None]) -> None:
        super().__init__()
        self._notice = notice

    def append(self, message: str) -> None:
        self._notice(_SEVERITY.sub("", message).rstrip())


class _Sink:
    """What psycopg2 writes the output of COPY to."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self.failed = False

    def write(self, data: bytes) -> None:
        self.failed = True
        self._write(data)
        self.failed = False


def _ignore(message: str) -> None:
    pass


def _bound(sql: Fragment, values: Dict[str, Any]) -> Tuple[str, Dict[str, Any]]:
    plain = {name: _plain(value) for name, value in values.items()}
    if _verb(sql) not in _PLANNED:
        return sql, plain

    def typed(match: re.Match[str]) -> str:
        name = match.group(1)
        return match.group(0) if name is None else f"cast(%({name})s as {sql_type(plain[name])})"

    return re.sub(r"%\((\w+)\)s|%%", typed, sql), plain


def _verb(sql: str) -> str:
    found = _VERB.match(sql)
    return found.group(1).lower() if found else ""


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    # By name: this module is used inside backends, where importing NumPy would start BLAS threads.
    return value.item() if type(value).__module__ == "numpy" and not value.shape else value


def _fetch_count(rows: List[Row]) -> int:
    size = sum(_size(value) for value in rows[-1].values())
    return max(1, min(FETCH_ROWS, FETCH_BYTES // max(1, size)))


def _size(value: Any) -> int:
    if isinstance(value, list):
        return 8 + sum(_size(item) for item in value)
    return len(value) if isinstance(value, (bytes, str)) else 8


def _default_dsn(overrides: Dict[str, Any]) -> str:
    if overrides or any(os.environ.get(name) for name in _LIBPQ):
        return ""
    return embedded_dsn() or ""


def _shown(dsn: str, overrides: Dict[str, Any]) -> str:
    parts = {**extensions.parse_dsn(dsn), **overrides}
    shown = " ".join(f"{name}={value}" for name, value in parts.items() if name != "password")
    return repr(shown) if shown else "the default server"


def _remedy(dsn: str) -> str:
    if dsn:
        return "check that this server runs and lets this user in, or give another --dsn"
    return "start the embedded server with 'cerebro-db up', or name a server by --dsn or PGHOST"
