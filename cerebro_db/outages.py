"""What a Greenplum says when one of its primaries is not there, as a sentence with the remedy."""

from __future__ import annotations

import re
from typing import Optional

#: How a server says of which segment it speaks: `(seg1 10.0.0.2:6000)`, `from seg1 slice2 10.0.0.2:6000 pid=77`.
SEGMENT = re.compile(r"\bseg(\d+) (?:slice\d+ )?([^\s()]+:\d+)")
#: Why a segment does not answer, in the words of its host or of its own server.
_WHY = re.compile(
    r"Connection refused|No route to host|timeout expired|timed out|Connection reset by peer"
    r"|could not translate host name|the database system is [a-z]+(?: [a-z]+)*|segment is in reset/recovery mode"
)
#: All that is said where the reason is in the log only.
_SILENT = re.compile(r"failed to acquire resources|does not answer")
#: A process there crashed, and took the others of its segment along; or the segment, or its host.
_BROKE = re.compile(r"Error on receive from|broke a connection")
#: What brings a primary back.
REMEDY = "gprecoverseg, or gpstop and gpstart where it has no mirror"


def outage(said: str) -> Optional[str]:
    """The segment that an error names because it does not answer, and the remedy; None for any other error.

    What it gives it also knows again, however it is told on.
    """
    place, why = SEGMENT.search(said), _WHY.search(said)
    if place is None:
        return None
    segment, address = place.groups()
    named, host = f"(seg{segment} {address})", address.rpartition(":")[0]
    if why or _SILENT.search(said):
        reason = f", {why.group()}" if why else ""
        return f"a segment of the cluster does not answer{reason} {named}: start it on {host} ({REMEDY})"
    if _BROKE.search(said):
        return (
            f"a segment of the cluster broke a connection {named}: see its log on {host}, and start it there if it is "
            f"down ({REMEDY})"
        )
    return None
