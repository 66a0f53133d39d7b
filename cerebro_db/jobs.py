"""Work that is done in this process over one session: all of it or nothing, and Ctrl-C ends it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Callable, TypeVar

from cerebro_db.calls import terminable
from cerebro_db.client import PsycopgDatabase

Result = TypeVar("Result")
#: Called between batches; raises when the job is to end.
Check = Callable[[], None]
Job = Callable[[PsycopgDatabase, Check], Result]

#: Between two requests to cancel a statement that goes on [s].
_CANCEL_SECONDS = 0.2


def run(database: PsycopgDatabase, job: Job[Result]) -> Result:
    """Do a job in one transaction. It has a thread of its own, so that Ctrl-C and SIGTERM are seen, and end it."""
    stopped = threading.Event()

    def check() -> None:
        if stopped.is_set():
            raise KeyboardInterrupt

    def work() -> Result:
        with database.transaction():
            return job(database, check)

    with ThreadPoolExecutor(1) as pool, terminable():
        done = pool.submit(work)
        try:
            return done.result()
        except BaseException:  # its own error; or Ctrl-C and SIGTERM, which end it
            stopped.set()
            while not done.done():
                database.cancel()
                wait([done], _CANCEL_SECONDS)
            raise
