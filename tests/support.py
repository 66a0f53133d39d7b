"""What several tests need that is no fixture."""

from __future__ import annotations

import threading
import time
from typing import Callable


def wait_until(condition: Callable[[], bool], seconds: float, what: str, every: float = 0.05) -> None:
    """Return as soon as `condition()` holds; fail with `what` when `seconds` are over."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds} s in vain until {what}")
        pause.wait(every)
