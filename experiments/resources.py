"""What an approach uses of the machine, measured the same way for all: CPU, memory, disk and network.

    with Meter([os.getpid(), postmaster_pid]) as meter:
        ...
    meter.resources.cpu_seconds

A root's whole tree counts, also what is forked during the measurement. Linux only: it reads /proc; the files of other
users' processes, such as a server's, are readable for root.
"""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Type

PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
#: Between two looks [s].
POLL_SECONDS = 0.2
#: Shares of memory are costly to add up: at so manieth looks, and when resident memory has grown by so much.
SHARES_EVERY, SHARES_GROWTH = 10, 1.01
#: Receiving and sending a byte through the loopback device are one byte.
_LOOPBACK = "lo"


@dataclass(frozen=True)
class Resources:
    """Sums over the processes below the roots, from the beginning of the measurement to its end."""

    #: Wall time [s].
    seconds: float
    #: User and system time [s].
    cpu_seconds: float
    #: Largest sum of resident memory; pages that processes share count in each [bytes].
    peak_rss_bytes: int
    #: The same with a shared page divided among those that share it; looked at every two seconds and at growth [bytes].
    peak_pss_bytes: int
    #: Pages made dirty by writing to files, and what was fetched from storage [bytes].
    written_bytes: int
    read_bytes: int
    #: Through the loopback device, and through all others; of the whole machine, without Unix sockets [bytes].
    loopback_bytes: int
    network_bytes: int


@dataclass(frozen=True)
class Process:
    """A process at one moment. The counters hold those of its children that it has waited for."""

    parent: int
    #: Tells it from a later one of the same number.
    started: int
    own_ticks: int
    reaped_ticks: int
    rss: int
    written: int
    read: int


@dataclass
class Counter:
    """A sum over a tree whose processes end: an ended one's count goes on in its parent, if that waited for it."""

    first: float = 0.0
    last: float = 0.0
    #: Of processes that ended without a parent in the tree that waited.
    lost: float = 0.0

    @property
    def value(self) -> float:
        return self.last + self.lost - self.first


#: What is counted: name -> (whole count of a process, the part of it that grows when it waits for a child).
_COUNTED = ("ticks", "written", "read")


class Tree:
    """Counters of the processes below some roots, look by look."""

    def __init__(self, roots: Sequence[int]) -> None:
        self._roots = tuple(roots)
        self._seen: Dict[int, Process] = {}
        self._counters = {name: Counter() for name in _COUNTED}
        #: Resident memory at the last look, and the most of all looks [bytes].
        self.rss = self.peak_rss = 0
        self.look()
        for counter in self._counters.values():
            counter.first = counter.last

    def look(self) -> Tuple[int, ...]:
        """Take the counters as they are now; gives the processes that are alive."""
        # One that has lost its parent is followed further.
        now = processes([*self._roots, *self._seen], {pid: process.started for pid, process in self._seen.items()})
        for name, counter in self._counters.items():
            counter.last = sum(_whole(process, name) for process in now.values())
            counter.lost += _lost(self._seen, now, name)
        self.rss = sum(process.rss for process in now.values())
        self.peak_rss = max(self.peak_rss, self.rss)
        self._seen = now
        return tuple(now)

    def count(self, name: str) -> float:
        return self._counters[name].value


def _whole(process: Process, name: str) -> int:
    if name == "ticks":
        return process.own_ticks + process.reaped_ticks
    return process.written if name == "written" else process.read


def _grown(before: Optional[Process], now: Process, name: str) -> int:
    """What waiting for children can have added to a process since the last look."""
    if name == "ticks":
        return now.reaped_ticks - (before.reaped_ticks if before else 0)
    return _whole(now, name) - (_whole(before, name) if before else 0)


def _lost(before: Dict[int, Process], now: Dict[int, Process], name: str) -> int:
    """Counts of ended processes that are in no living one."""
    ended: Dict[int, int] = defaultdict(int)
    for pid, process in before.items():
        if not _same(process, now.get(pid)):
            ended[_heir(process, before, now)] += _whole(process, name)
    grown = {heir: _grown(before.get(heir), now[heir], name) if heir in now else 0 for heir in ended}
    return sum(max(0, count - grown[heir]) for heir, count in ended.items())


def _same(before: Process, now: Optional[Process]) -> bool:
    return now is not None and now.started == before.started


def _heir(process: Process, before: Dict[int, Process], now: Dict[int, Process]) -> int:
    """The nearest ancestor that is still there; 0 for none."""
    while process.parent in before:
        above = before[process.parent]
        if _same(above, now.get(process.parent)):
            return process.parent
        process = above
    return 0


def processes(roots: Sequence[int], started: Mapping[int, int] = MappingProxyType({})) -> Dict[int, Process]:
    """The processes below the roots, and those themselves, unless their number has gone to one `started` later."""
    found: Dict[int, Process] = {}
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        if pid in found:
            continue
        # One that ends meanwhile is not there any more.
        with suppress(FileNotFoundError, ProcessLookupError):
            process = _process(pid)
            if pid in roots and started.get(pid, process.started) != process.started:
                continue
            found[pid] = process
            waiting += _children(pid)
    return found


def _children(pid: int) -> List[int]:
    found: List[int] = []
    for thread in os.listdir(PROC / str(pid) / "task"):
        with suppress(FileNotFoundError, ProcessLookupError):
            text = (PROC / str(pid) / "task" / thread / "children").read_text("ascii")
            found += map(int, text.split())
    return found


def _stat(pid: int) -> List[str]:
    """Fields from the third of proc_pid_stat(5); the second, a name, may hold anything."""
    return (PROC / str(pid) / "stat").read_text("utf-8", "replace").rsplit(")", 1)[1].split()


def _process(pid: int) -> Process:
    stat = _stat(pid)
    own, reaped = int(stat[11]) + int(stat[12]), int(stat[13]) + int(stat[14])
    counts = dict(line.split(": ") for line in (PROC / str(pid) / "io").read_text("ascii").splitlines())
    io = {"written": int(counts["write_bytes"]), "read": int(counts["read_bytes"])}
    return Process(int(stat[1]), int(stat[19]), own, reaped, int(stat[21]) * _PAGE, **io)


def shared_out(pids: Sequence[int]) -> int:
    """Memory of processes, a shared page divided among all that share it [bytes]."""
    total = 0
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            for line in (PROC / str(pid) / "smaps_rollup").read_text("ascii").splitlines():
                total += int(line.split()[1]) * 1024 if line.startswith("Pss:") else 0
    return total


def age() -> float:
    """Seconds since this process was started, its interpreter's start included."""
    uptime = float((PROC / "uptime").read_text("ascii").split()[0])
    return uptime - _process(os.getpid()).started / _TICKS


def devices() -> Iterator[Tuple[str, int, int]]:
    """Name, bytes received and bytes sent of each network device since the machine started."""
    for line in (PROC / "net" / "dev").read_text("ascii").splitlines()[2:]:
        name, counts = line.split(":")
        fields = counts.split()
        yield name.strip(), int(fields[0]), int(fields[8])


def network() -> Tuple[int, int]:
    """Bytes through the loopback device, and through all others in both directions."""
    found = list(devices())
    loopback = sum(sent for name, _, sent in found if name == _LOOPBACK)
    return loopback, sum(received + sent for name, received, sent in found if name != _LOOPBACK)


@dataclass
class Meter:
    """Measures what happens inside `with`; a thread looks at the tree meanwhile."""

    roots: Sequence[int] = field(default_factory=lambda: [os.getpid()])
    poll_seconds: float = POLL_SECONDS

    def __enter__(self) -> Meter:
        self._ended = threading.Event()
        self._pss = 0
        self._network = network()
        self._tree = Tree(self.roots)
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._started = time.perf_counter()
        self._thread.start()
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        seconds = time.perf_counter() - self._started
        self._ended.set()
        self._thread.join()
        self._tree.look()
        self.resources = self._summed(seconds)

    def _watch(self) -> None:
        looks, known = 0, 0.0
        while True:
            alive = self._tree.look()
            if looks % SHARES_EVERY == 0 or self._tree.rss > known * SHARES_GROWTH:
                self._pss = max(self._pss, shared_out(alive))
                known = self._tree.rss
            looks += 1
            if self._ended.wait(self.poll_seconds):
                return

    def _summed(self, seconds: float) -> Resources:
        loopback, others = (now - before for now, before in zip(network(), self._network))
        return Resources(
            seconds=seconds,
            cpu_seconds=self._tree.count("ticks") / _TICKS,
            peak_rss_bytes=self._tree.peak_rss,
            peak_pss_bytes=self._pss,
            written_bytes=int(self._tree.count("written")),
            read_bytes=int(self._tree.count("read")),
            loopback_bytes=loopback,
            network_bytes=others,
        )
