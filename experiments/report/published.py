"""Published figures, from published.toml."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List

from experiments.settings import toml


@dataclass(frozen=True)
class Published:
    #: Names the number of ours that stands beside it.
    key: str
    what: str
    published: str
    source: str
    machine: str


def published() -> Dict[str, List[Published]]:
    """By question, in the order of the file."""
    found = toml(Path(__file__).with_name("published.toml"))
    return {question: [Published(**entry) for entry in entries] for question, entries in found.items()}
