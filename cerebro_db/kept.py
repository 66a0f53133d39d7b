"""What a call leaves for its caller's next one: idle training sessions and worker processes.

Kept in the memory of the caller's process, which alone holds their sockets and pipes: the kernel closes those when
the process ends, and what is kept ends with them. It also ends by itself when it was idle for long enough,
whatever the caller does then: a session by a setting of its server, a worker by a timeout on its stdin.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Callable, Generic, Hashable, List, Optional, Protocol, Tuple, TypeVar


class Keepable(Protocol):
    """Something that takes long to start."""

    def awake(self) -> bool:
        """Take it out of its rest; False when it has ended, or does not answer."""

    def close(self) -> None:
        """End it; when it has ended already, tidy up."""


Item = TypeVar("Item", bound=Keepable)


class Shelf(Generic[Item]):
    """Keeps things by owner: whoever asks with an equal owner gets them, nobody else. May be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pid = os.getpid()
        #: Owner, what is kept, and when it will have ended by itself, by time.monotonic().
        self._kept: List[Tuple[Hashable, Item, float]] = []

    @property
    def count(self) -> int:
        """How much is kept."""
        return len(self._kept)

    def put(self, owner: Hashable, item: Item, seconds: float) -> None:
        with self._lock:
            self._kept.append((owner, item, time.monotonic() + seconds))

    def take(self, owner: Hashable) -> Optional[Item]:
        """One that works, no longer kept here."""
        self._tidy()
        while True:
            item = self._popped(owner)
            if item is None or item.awake():
                return item
            item.close()

    def drop(self, owner: Hashable) -> None:
        """End all that this owner has."""
        for item in self._removed(lambda kept: kept[0] == owner):
            item.close()

    def drop_others(self, owner: Hashable) -> None:
        """End all that others have."""
        for item in self._removed(lambda kept: kept[0] != owner):
            item.close()

    def of(self, owner: Hashable) -> List[Item]:
        """What is kept for this owner."""
        self._tidy()
        with self._lock:
            return [item for kept, item, _ in self._kept if kept == owner]

    def remove(self, item: Item) -> None:
        """End one of them, if it is still here."""
        for found in self._removed(lambda kept: kept[1] is item):
            found.close()

    def _popped(self, owner: Hashable) -> Optional[Item]:
        with self._lock:
            for place, (kept, item, _) in enumerate(self._kept):
                if kept == owner:
                    del self._kept[place]
                    return item
        return None

    def _tidy(self) -> None:
        """Forget what a parent process keeps, which is not ours to use or to end; close what has ended by now."""
        if self._pid != os.getpid():
            self._pid, self._lock, self._kept = os.getpid(), threading.Lock(), []
        now = time.monotonic()
        for item in self._removed(lambda kept: kept[2] < now):
            item.close()

    def _removed(self, chosen: Callable[[Tuple[Hashable, Item, float]], bool]) -> List[Item]:
        with self._lock:
            removed = [kept for kept in self._kept if chosen(kept)]
            self._kept = [kept for kept in self._kept if not chosen(kept)]
        return [item for _, item, _ in removed]
