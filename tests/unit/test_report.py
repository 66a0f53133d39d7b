"""The report: numbers on values, and a page that stands whatever a run looks like."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from html.parser import HTMLParser
from typing import Any, List

import plotly.graph_objects as go
import pytest

from cerebro_db.report import accounting, figures, words
from cerebro_db.report.look import NO_RESULT, Look
from cerebro_db.report.page import render
from cerebro_db.report.record import Config, Epoch, Hop, Record, Run
from tests.unit.drawings import drawn
from tests.unit.simulated import simulated

RUN = Run(
    run_id=1, owner="ana", source_table="t", strategy="in_rdbms", ranking="metric_higher", status="finished",
    num_iterations=1, started_at=100.0, ended_at=120.0, hops_total=4, validation_table="v",
)  # fmt: skip
TWO = (Config(1, 1, "mlp", {"lr": "0.1"}), Config(2, 1, "mlp", {"lr": "0.01"}))


def hop(config: int, segment: int, started: float, finished: float, *parts: float, pid: int = 1) -> Hop:
    return Hop(config, 1, segment, 100, started, finished, parts or (finished - started, 0, 0, 0, 0), pid)


#: Segment 0 works 10 + 4 s of 20, segment 1 works 4 + 6 s.
HOPS = (
    hop(1, 0, 1, 11, 6.0, 1.0, 1.5, 0.5, 1.0), hop(2, 1, 1, 5, 3.0, 0.0, 0.5, 0.25, 0.25),
    hop(2, 0, 11, 15), hop(1, 1, 11, 17),
)  # fmt: skip


def test_time_of_a_segment_adds_up_to_the_wall_time() -> None:
    shares = accounting.time_of_segments(Record(RUN, TWO, HOPS))
    assert [share.key for share in shares] == [0, 1]
    assert shares[0].seconds == {
        "train": 10.0, "validate": 1.0, "data": 1.5, "hop": 0.5, "start": 1.0, "idle": 6.0,
    }  # fmt: skip
    assert shares[1].seconds["idle"] == 10.0
    assert [share.total for share in shares] == [20.0, 20.0]


def test_idle_share_counts_segments_that_did_nothing() -> None:
    record = Record(RUN, TWO, HOPS)
    assert accounting.idle_share(record) == pytest.approx(1 - 24 / 40)
    assert accounting.idle_share(dataclasses.replace(record, hops=HOPS[:1])) == pytest.approx(1 - 10 / 40)
    assert accounting.idle_share(dataclasses.replace(record, hops=())) is None


def test_configs_that_hop_as_one_keep_their_segment_busy_once() -> None:
    record = Record(RUN, TWO, (hop(1, 0, 1, 5), hop(2, 0, 1, 5), hop(1, 1, 5, 8), hop(2, 1, 5, 8)))
    found = accounting.schedule(record)
    assert (found.makespan, found.busiest_segment, found.longest_config) == (7.0, 4.0, 7.0)


def test_hops_of_a_group_know_each_other() -> None:
    """In any order, and a little apart, as they are recorded one after the other."""
    hops = (hop(2, 0, 1.01, 5.01), hop(1, 1, 5, 8), hop(1, 0, 1, 5), hop(1, 0, 5.02, 6), hop(3, 1, 8.0, 9))
    assert accounting.company(Record(RUN, TWO, hops)) == [(1, 2), (0, 1), (0, 2), (0, 1), (0, 1)]


def test_idle_is_never_negative() -> None:
    (share,) = accounting.time_of_segments(Record(RUN, TWO, (hop(1, 0, 0, 25),)))
    assert share.seconds["idle"] == 0.0


def test_time_of_configs_is_longest_first() -> None:
    shares = accounting.time_of_configs(Record(RUN, TWO, HOPS))
    assert [(share.key, share.total) for share in shares] == [(1, 16.0), (2, 8.0)]


def test_schedule_is_compared_with_the_busiest_segment_and_the_longest_config() -> None:
    found = accounting.schedule(Record(RUN, TWO, HOPS))
    assert (found.makespan, found.busiest_segment, found.longest_config) == (16.0, 14.0, 16.0)
    assert found.lower_bound == 16.0
    assert found.ratio == 1.0
    assert accounting.schedule(Record(RUN, TWO)).ratio is None


@pytest.mark.parametrize(
    ("ranking", "order"), [("metric_higher", [1, 2]), ("metric_lower", [2, 1]), ("loss", [1, 2])]
)
def test_leaderboard_ranks_by_the_last_epoch_whose_weights_are_kept(ranking: str, order: List[int]) -> None:
    epochs = (
        Epoch(1, 1, validation_metric=0.5, validation_loss=0.1),
        Epoch(1, 2, validation_metric=0.6, validation_loss=0.3),
        Epoch(2, 1, validation_metric=0.9, validation_loss=0.2),
        Epoch(2, 2, validation_metric=0.55, validation_loss=0.4),
    )
    board = accounting.leaderboard(Record(dataclasses.replace(RUN, ranking=ranking), TWO, HOPS, epochs))
    assert [standing.config.mst_key for standing in board] == order
    assert [standing.rank for standing in board] == [1, 2]
    assert {standing.config.mst_key: standing.rows for standing in board} == {1: 200, 2: 200}


def test_leaderboard_prefers_validation_and_puts_nan_and_nothing_last() -> None:
    configs = (*TWO, Config(3, 1, "mlp"), Config(4, 1, "mlp"))
    epochs = (
        Epoch(1, 1, training_metric=0.99, validation_metric=0.5), Epoch(2, 1, training_metric=0.6),
        Epoch(4, 1, validation_metric=math.nan),
    )  # fmt: skip
    board = accounting.leaderboard(Record(RUN, configs, (), epochs))
    assert [(standing.config.mst_key, standing.rank) for standing in board] == [
        (2, 1), (1, 2), (3, None), (4, None),
    ]  # fmt: skip
    assert [standing.metric for standing in board[:2]] == [0.6, 0.5]


def test_segments_without_a_hop_are_counted() -> None:
    run = dataclasses.replace(RUN, hops_total=6)
    assert accounting.segment_count(Record(run, TWO, HOPS)) == 3
    assert accounting.segment_count(Record(run, ())) == 0


def test_changed_sessions_name_the_segments() -> None:
    assert accounting.changed_sessions(Record(RUN, TWO, HOPS)) == []
    assert accounting.changed_sessions(Record(RUN, TWO, (*HOPS, hop(2, 1, 18, 19, pid=2)))) == [1]


def test_rows_per_second_is_over_the_whole_run() -> None:
    assert accounting.rows_per_second(Record(RUN, TWO, HOPS)) == 20.0
    assert accounting.rows_per_second(Record(RUN, TWO)) is None


def test_parameters_are_read_from_text_and_json() -> None:
    text = words.flat_params(
        "loss='cross_entropy', optimizer='Adam(lr=1e-4)', metrics=['accuracy']", "batch_size=64"
    )
    same = words.flat_params(
        '{"loss": "cross_entropy", "optimizer": "adam", "lr": 0.0001, "metrics": ["accuracy"]}',
        '{"batch_size": 64}',
    )
    assert text == {
        "optimizer": "adam", "lr": "0.0001", "batch_size": "64",
        "loss": "cross_entropy", "metric": "accuracy",
    }  # fmt: skip
    assert same == text
    assert words.flat_params("no such thing", "x") == {"compile": "no such thing", "fit": "x"}


def test_varied_parameters_sort_numbers_as_numbers() -> None:
    configs = [
        Config(key, 1, "mlp", {"lr": lr, "loss": "mse"}) for key, lr in enumerate(["0.1", "1e-3", "10"])
    ]
    assert words.varied(configs) == {"lr": ["1e-3", "0.1", "10"]}
    assert words.varied([*configs, Config(9, 2, "cnn")])["loss"] == ["mse", "–"]


@pytest.mark.parametrize(
    ("arch", "word"),
    [
        ('{"model": "mlp", "hidden": [8]}', "mlp"),
        ('{"layers": [1, 2]}', "2 layers"),
        ("[1]", "1 layer"),
        ("?", "model"),
    ],
)
def test_model_word(arch: str, word: str) -> None:
    assert words.model_word(arch) == word


def test_numbers_for_people() -> None:
    assert [words.short(None), words.short(0.87654), words.short(12345.6), words.short(math.nan)] == [
        "–", "0.8765", "1.235e+04", "NaN",
    ]  # fmt: skip
    assert [words.duration(4.25), words.duration(185), words.duration(7800)] == [
        "4.2 s",
        "3 min 05 s",
        "2 h 10 min",
    ]
    assert [words.size(None), words.size(999), words.size(1_223_016), words.size(812_000)] == [
        "–", "999 B", "1.2 MB", "812 kB",
    ]  # fmt: skip


def test_every_config_has_its_own_colour() -> None:
    for count in (1, 8, 16, 64):
        colours = Look.of(simulated(count, 2, 1)).colours
        assert len(set(colours.values())) == count
    failed = dataclasses.replace(simulated(3, 2, 1), epochs=(Epoch(2, 1, 0.1, 0.9, 0.1, 0.9),))
    assert [Look.of(failed).colours[key] == NO_RESULT for key in (1, 2, 3)] == [True, False, True]


def test_legend_names_only_the_best() -> None:
    figure = figures.learning_curves(Look.of(simulated(64, 4, 3)))
    assert figure is not None
    assert len(figure["data"]) == 128
    assert sum(line["showlegend"] for line in figure["data"]) == figures.LEGEND_LINES


def test_curves_hold_the_values_and_leave_gaps_for_nan() -> None:
    epochs = (Epoch(1, 1, training_loss=0.5), Epoch(1, 2, training_loss=math.nan))
    look = Look.of(
        Record(dataclasses.replace(RUN, validation_table=None, ranking="loss"), TWO[:1], HOPS, epochs)
    )
    figure = figures.learning_curves(look)
    assert figure is not None
    (line,) = figure["data"]
    assert (line["x"], line["y"]) == ([1, 2], [0.5, None])
    assert figure["layout"]["yaxis"]["title"]["text"] == "training loss"


def test_hops_are_bars_at_their_times() -> None:
    figure = figures.hops(Look.of(Record(RUN, TWO, HOPS)))
    assert figure is not None
    (bars,) = figure["data"]
    assert bars["base"] == [1, 1, 11, 11]
    assert bars["x"] == [10, 4, 4, 6]
    assert bars["y"] == ["segment 0", "segment 1", "segment 0", "segment 1"]
    assert "100 rows, 10 rows/s" in bars["text"][0]


def test_bars_of_a_group_lie_side_by_side() -> None:
    figure = figures.hops(Look.of(Record(RUN, TWO, (hop(1, 0, 1, 5), hop(2, 0, 1, 5), hop(1, 1, 5, 8)))))
    assert figure is not None
    (bars,) = figure["data"]
    assert bars["width"] == [0.4, 0.4, 0.8]
    assert bars["offset"] == [-0.4, 0.0, -0.4]


def test_means_of_a_parameter() -> None:
    epochs = (Epoch(1, 1, validation_metric=0.5), Epoch(2, 1, validation_metric=0.7))
    look = Look.of(
        Record(
            RUN, (*TWO, Config(3, 1, "mlp", {"lr": "0.1"})), (), (*epochs, Epoch(3, 1, validation_metric=0.9))
        )
    )
    assert figures.mean_by_value(look, "lr") == pytest.approx({"0.1": 0.7, "0.01": 0.7})


def empty(**run: Any) -> Record:
    return dataclasses.replace(simulated(4, 2, 2, **run), hops=(), epochs=())


def without_metric() -> Record:
    record = simulated(4, 2, 2, ranking="loss", validation_table=None)
    epochs = tuple(Epoch(e.mst_key, e.epoch, training_loss=e.training_loss) for e in record.epochs)
    return dataclasses.replace(record, epochs=epochs)


RECORDS = {
    "demo": simulated(), "one config": simulated(1, 1, 1), "many": simulated(64, 16, 1),
    "no hop yet": empty(status="running"), "no metric": without_metric(), "no configs": Record(RUN, ()),
    "a hop, no epoch": dataclasses.replace(simulated(4, 2, 2, status="running"), epochs=()),
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDS)
def test_page_stands_for_every_kind_of_run(name: str) -> None:
    page = render(RECORDS[name])
    plots = drawn(page)
    for plot in plots.values():
        go.Figure(plot)  # refuses properties that Plotly does not know
    assert set(plots) == set(re.findall(r'<div class="figure" id="(\w+)"', page))
    assert ("No hop has finished yet." in page) == (not RECORDS[name].hops)


def test_page_needs_no_network() -> None:
    page = render(RECORDS["one config"])
    assert "default-src 'none'" in page
    tags = Tags(page)
    assert not [attributes for _, attributes in tags.found if "src" in attributes or "href" in attributes]
    assert page.count("<!doctype html>") == 1


def test_text_of_users_is_never_markup() -> None:
    evil = "<script>alert(1)</script>"
    record = simulated(
        3, 2, 1, name=evil, description="$title </script>" + evil, source_table=evil, error=evil
    )
    configs = tuple(
        dataclasses.replace(
            config, model=evil, error=evil, params={**config.params, evil: evil + str(config.mst_key)}
        )
        for config in record.configs
    )
    clean, page = render(simulated(3, 2, 1)), render(dataclasses.replace(record, configs=configs))
    assert evil not in page
    assert Tags(page).names("script") == Tags(clean).names("script")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "$title" in page
    assert json.dumps(drawn(page)).count("<script") == 0


def test_failed_configs_show_their_error() -> None:
    record = simulated(2, 2, 1)
    lost = dataclasses.replace(record.configs[0], status="diverged", error="loss became NaN in epoch 1")
    page = render(dataclasses.replace(record, configs=(lost, record.configs[1])))
    assert "loss became NaN in epoch 1" in page
    assert "1 diverged, 1 finished" in page


class Tags(HTMLParser):
    """Every element of a page with its attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: List[Any] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: List[Any]) -> None:
        self.found.append((tag, dict(attrs)))

    def names(self, name: str) -> int:
        return sum(tag == name for tag, _ in self.found)


def test_equal_metrics_are_ranked_by_loss() -> None:
    epochs = (
        Epoch(1, 1, validation_metric=1.0, validation_loss=0.3),
        Epoch(2, 1, validation_metric=1.0, validation_loss=0.2),
    )
    board = accounting.leaderboard(Record(RUN, TWO, (), epochs))
    assert [standing.config.mst_key for standing in board] == [2, 1]
