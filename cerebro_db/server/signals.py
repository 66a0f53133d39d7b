"""Keep the server's signals away from threads that libraries start inside a backend.

A new thread inherits the mask of the thread that makes it, and the kernel may hand a signal sent to
the process (SIGINT, SIGALRM, SIGUSR1) to any thread that does not block it; the server's handlers are
written for the main thread alone. So whatever may start a thread runs with all signals blocked. They
stay pending meanwhile and reach the main thread when it opens its mask again, between batches.
"""

from __future__ import annotations

import importlib
import os
import signal
import time
from contextlib import contextmanager
from typing import Any, Callable, Iterator, List

from cerebro_db.database import Database, Row
from cerebro_db.sqltext import Fragment

#: How long a training backend at most goes without looking for interrupts between batches.
LOOK_SECONDS = 0.1


@contextmanager
def blocked() -> Iterator[None]:
    """Every signal waits until the block ends."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class delivered:  # noqa: N801  used like blocked()
    """Inside `blocked()`: the main thread may be signalled again while it talks to the server.

    No generator: the server of Greenplum can leave Python by a jump, and what it left behind, once collected, would
    block the signals of the session for ever.
    """

    def __enter__(self) -> None:
        self._before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
        except BaseException:  # Greenplum's PL/Python raises KeyboardInterrupt as soon as the signal is there
            self.__exit__()
            raise

    def __exit__(self, *exception: object) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._before)


def look() -> None:
    """Inside `blocked()` on Greenplum: raises KeyboardInterrupt when the server wants the function to end.

    Without a statement of PL/Python, whose beginning and end are sent to all segments and, when a cancel comes just
    then, jump out of Python past every `finally`.
    """
    with delivered():
        pass


class Delivered:
    """A database for code inside `blocked()`: signals are delivered while it talks to the server."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def rows(self, sql: Fragment, **values: Any) -> List[Row]:
        with delivered():
            return self._database.rows(sql, **values)

    def stream(self, sql: Fragment, **values: Any) -> Iterator[Row]:
        rows = self._database.stream(sql, **values)
        while True:
            with delivered():
                row = next(rows, None)
            if row is None:
                return
            yield row

    def notice(self, message: str) -> None:
        with delivered():
            self._database.notice(message)


def load(module: str) -> Any:
    """Import a module that pulls in torch or numpy, both of which start threads."""
    # OpenMP's threads spin while they wait for one another. Where cores are shared, as a server's are, one that
    # is not running then holds up all: a hop took 20 times as long beside one busy process. Read at first import.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    with blocked():
        return importlib.import_module(module)


def interrupt_check(plpy: Any) -> Callable[[], None]:
    """A function to call between batches: raises what the server has pending (57014 for a cancel)."""
    looked = time.monotonic()

    def check() -> None:
        nonlocal looked
        if time.monotonic() - looked < LOOK_SECONDS:
            return
        with delivered():
            plpy.execute("select 1")
        looked = time.monotonic()

    return check
