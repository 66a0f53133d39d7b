"""The runner of the experiments: what is measured stays, what fails is named, and the others go on."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Dict, Iterator, List

import pytest
from rich.console import Console

from cerebro_db.errors import RunError
from experiments import machine, runner
from experiments.measured import Bench
from experiments.questions import registry
from experiments.results import Outcome, Row, Sample, read


def sample(number: int) -> Sample:
    return Sample("fashion", "in_rdbms", "", 2, 100 * number, 4, 1, 1, seconds=float(number))


def measured(bench: Bench, asked: Any) -> Iterator[Row]:
    bench.note("packing")
    yield sample(1)
    yield sample(2)


def failing(bench: Bench, asked: Any) -> Iterator[Row]:
    yield sample(1)
    raise RunError("run 7 failed:\n no torch on host b")


def partly(bench: Bench, asked: Any) -> Iterator[Row]:
    def broken() -> Any:
        raise RunError("no Ray here")

    yield from bench.tried("ray_tune", broken)
    yield sample(3)


def interrupted(bench: Bench, asked: Any) -> Iterator[Row]:
    yield sample(1)
    raise KeyboardInterrupt


def wrong(bench: Bench, asked: Any) -> Iterator[Row]:
    yield sample(1)
    raise AssertionError("a mistake of ours")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Dict[str, Any]:
    """Questions by name, empty at first; the machine and the settings are not looked at."""
    found: Dict[str, Any] = {}
    monkeypatch.setattr(registry, "QUESTIONS", found)
    monkeypatch.setattr(registry, "asked", lambda name, size: SimpleNamespace(warm=False))
    monkeypatch.setattr(registry, "words", lambda name: f"What of {name}?")
    monkeypatch.setattr(machine, "describe", lambda dsn: {"cores": 2, "memory_gb": 1, "server": "a server"})
    return found


def run(folder: Path, asked: Dict[str, Any], **questions: Any) -> tuple[int, str]:
    asked.update({name: SimpleNamespace(measure=measure) for name, measure in questions.items()})
    console = Console(file=io.StringIO(), width=200)
    code = runner.run(Bench("host=nowhere"), list(questions), "small", folder, console)
    return code, console.file.getvalue()  # type: ignore[attr-defined]


def outcomes(folder: Path) -> List[tuple[str, str]]:
    return [(each.question, each.outcome) for each in read(folder / runner.OUTCOMES, Outcome)]


def test_rows_are_kept_and_shown(tmp_path: Path, asked: Dict[str, Any]) -> None:
    code, said = run(tmp_path, asked, rows=measured)
    assert code == 0
    assert read(tmp_path / "rows.csv", Sample) == [sample(1), sample(2)]
    assert "rows: What of rows?" in said
    assert "in_rdbms" in said
    assert machine.read(tmp_path)["size"] == "small"


def test_a_question_that_fails_is_named_and_the_others_go_on(tmp_path: Path, asked: Dict[str, Any]) -> None:
    code, said = run(tmp_path, asked, bad=failing, good=measured)
    assert code == 1
    assert outcomes(tmp_path) == [("bad", "failed"), ("good", "measured")]
    assert read(tmp_path / "bad.csv", Sample) == [sample(1)]
    assert "failed: run 7 failed: no torch on host b" in said


def test_a_measurement_that_fails_lets_its_question_go_on(tmp_path: Path, asked: Dict[str, Any]) -> None:
    code, said = run(tmp_path, asked, some=partly)
    assert code == 1
    assert read(tmp_path / "some.csv", Sample) == [sample(3)]
    assert "ray_tune: no Ray here" in said


def test_what_is_measured_before_an_interrupt_stays(tmp_path: Path, asked: Dict[str, Any]) -> None:
    code, _ = run(tmp_path, asked, first=interrupted, second=measured)
    assert code == 130
    assert outcomes(tmp_path) == [("first", "interrupted")]
    assert read(tmp_path / "first.csv", Sample) == [sample(1)]


def test_a_mistake_of_ours_is_not_hidden(tmp_path: Path, asked: Dict[str, Any]) -> None:
    with pytest.raises(AssertionError, match="a mistake of ours"):
        run(tmp_path, asked, odd=wrong)


def test_asking_again_replaces_a_question_and_keeps_the_others(tmp_path: Path, asked: Dict[str, Any]) -> None:
    run(tmp_path, asked, one=failing, two=measured)
    run(tmp_path, asked, one=measured)
    assert sorted(outcomes(tmp_path)) == [("one", "measured"), ("two", "measured")]
    assert len(read(tmp_path / "one.csv", Sample)) == 2
