"""A fit or resume as a client calls it: in the server where the strategy is the server's, else in this very process."""

from __future__ import annotations

import signal
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from types import FrameType
from typing import Any, Callable, Iterator, Mapping, Optional, Protocol

import psycopg2

from cerebro_db import catalog, runs
from cerebro_db.client import PsycopgDatabase
from cerebro_db.client_sessions import ClientSessions, Stop, StoppableDatabase
from cerebro_db.database import Row, one
from cerebro_db.errors import SQL_ERRORS, CerebroError, SetupError
from cerebro_db.planning import FitRequest
from cerebro_db.sessions import as_ours
from cerebro_db.sqltext import Fragment, query
from cerebro_db.strategies import registry

#: The strategy whose coordinator is a backend.
IN_BACKEND = "in_rdbms"
#: How often a call that is to end is asked again [s].
ASK_SECONDS = 0.2
#: How long a cancelled call may take to come back [s].
CANCEL_SECONDS = 15.0
#: How often a coordinator uses the caller's session, which firewalls and servers end when it is idle for long [s].
USE_SECONDS = 30.0


class Call(Protocol):
    """A call on its way in a thread of its own; meanwhile nobody else may use its session."""

    #: Process of its session, by which its run is found.
    pid: int

    def ended(self, seconds: float) -> bool:
        """Whether it ended within this time."""

    def cancel(self) -> None:
        """Ask it to end, and wait until it has, for at most CANCEL_SECONDS."""

    def result(self) -> Row:
        """Its row, once it ended; raises CerebroError of the class that fits."""


def fit(database: PsycopgDatabase, request: FitRequest) -> Call:
    """Begin a fit by the strategy of the request, else of the setting cerebro.strategy.

    Raises UsageError for options that are wrong and SetupError for what the server lacks.
    """
    require_installed(database)
    strategy = request.parsed_options(database).strategy
    registry.require(database, strategy)
    if strategy == IN_BACKEND:
        return Statement(database, query("calls", "fit"), asdict(replace(request, strategy=strategy)))
    return Coordinated(database, partial(runs.fit, request=request))


def resume(database: PsycopgDatabase, run_id: int) -> Call:
    """Begin to finish a run by the strategy that it began with."""
    require_installed(database)
    strategy = catalog.run_row(database, run_id)["strategy"]
    registry.require(database, strategy)
    if strategy == IN_BACKEND:
        return Statement(database, query("calls", "resume"), {"run_id": run_id})
    return Coordinated(database, partial(runs.resume, run_id=run_id))


def require_installed(database: PsycopgDatabase) -> None:
    """SetupError for a database without cerebro."""
    facts = one(database, query("calls", "installed"))
    if not facts["installed"]:
        remedy = "install it with 'cerebro-db install'"
        raise SetupError(f"cerebro-db is not installed in database {facts['database']!r}; {remedy}")


class _InThread:
    """A call whose work runs in a thread of its own."""

    def __init__(self, database: PsycopgDatabase, work: Callable[[], Row]) -> None:
        self.pid = database.connection.info.backend_pid
        self._row = _begun(work)

    def ended(self, seconds: float) -> bool:
        return bool(wait([self._row], seconds).done)

    def result(self) -> Row:
        with own_errors():
            return self._row.result()


class Statement(_InThread):
    """One statement, whose server coordinates."""

    def __init__(self, database: PsycopgDatabase, sql: Fragment, values: Mapping[str, Any]) -> None:
        self._database = database
        super().__init__(database, lambda: one(database, sql, **values))

    def cancel(self) -> None:
        self._database.cancel()
        self.ended(CANCEL_SECONDS)


class Coordinated(_InThread):
    """A coordinator in this process."""

    def __init__(self, database: PsycopgDatabase, work: Callable[[runs.Host], Row]) -> None:
        self._stop = stop = Stop()
        self._own = own = StoppableDatabase(database, stop)
        self._due = time.monotonic() + USE_SECONDS
        host = runs.Host(own, self._check, partial(ClientSessions, own, stop), _as_it_is, in_backend=False)
        super().__init__(database, lambda: work(host))

    def _check(self) -> None:
        """From the coordinator, some times a second."""
        self._stop.check()
        if time.monotonic() >= self._due:
            self._own.rows(query("sessions", "alive"))
            self._due = time.monotonic() + USE_SECONDS

    def cancel(self) -> None:
        for _ in range(round(CANCEL_SECONDS / ASK_SECONDS)):
            self._stop.ask()
            if self.ended(ASK_SECONDS):
                break


def waited(call: Call) -> Row:
    """The row of a call; whatever ends the waiting, such as Ctrl-C and SIGTERM, cancels it and is raised then."""
    with terminable():
        try:
            while not call.ended(ASK_SECONDS):
                pass
        except BaseException:
            call.cancel()
            raise
    return call.result()


@contextmanager
def terminable() -> Iterator[None]:
    """Inside, SIGTERM raises SystemExit where it would end the process at once, so that a call can be cancelled."""
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def own_errors() -> Iterator[None]:
    """What the server raised comes out as the class that it had there."""
    try:
        yield
    except psycopg2.Error as error:
        raise ours(error) from error


def ours(error: psycopg2.Error) -> CerebroError:
    """An error of the server as the class that it had there; RunError with its SQLSTATE where it is none of ours."""
    told = error.diag.message_primary or ""
    if not told.startswith("cerebro: "):
        return as_ours(error)
    return SQL_ERRORS.get(error.pgcode or "", CerebroError)(told[len("cerebro: ") :])


def _exit(number: int, frame: Optional[FrameType]) -> None:
    raise SystemExit(128 + number)  # as shells count


@contextmanager
def _as_it_is(check: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """The statements of a client's sessions give way by themselves."""
    yield check


def _begun(work: Callable[[], Row]) -> Future[Row]:
    """A future of work that begins now, in a thread of its own."""
    pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="cerebro")
    future = pool.submit(work)
    pool.shutdown(wait=False)
    return future
