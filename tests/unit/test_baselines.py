"""Baselines: the loop against one written out here, averages, who trains what, and jobs as JSON."""

from __future__ import annotations

import io
from typing import Tuple

import pytest
import torch
from torch.nn import functional

from experiments.baselines import averaging, processes, sequential
from experiments.baselines.base import Epoch, Job, Outcome, Result, finish
from experiments.baselines.loop import Clock, Training, fit, probe, validate
from experiments.resources import Meter
from experiments.workloads.base import Config, Data, Size, model
from experiments.workloads.registry import find

CONFIGS = (
    Config(model("mlp", hidden=[8]), 1e-2, 0.0, 32),
    Config(model("mlp", hidden=[8]), 1e-3, 1e-2, 50, arguments=(("betas", (0.8, 0.9)),)),
)
JOB = Job("criteo", Size(130, 40), CONFIGS, epochs=2, seed=3)


@pytest.fixture(scope="module")
def data() -> Data:
    return find("criteo").arrays(JOB.size)


def by_hand(number: int, data: Data) -> Tuple[torch.nn.Module, float]:
    """The last accuracy of a config of JOB, written out."""
    config = JOB.configs[number]
    x, y = data.training.inputs[0].float(), data.training.target
    torch.manual_seed(JOB.seed + number)
    net = torch.nn.Sequential(torch.nn.Linear(7306, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    arguments = {"lr": config.lr, "weight_decay": config.weight_decay, **dict(config.arguments)}
    optimizer = torch.optim.Adam(net.parameters(), **arguments)
    for _ in range(JOB.epochs):
        for index in torch.randperm(130).split(config.batch_size):
            optimizer.zero_grad()
            functional.cross_entropy(net(x[index]), y[index]).backward()
            optimizer.step()
    seen = net(data.validation.inputs[0].float()).argmax(1).eq(data.validation.target)
    return net, seen.float().mean().item()


@pytest.mark.parametrize("number", [0, 1])
def test_the_loop_equals_one_written_out(number: int, data: Data) -> None:
    net, accuracy = by_hand(number, data)
    clock = Clock()
    fit(JOB, number, data, clock)
    (epochs,) = clock.done.epochs
    assert [epoch.at for epoch in epochs] == sorted(epoch.at for epoch in epochs)
    assert epochs[-1].accuracy == pytest.approx(accuracy)
    with torch.no_grad():
        expected = functional.cross_entropy(net(data.validation.inputs[0].float()), data.validation.target).item()
    assert epochs[-1].loss == pytest.approx(expected, rel=1e-5)
    assert clock.done.rows == 260
    assert set(clock.done.parts) == {"train", "validate"}


def test_sequential_trains_all_configs(
    data: Data, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(JOB.to_json() + "\n"))
    threads = torch.get_num_threads()
    assert sequential.main() == 0
    torch.set_num_threads(threads)
    result = Result.from_json(capsys.readouterr().out)
    assert (result.approach, result.rows, len(result.epochs)) == ("sequential", 520, 2)
    assert [accuracy[-1] for accuracy in result.accuracy] == pytest.approx([by_hand(n, data)[1] for n in (0, 1)])
    assert sum(result.parts.values()) == pytest.approx(result.seconds, rel=0.2)


def test_validation_leaves_the_module_in_training(data: Data) -> None:
    training = Training(JOB, 0, data)
    right, loss = validate(training.module, data.validation)
    assert 0 <= right <= 40
    assert loss / 40 == pytest.approx(0.69, abs=0.1)
    assert training.module.training


def test_weights_are_averaged_by_rows() -> None:
    first = {"w": torch.tensor([[1.0, 2.0]]), "b": torch.tensor([4.0])}
    second = {"w": torch.tensor([[5.0, -2.0]]), "b": torch.tensor([0.0])}
    found = averaging.averaged([first, second], [30, 10])
    assert found["w"].tolist() == [[2.0, 1.0]]
    assert found["b"].tolist() == [3.0]
    assert first["b"].tolist() == [4.0]


def test_segments_are_a_partition() -> None:
    parts = averaging.segments(11, 3, seed=5)
    assert [len(part) for part in parts] == [4, 4, 3]
    assert sorted(torch.cat(parts).tolist()) == list(range(11))
    assert torch.cat(parts).tolist() != list(range(11))
    assert [part.tolist() for part in averaging.segments(11, 3, seed=5)] == [part.tolist() for part in parts]


def test_the_longest_configs_are_first_and_each_kind_is_probed_once() -> None:
    small, large = model("mlp", hidden=[8]), model("mlp", hidden=[9])
    kinds = [(small, 32), (large, 32), (small, 64), (large, 32), (small, 32)]
    job = Job("criteo", Size(), tuple(Config(each, 1e-3, 0.0, size) for each, size in kinds), 1)
    seconds = {0: 2.0, 1: 7.0, 2: 1.0}
    assert processes.longest_first(job, lambda number: seconds[number]) == [1, 3, 0, 4, 2]


def test_a_probe_tells_the_time_of_an_epoch(data: Data) -> None:
    assert 0 < probe(JOB, 0, data, 2) < 10


def test_outcomes_of_processes_are_put_together_in_the_order_of_configs() -> None:
    early, late = Epoch(0.5, 1.0, 2.0), Epoch(0.75, 0.5, 3.0)
    found = processes.together({1: Outcome([[late]], {"train": 2.0}, 7), 0: Outcome([[early]], {"train": 1.0}, 7)})
    assert found == Outcome([[early], [late]], {"train": 3.0}, 14)


def test_jobs_and_results_survive_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert Job.from_json(JOB.to_json()) == JOB
    with Meter() as meter:
        pass
    assert finish("sequential", Outcome([[Epoch(0.5, 1.0, 0.1)]], {"train": 0.0}, 5), meter, 1) == 0
    result = Result.from_json(capsys.readouterr().out)
    assert result.accuracy == [[0.5]]
    assert result.parts == {"train": 0.0, "idle": pytest.approx(result.seconds)}
    assert result.startup_seconds > 0
    assert result.resources == meter.resources
