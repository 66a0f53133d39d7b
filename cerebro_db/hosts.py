"""The hosts of a cluster: what the segments' processes find on each of them, and where they differ.

PostgreSQL has one host, of which nothing is asked here.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, replace
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

from cerebro_db import inventory
from cerebro_db.database import Database, one
from cerebro_db.engines import dialect
from cerebro_db.errors import SetupError
from cerebro_db.inventory import Item
from cerebro_db.outages import REMEDY, SEGMENT
from cerebro_db.sqltext import query

#: What must be the same on all hosts, and how much of its value.
_SAME = {
    "interpreter": re.compile(r"\d+\.\d+"),
    **{name: re.compile(r"\S+") for name in ("cerebro_db", "torch", "numpy", "safetensors")},
}
#: What takes as much place in an item as everything else together.
_LISTED_SEGMENTS = 8


@dataclass(frozen=True)
class Segment:
    """A primary as the cluster has it configured."""

    segment: int
    host: str
    port: int
    folder: str
    up: bool

    @property
    def down(self) -> Item:
        """What to say when it does not answer."""
        return Item(
            f"{self.host}: segment {self.segment}", "down", False,
            f"start it on {self.host} (port {self.port}, {self.folder}): {REMEDY}; then resume what was running",
        )  # fmt: skip


@dataclass(frozen=True)
class Facts:
    """What one segment's process found on its host."""

    segment: int
    host: str
    items: Tuple[Item, ...]

    def version(self, name: str) -> Optional[str]:
        """As much of an item's value as must be the same everywhere; None when it is missing."""
        found = next((item for item in self.items if item.item == name and item.ok), None)
        match = _SAME[name].match(found.value) if found else None
        return match.group() if match else None


def facts_here() -> str:
    """What this process finds, as JSON."""
    found = [
        *inventory.machine(), *inventory.disk(), *inventory.graphics(), inventory.package(),
        *inventory.python(inventory.TRAINING), inventory.libpython(),
    ]  # fmt: skip
    return json.dumps([asdict(item) for item in found])


def check(database: Database, failures: Tuple[Any, ...]) -> Iterator[Item]:
    """Every host's items, and those that differ; segments that do not answer are items too."""
    cluster = segments(database)
    yield from (segment.down for segment in cluster if not segment.up)
    if all(segment.up for segment in cluster):
        try:
            yield from by_host(facts_on(database, cluster), coordinator(database))
        except failures as error:
            yield silent(cluster, str(error))


def require_alike(database: Database, what: str) -> None:
    """SetupError for the first host on which `what` could not train as on the coordinator's."""
    cluster = segments(database)
    if cluster:
        require(facts_on(database, cluster), coordinator(database), what)


def segments(database: Database) -> List[Segment]:
    """The primaries in order; none on PostgreSQL."""
    return [Segment(**row) for row in database.rows(dialect(database, "primaries"))]


def coordinator(database: Database) -> Facts:
    found = parsed(one(database, query("check", "facts_here"))["facts"])
    return Facts(-1, next(item.value for item in found if item.item == "host"), found)


def facts_on(database: Database, cluster: Sequence[Segment]) -> List[Facts]:
    """What every segment's process finds, by one statement."""
    hosts = {segment.segment: segment.host for segment in cluster}
    rows = database.rows(dialect(database, "facts_on_segments"))
    return [Facts(row["segment"], hosts[row["segment"]], parsed(row["facts"])) for row in rows]


# -- pure ------------------------------------------------------------------------------------------


def parsed(text: str) -> Tuple[Item, ...]:
    """The items of `facts_here`; what is no JSON says why the package could not be imported."""
    if not text.startswith("["):
        remedy = "install cerebro_db there, and name its folder by plpython3.python_path"
        return (Item("host", "unknown"), Item("cerebro_db", text, False, remedy))
    return tuple(Item(**item) for item in json.loads(text))


def silent(cluster: Sequence[Segment], error: str) -> Item:
    """What a statement that should have asked all segments failed with, by the segment that it names."""
    found = SEGMENT.search(error)
    by_number = {str(segment.segment): segment for segment in cluster}
    segment = by_number.get(found.group(1)) if found else None
    if segment is None:
        return Item("segments", "do not answer", False, error)
    return replace(segment.down, value=f"does not answer: {' '.join(error.split())}")


def by_host(found: Iterable[Facts], ours: Facts) -> List[Item]:
    """The items of every host once, with what is missing there or differs from the coordinator's."""
    items = []
    for label, facts in _places(found):
        items += [replace(_judged(item, facts, ours), item=f"{label}: {item.item}") for item in facts.items]
    return items


def require(found: Iterable[Facts], ours: Facts, what: str) -> None:
    """SetupError that names the first host where a package is missing or has another version than the coordinator's."""
    for label, facts in _places(found):
        for item in facts.items:
            judged = _judged(item, facts, ours)
            if item.item in _SAME and not judged.ok:
                state = "missing" if facts.version(item.item) is None else judged.value
                raise SetupError(f"{item.item} is {state} on {label}, where {what} trains: {judged.remedy}")


def _judged(item: Item, facts: Facts, ours: Facts) -> Item:
    """The item, not ok when it must be the coordinator's and is not."""
    if not item.ok or item.item not in _SAME:
        return replace(item, remedy=f"on {facts.host}: {item.remedy}") if item.remedy else item
    theirs, expected = facts.version(item.item), ours.version(item.item)
    if theirs == expected or expected is None:
        return item
    remedy = f"the coordinator {ours.host} has {expected}; have the same version on every host"
    return replace(item, value=f"{theirs} instead of {expected}: {item.value}", ok=False, remedy=remedy)


def _places(found: Iterable[Facts]) -> List[Tuple[str, Facts]]:
    """Every host once; several times, with its segments, when they do not find the same on it."""
    groups: Dict[Tuple[str, Tuple[Optional[str], ...]], List[Facts]] = {}
    for facts in sorted(found, key=lambda facts: facts.segment):
        groups.setdefault((facts.host, tuple(facts.version(name) for name in _SAME)), []).append(facts)
    hosts = [host for host, _ in groups]
    return [
        (host if hosts.count(host) == 1 else f"{host} ({_listed(group)})", group[0])
        for (host, _), group in groups.items()
    ]


def _listed(group: Sequence[Facts]) -> str:
    numbers = [str(facts.segment) for facts in group[:_LISTED_SEGMENTS]]
    more = ["..."] if len(group) > _LISTED_SEGMENTS else []
    return f"segment{'s' * (len(group) > 1)} {', '.join(numbers + more)}"
