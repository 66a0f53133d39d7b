"""What the commands print about a run, on values."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List

import pytest
from rich.console import Console
from typer.testing import CliRunner

from cerebro_db.cli import app
from cerebro_db.cli.runs import FIT_ARGUMENTS, shown_fit
from cerebro_db.cli.watch import LineDisplay, Snapshot, Told, news, pace, screen
from cerebro_db.report.look import Look
from cerebro_db.report.record import Record
from tests.unit.simulated import simulated


def snapshot(record: Record, **progress: Any) -> Snapshot:
    facts: Dict[str, Any] = {
        "run_id": 7, "name": "demo", "status": "running", "hops_done": 79, "hops_total": 128, "percent": 61.7,
        "rows_per_second": 73468.0, "seconds": 11.2, "seconds_left": 7.0, **progress,
    }  # fmt: skip
    return Snapshot(facts, Look.of(record))


def test_pace_reads_as_a_sentence() -> None:
    shown = snapshot(simulated()).progress
    assert pace(shown) == "79 / 128 hops   73,468 rows/s   11.2 s   about 7.0 s left"
    assert pace({**shown, "seconds_left": None}) == "79 / 128 hops   73,468 rows/s   11.2 s"


def test_screen_ranks_configs_and_marks_the_best() -> None:
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(screen(snapshot(simulated(20, 2, 2))))
    lines = console.export_text().splitlines()
    assert lines[0].split() == ["run", "7", "demo", "running"]
    assert "62 %" in lines[1]
    assert [line.split()[1] for line in lines if line.startswith(">")] == ["#11"]
    assert lines[-1].strip() == "... 4 more"


def test_screen_shows_markup_of_users_as_text() -> None:
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    record = simulated(2, 1, 1)
    odd = tuple(dataclasses.replace(config, model="[red]m[/red]") for config in record.configs)
    console.print(screen(snapshot(dataclasses.replace(record, configs=odd), name="[bold]x[/bold]")))
    text = console.export_text()
    assert "[red]m[/red]" in text
    assert "[bold]x[/bold]" in text


def test_lines_tell_every_epoch_and_every_tenth_once() -> None:
    record = simulated(2, 2, 2)
    first = dataclasses.replace(record, epochs=tuple(epoch for epoch in record.epochs if epoch.epoch == 1))
    lines, told = news(Told(), snapshot(first, percent=50.0))
    assert [line.split(":")[0].strip() for line in lines[:2]] == [
        "epoch 1/2  #1 mlp · batch_size 64", "epoch 1/2  #2 mlp · batch_size 256",
    ]  # fmt: skip
    assert lines[2].startswith(" 50.0 %  79 / 128 hops")
    assert "best #1: validation accuracy 0." in lines[2]
    assert news(told, snapshot(first, percent=59.9)) == ([], told)
    later, _ = news(told, snapshot(record, percent=100.0))
    assert [line.strip()[:9] for line in later] == ["epoch 2/2", "epoch 2/2", "100.0 %  "]


def test_lines_before_the_first_epoch_have_no_best() -> None:
    record = dataclasses.replace(simulated(2, 2, 2), epochs=(), hops=())
    lines, _ = news(Told(), snapshot(record, percent=0.0))
    assert lines == ["  0.0 %  79 / 128 hops   73,468 rows/s   11.2 s   about 7.0 s left"]


def test_line_display_waits_for_the_run() -> None:
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    display = LineDisplay(console)
    display.show(None)
    display.show(snapshot(simulated(1, 1, 1)))
    display.close()
    assert len(console.export_text().splitlines()) == 2


def test_echo_shows_the_call_as_it_is_typed() -> None:
    values: Dict[str, Any] = dict.fromkeys(FIT_ARGUMENTS)
    values.update(source="t", output="o", selection="m", iterations=2, name="Ana's run")
    assert shown_fit(values) == (
        "select * from madlib_mop_fit(\n    source_table := 't'\n  , model_output_table := 'o'\n"
        "  , model_selection_table := 'm'\n  , num_iterations := 2\n  , name := 'Ana''s run');"
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["load", "fasion-mnist"], "unknown data set 'fasion-mnist': did you mean 'fashion-mnist'?"),
        (["fit", "t", "o", "m", "--options", "[1]"], "--options is '[1]', expected a JSON object"),
        (["fit", "t", "o", "m", "--options", "{"], "expected a JSON object"),
        (["report", "1", "--output", "/no/such/folder/x.html"], "folder /no/such/folder does not exist"),
    ],
)
def test_wrong_arguments_end_with_one_line(arguments: List[str], told: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert told in result.stderr
    assert result.stdout == ""
