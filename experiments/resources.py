"""What an approach uses of the machine, measured the same way for all: CPU, memory, disk and network.

    with Meter([os.getpid(), postmaster_pid]) as meter:
        ...
    meter.resources.cpu_seconds
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Resources:
    """Sums over the processes below the roots, from the beginning of the measurement to its end."""

    #: Wall time [s].
    seconds: float
    #: User and system time [s].
    cpu_seconds: float
    #: Largest sum of resident memory; pages that processes share count in each [bytes].
    peak_rss_bytes: int
    #: The same with a shared page divided among those that share it; 0 where it was not sampled [bytes].
    peak_pss_bytes: int
    #: Sent to and fetched from the storage layer, also what later writeback did [bytes].
    written_bytes: int
    read_bytes: int
    #: Through the loopback device and through all others, of the whole machine; sockets of files are not seen [bytes].
    loopback_bytes: int
    network_bytes: int
