"""The experiments: their settings, the sums behind their verdicts, and the page that is made from CSV files."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any, List

import numpy as np
import plotly.graph_objects as go
import pytest

from cerebro_db.errors import CerebroError, DataError, MissingError, UsageError
from cerebro_db.report import accounting
from cerebro_db.report import record as runs
from cerebro_db.report.record import Hop, Record, Run
from experiments import codecs, report
from experiments.baselines import base
from experiments.line import fit_line
from experiments.measured import Bench, Grid, of_record
from experiments.questions import registry
from experiments.report import page, readme
from experiments.report.answer import Bar, Results
from experiments.report.comparison import alone, split
from experiments.report.hopping import saved, written
from experiments.report.published import published
from experiments.resources import Resources
from experiments.results import SUFFIXES, Codec, Outcome, Point, Sample, Table, best, read
from experiments.settings import SIZES, load
from experiments.workloads.base import Config, Size, Tables
from tests.unit.drawings import drawn

QUESTIONS = list(registry.QUESTIONS)


def sample(approach: str = "in_rdbms", seconds: float = 10.0, **more: Any) -> Sample:
    given = {"workload": "fashion", "variant": "", "segments": 2, "rows": 1000, "configs": 16, "epochs": 2, "repeat": 1}
    return Sample(**{**given, "approach": approach, "seconds": seconds, "makespan": seconds - 1.0, **more})


# -- settings --------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", QUESTIONS)
def test_settings_are_complete_and_name_what_there_is(name: str, size: str) -> None:
    asked = registry.asked(name, size)
    assert asked.epochs >= 1
    assert asked.repeats >= 1
    assert registry.words(name).endswith("?")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('strategy = "in_rdms"', "in_rdbms"),
        ('workload = "fashoin_flat"', "fashion_flat"),
        ("options = { thread = 1 }", "threads"),
        ("segment = 2", "segments"),
        ("rows = [1.5]", "1.5"),
        ("epochs = true", "True"),
        ("rows = 4", "list"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_name(tmp_path: Path, line: str, said: str) -> None:
    text = registry.settings_of("rows").read_text("utf-8")
    key = line.split(" ")[0]
    kept = [each for each in text.splitlines() if not each.startswith(key + " ")]
    path = tmp_path / "rows.toml"
    path.write_text("\n".join(kept).replace("[small]", f"[small]\n{line}"), "utf-8")
    with pytest.raises(CerebroError, match=said):
        load(path, registry.QUESTIONS["rows"].Settings, "small")


def test_settings_that_are_missing_are_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.toml"
    path.write_text('question = "?"\n[small]\nepochs = 1\n', "utf-8")
    with pytest.raises(UsageError, match=r"rows\.toml says nothing of .*workload.*segments"):
        load(path, registry.QUESTIONS["rows"].Settings, "small")


# -- sums ------------------------------------------------------------------------------------------


def test_a_straight_line_is_found_exactly() -> None:
    line = fit_line([1, 2, 4, 8], [3.5, 5.5, 9.5, 17.5])
    assert (line.slope, line.intercept, line.r2) == pytest.approx((2.0, 1.5, 1.0))
    assert line.at(10) == pytest.approx(21.5)


def test_r2_is_what_the_line_explains() -> None:
    # By hand: means 2 and 2, slope 1/2, left over 1/6 + 4/6 + 1/6 = 1.5, around the mean 2.
    line = fit_line([1, 2, 3], [1, 3, 2])
    assert (line.slope, line.intercept, line.r2) == pytest.approx((0.5, 1.0, 0.25))
    assert fit_line([1, 2], [4, 4]).r2 == 1.0


def test_makespan_lower_bound_and_parts_of_a_run() -> None:
    """Segment 0 works 4 + 4 s, segment 1 works 2 + 2 s; config 1 is the longest with 6 s."""
    run = Run(1, "ana", "t", "in_rdbms", "loss", "finished", 1, started_at=0.0, ended_at=12.0, hops_total=4)
    parts = (3.0, 0.5, 0.25, 0.125, 0.125), (1.0, 0.0, 0.5, 0.25, 0.25)
    hops = (
        Hop(1, 1, 0, 100, 1.0, 5.0, parts[0]), Hop(2, 1, 1, 100, 1.0, 3.0, parts[1]),
        Hop(2, 1, 0, 100, 5.0, 9.0, parts[0]), Hop(1, 1, 1, 100, 5.0, 7.0, parts[1]),
    )  # fmt: skip
    record = Record(run, (runs.Config(1, 1, "mlp"), runs.Config(2, 1, "mlp")), hops)
    found = of_record(record, seconds=14.0)
    assert (found["makespan"], found["bound"]) == (8.0, 8.0)
    assert (found["workers"], found["rows_trained"]) == (2, 400)
    assert (found["train"], found["idle"]) == (8.0, 2 * 8.0 - 12.0)
    assert found["start"] == 0.75 + 2 * (14.0 - 8.0)
    assert sum(found[part] for part in ("train", "validate", "data", "hop", "start", "idle")) == 2 * 14.0
    assert accounting.schedule(record).ratio == 1.0


def test_the_bars_of_a_way_are_as_long_as_its_wall_time() -> None:
    told = sample(seconds=10.0, workers=2, train=12.0, idle=2.0, start=2.0)
    assert split(told) == {
        "train": 6.0, "validate": 0.0, "data": 0.0, "hop": 0.0, "start": 1.0, "idle": 3.0, "not split": 0.0,
    }  # fmt: skip
    assert split(sample("ray_tune", seconds=10.0, start=4.0))["not split"] == 6.0


def test_outputs_are_not_what_hops_write() -> None:
    # 8 hops of 10 MB; 4 configs leave 40 MB, written three times.
    assert written(sample(configs=4, hopped_mb=80.0, hops=8, disk_written_mb=280.0)) == pytest.approx(2.0)


def test_a_codec_pays_when_it_costs_less_than_it_saves() -> None:
    assert saved(Codec("zstd 1", 10.0, 2.0, 1000.0, 1000.0, hop_mb_s=100.0)) == pytest.approx(0.003)
    assert saved(Codec("zstd 1", 10.0, 2.0, 100.0, 1000.0, hop_mb_s=500.0)) == pytest.approx(-0.01)


@pytest.mark.parametrize("count", [0, 3, 4, 4001])
def test_bytes_are_shuffled_by_their_weight_and_come_back(count: int) -> None:
    blob = bytes(number % 251 for number in range(count))
    assert codecs.unshuffled(codecs.shuffled(blob)) == blob
    assert codecs.shuffled(b"abcdABCDx") == b"aAbBcCdDx"


def test_a_codec_is_measured_on_floats() -> None:
    blob = np.linspace(0, 1, 5000, dtype=np.float32).tobytes()
    found = codecs.measure("zlib 1", blob)
    assert found.ratio > 1.2
    assert found.in_mb_s > 0
    assert found.out_mb_s > 0


def test_a_baseline_becomes_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes: 3 s of start, 10 s of training, of which one waits for 1 s."""
    jobs: List[base.Job] = []
    used = Resources(10.0, 18.0, 3_000_000, 2_000_000, 5_000_000, 0, 1_000_000, 0)
    epochs = ((base.Epoch(0.5, 1.0, 1.0), base.Epoch(0.75, 0.5, 2.0)), (base.Epoch(0.25, float("nan"), 2.0),))
    parts = {"train": 15.0, "validate": 3.0, "merge": 1.0, "start": 6.0, "idle": 1.0}

    def answer(name: str, job: base.Job) -> base.Result:
        jobs.append(base.Job.from_json(job.to_json()))
        return base.Result(name, 10.0, 3.0, epochs, 4000, used, parts)

    monkeypatch.setattr(base, "run", answer)
    configs = (Config("{}", 0.1, 0.0, 32), Config("{}", 0.2, 0.0, 32))
    grid = Grid("flights", Size(1000, 100, 2), 990, configs, 2, Tables("t", "v", "s"))
    found, _ = Bench("host=nowhere").baseline(grid, "ray_tune", 2, {"reuse_actors": True})
    assert (jobs[0].configs, jobs[0].options, jobs[0].processes) == (configs, {"reuse_actors": True}, 2)
    assert (found.name, found.seconds, found.makespan) == ("ray_tune, reuse_actors", 13.0, 10.0)
    assert (found.train, found.validate, found.hop, found.start, found.idle) == (15.0, 3.0, 1.0, 6.0, 1.0)
    assert (found.accuracy, found.accuracy_mean, found.loss) == (0.75, 0.5, 0.5)
    assert (found.rows, found.rows_trained, found.memory_mb, found.disk_written_mb) == (990, 4000, 2.0, 5.0)
    assert sum(split(found).values()) == pytest.approx(13.0)


def test_a_baseline_with_two_settings_competes_with_the_faster_one() -> None:
    rays = [sample("ray_tune", 20.0), sample("ray_tune", 15.0, variant="reuse_actors")]
    assert alone(rays, "ray_tune") == 14.0
    assert alone(rays, "ddp") is None


# -- files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "row",
    [
        sample(accuracy=0.9, memory_mb=None, hops=4), Point("fashion", "averaging", 3, 2, 0.5, None),
        Codec("zlib 1", 1.5, 1.25, 20.0, 80.0, 100.0), Outcome("rows", "small", "failed", 1.5, "a, b", "now", ""),
    ],
)  # fmt: skip
def test_a_row_comes_back_from_its_file(tmp_path: Path, row: Any) -> None:
    path = tmp_path / "new" / "rows.csv"
    table = Table(path, type(row))
    assert read(path, type(row)) == []
    table.add(row)
    table.add(row)
    assert read(path, type(row)) == [row, row]


def test_a_file_of_another_shape_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n1,2\n", "utf-8")
    with pytest.raises(DataError, match=r"rows\.csv has columns \['a', 'b'\]"):
        read(path, Sample)
    Table(path, Point)
    with path.open("a", encoding="utf-8") as file:
        file.write("fashion,averaging,one,1,,\n")
    with pytest.raises(DataError, match="one"):
        read(path, Point)


def test_the_fastest_repeat_counts() -> None:
    found = best([sample(seconds=3.0), sample("hybrid", 5.0), sample(seconds=2.0, repeat=2)])
    assert [(each.approach, each.seconds) for each in found] == [("in_rdbms", 2.0), ("hybrid", 5.0)]
    cold, warm = sample(seconds=9.0, makespan=1.0), sample(seconds=4.0, makespan=2.0, repeat=2)
    assert best([cold, warm]) == [warm]
    assert best([cold, warm], of_training=True) == [cold]


# -- the page --------------------------------------------------------------------------------------


def put(folder: Path, question: str, *rows: Any) -> None:
    for kind in {type(row): None for row in rows}:
        table = Table(folder / f"{question}{SUFFIXES[kind]}.csv", kind)
        for row in rows:
            if isinstance(row, kind):
                table.add(row)


def fill(folder: Path, good: bool) -> None:
    """Results that meet every bar, or miss every one."""
    ray, processes = (100.0, 80.0) if good else (10.0, 9.0)
    put(
        folder, "end_to_end", sample(seconds=12.0), sample("streaming", 3.0),
        sample("processes", 14.0 if good else 10.0, makespan=12.0 if good else 9.0),
        sample("ray_tune", 16.0, makespan=14.0 if good else 9.0),
        sample(seconds=20.0, workload="flights", accuracy=0.9),
        sample("processes", processes, workload="flights", accuracy=0.902 if good else 0.91),
        sample("ray_tune", ray, workload="flights", accuracy=0.899),
    )  # fmt: skip
    seconds = (1.1, 2.1, 4.1, 8.1) if good else (1.0, 4.0, 3.0, 9.0)
    memory = (500.0, 501.0, 502.0, 503.0) if good else (500.0, 700.0, 900.0, 1000.0)
    for name in ("rows", "configs"):
        sizes = [{name: 4 * times, "makespan": s, "memory_mb": m} for times, s, m in zip((1, 2, 4, 8), seconds, memory)]
        put(folder, name, *(sample(**size) for size in sizes))
    ratio = 1.01 if good else 1.2
    put(
        folder, "mixed",
        *(sample(variant=f"{grid}, {order}", configs=count, makespan=8.0 * times, bound=8.0)
          for grid in ("uniform", "mixed") for count in (2, 4, 8)
          for order, times in (("round", 2.0), ("portfolio", ratio))),
    )  # fmt: skip
    size = {"configs": 4, "hopped_mb": 160.0, "hops": 16, "hop": 2.0}
    put(
        folder, "state", sample(variant="10 MB", disk_written_mb=400.0 if good else 900.0, **size),
        Codec("zlib 1", 10.0, 1.1, 30.0, 100.0, 80.0),
    )  # fmt: skip
    curves = {"in_rdbms": 0.9, "averaging": 0.8 if good else 0.95}
    put(folder, "averaging", *(Point("fashion_flat", name, config, epoch, top - 0.01 * config, 1 - top)
                               for name, top in curves.items() for config in (1, 2) for epoch in (1, 2)))  # fmt: skip
    put(folder, "segments", *(sample(segments=count, seconds=1 + 8.0 / count) for count in (1, 2, 4, 8)))
    nets = {"configs": 8, "workload": "flights"}
    fused, single = sample(variant="tabular 64, batch 32", train=1.0, **nets), "tabular 64, batch 32; fuse off"
    put(folder, "fusion", fused, sample(variant=single, train=5.0, **nets))


def bars(folder: Path) -> List[Bar]:
    return [bar for make in page.ANSWERS.values() for bar in make(Results(folder)).bars]


@pytest.mark.parametrize("good", [True, False])
def test_every_verdict_is_met_or_missed(tmp_path: Path, good: bool) -> None:
    fill(tmp_path, good)
    found = bars(tmp_path)
    assert len(found) == 12
    assert {bar.what: bar.met for bar in found} == {bar.what: good for bar in found}
    html = report.render(tmp_path)
    assert html.count(">met</span>") == (12 if good else 0)
    assert html.count(">missed</span>") == (0 if good else 12)


def test_verdicts_are_the_quotients_of_what_was_measured(tmp_path: Path) -> None:
    fill(tmp_path, good=True)
    found = {bar.what: bar.value for bar in bars(tmp_path)}
    values = list(found.values())
    assert values[:4] == pytest.approx([12 / 12, 12 / 14, 100 / 20 - 0.05, 80 / 20 - 0.05])
    assert values[4] == pytest.approx(0.002)
    assert found["memory over rows: most over least"] == pytest.approx(1.006)
    assert found["bytes written to disk per byte hopped"] == pytest.approx((400 - 120) / 160)
    assert values[-1] == pytest.approx(0.1)


def test_a_page_without_measurements_says_so(tmp_path: Path) -> None:
    html = report.render(tmp_path)
    assert html.count("Not measured yet.") == len(QUESTIONS)
    assert html.count(">not measured</span>") == 12
    assert ">met</span>" not in html


def test_a_question_that_failed_is_named(tmp_path: Path) -> None:
    Table(tmp_path / "outcomes.csv", Outcome).add(Outcome("rows", "small", "failed", 1.0, "disk <full>", "now", "abc"))
    assert "failed: disk &lt;full&gt;" in report.render(tmp_path)


def test_every_plot_is_one_that_plotly_knows_and_has_its_place(tmp_path: Path) -> None:
    fill(tmp_path, good=True)
    html = report.write(tmp_path).read_text("utf-8")
    plots = drawn(html)
    assert set(plots) == set(re.findall(r'<div class="figure" id="(\w+)"', html))
    assert {name.split("_")[0] for name in plots} == {name.split("_")[0] for name in QUESTIONS}
    for plot in plots.values():
        go.Figure(plot)  # refuses properties that Plotly does not know


def test_published_figures_stand_beside_ours(tmp_path: Path) -> None:
    fill(tmp_path, good=True)
    figures = published()
    assert set(figures) == set(QUESTIONS)
    for question, entries in figures.items():
        ours = page.ANSWERS[question](Results(tmp_path)).ours
        assert {entry.key for entry in entries} == set(ours)
        assert all(entry.source and entry.machine for entry in entries)


def test_a_bar_is_met_on_its_bound_but_for_above() -> None:
    bar = Bar("x", 1.0, 1.0, "at most")
    assert bar.met
    assert dataclasses.replace(bar, sense="at least").met
    assert not dataclasses.replace(bar, sense="above").met
    assert dataclasses.replace(bar, value=None).met is None


def test_the_numbers_of_the_readme_are_those_of_the_files():
    text = readme.README.read_text("utf-8")
    assert readme.rewritten(text, readme.RESULTS) == text
    with pytest.raises(MissingError, match="0 rows that begin with 'memory of all processes, MB'"):
        readme.rewritten(text.replace("| memory of all processes, MB |", "| memory |"), readme.RESULTS)
