"""Questions by name, in the order in which they are asked and reported."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Dict, Iterator, Type

from experiments.measured import Bench
from experiments.questions import (
    averaging,
    configs,
    end_to_end,
    fusion,
    mixed,
    rows,
    segments,
    state,
)
from experiments.results import Row
from experiments.settings import Asked, load, sentence

QUESTIONS: Dict[str, ModuleType] = {
    "end_to_end": end_to_end,
    "segments": segments,
    "rows": rows,
    "configs": configs,
    "mixed": mixed,
    "state": state,
    "averaging": averaging,
    "fusion": fusion,
}


def settings_of(name: str) -> Path:
    """The TOML file of a question."""
    return Path(__file__).with_name(f"{name}.toml")


def words(name: str) -> str:
    """The question in a sentence."""
    return sentence(settings_of(name))


def asked(name: str, size: str) -> Asked:
    """What a question measures at a size, checked."""
    kind: Type[Asked] = QUESTIONS[name].Settings
    return load(settings_of(name), kind, size)


def answers(name: str, bench: Bench, size: str) -> Iterator[Row]:
    """Measure; a row is given when it is known."""
    found = asked(name, size)
    with bench.sessions(found.warm):
        yield from QUESTIONS[name].measure(bench, found)
