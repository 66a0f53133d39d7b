"""What a question measures at each size: its TOML file, read into the dataclass of its script.

question = "Does the time grow in a straight line with the rows?"
[all]                       # of every size
workload = "fashion_flat"
[small]                     # a table per size, which wins over [all]
rows = [1000, 2000]
"""

from __future__ import annotations

import sys
import typing
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Type, TypeVar

from cerebro_db.errors import UsageError, unknown
from cerebro_db.hopper import ORDERS
from cerebro_db.options import FUSE, STRATEGIES, Options
from experiments.baselines.base import BASELINES
from experiments.workloads.registry import WORKLOADS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: "tiny" shows that everything runs, "small" ends within 20 minutes on 2 cores, "paper" has all rows.
SIZES = ("tiny", "small", "medium", "paper")
#: What fields of these names may hold.
KNOWN: Dict[str, Sequence[str]] = {
    "workload": tuple(WORKLOADS),
    "workloads": tuple(WORKLOADS),
    "strategy": STRATEGIES,
    "strategies": STRATEGIES,
    "orders": ORDERS,
    "baselines": BASELINES,
    "contenders": BASELINES,
    "fuse": FUSE,
    "compare_fused": STRATEGIES,
    "compare_warm": STRATEGIES,
    "options": tuple(item.name for item in fields(Options)),
}


@dataclass(frozen=True)
class Asked:
    """What every question is asked; its script's dataclass adds fields of its own."""

    #: Passes over the rows.
    epochs: int
    #: Each measurement is taken so often; the report shows the fastest.
    repeats: int
    #: Rows that are validated on after each epoch.
    validation_rows: int
    #: Whether calls share a session, so that what one has trained in is there for the next; else all begin cold.
    warm: bool
    #: Of every run; see cerebro_db.options.
    options: Dict[str, Any]


Kind = TypeVar("Kind", bound=Asked)


def toml(path: Path) -> Dict[str, Any]:
    with path.open("rb") as file:
        return dict(tomllib.load(file))


def sentence(path: Path) -> str:
    """The question, in words."""
    return str(toml(path)["question"])


def load(path: Path, kind: Type[Kind], size: str) -> Kind:
    """What a question measures at a size. Raises UsageError for a value that it cannot have."""
    if size not in SIZES:
        raise unknown("size", size, SIZES)
    found = toml(path)
    values = {**found.get("all", {}), **found.get(size, {})}
    hints = typing.get_type_hints(kind)
    _same_names(path, values, hints)
    for name, value in values.items():
        _check(f"{path.name}: {name}", value, hints[name])
        _check_known(path, name, value)
    return kind(**values)


def _same_names(path: Path, values: Mapping[str, Any], hints: Mapping[str, Any]) -> None:
    for name in values:
        if name not in hints:
            raise unknown(f"setting of {path.name}", name, hints)
    missing = [name for name in hints if name not in values]
    if missing:
        raise UsageError(f"{path.name} says nothing of {', '.join(missing)}; give each in [all] or in every size")


def _check(what: str, value: Any, hint: Any) -> None:
    """A value, and the items of a list, are of the hinted type."""
    kind = typing.get_origin(hint) or hint
    right = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
    if not right:
        raise UsageError(f"{what} is {value!r}, expected {kind.__name__}")
    if kind is list:
        for item in value:
            _check(what, item, typing.get_args(hint)[0])


def _check_known(path: Path, name: str, value: Any) -> None:
    known: Optional[Sequence[str]] = KNOWN.get(name)
    items: List[str] = list(value) if isinstance(value, (list, dict)) else [value]
    for item in items if known else []:
        if item not in (known or ()):
            raise unknown(f"{name} of {path.name}", item, known or ())
