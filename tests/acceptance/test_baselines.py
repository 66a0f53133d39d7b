"""Baselines as the experiments start them: processes that share the work come to what one alone would."""

from __future__ import annotations

import importlib.util
import subprocess
from dataclasses import replace
from typing import List

import pytest
import torch

from experiments.baselines import averaging
from experiments.baselines.base import Epoch, Job, run
from experiments.baselines.ddp import order
from experiments.baselines.loop import Clock, Training, cut, fit, validate
from experiments.workloads.base import Config, Size, model
from experiments.workloads.registry import find

pytestmark = pytest.mark.slow

CONFIGS = tuple(Config(model("mlp", hidden=[8]), lr, 0.0, 32) for lr in (1e-2, 1e-3))
JOB = Job("criteo", Size(150, 40, segments=3), CONFIGS, epochs=2, seed=1)


def close(found: List[List[Epoch]], expected: List[List[Epoch]]) -> None:
    """Equal but for the order of sums."""
    assert [len(config) for config in found] == [len(config) for config in expected]
    for ours, theirs in zip(sum(found, []), sum(expected, [])):
        assert ours.loss == pytest.approx(theirs.loss, rel=1e-4)
        assert ours.accuracy == pytest.approx(theirs.accuracy, abs=0.026)


def alone() -> List[List[Epoch]]:
    clock = Clock()
    data = find(JOB.workload).arrays(JOB.size)
    for number in range(len(CONFIGS)):
        fit(JOB, number, data, clock)
    return clock.done.epochs


def test_processes_share_the_configs() -> None:
    result = run("processes", JOB)
    close(list(map(list, result.epochs)), alone())
    assert result.rows == 600
    assert result.resources.cpu_seconds > 0
    assert set(result.parts) == {"train", "validate", "idle"}
    assert result.startup_seconds > 0


def test_a_baseline_whose_processes_fail_ends(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        run("processes", replace(JOB, workload="critoe"))
    errors = capfd.readouterr().err
    assert "unknown workload 'critoe'" in errors
    assert "a training process ended with status 1" in errors


def test_averaging_fits_segments_from_the_same_weights() -> None:
    job = replace(JOB, configs=CONFIGS[:1], processes=2)
    data = find(job.workload).arrays(job.size)
    parts = [data.training.part(index) for index in averaging.segments(150, 3, job.seed)]
    trainings = [Training(job, 0, data) for _ in parts]
    expected = []
    for epoch in range(2):
        for segment, (training, arrays) in enumerate(zip(trainings, parts)):
            averaging.one_pass(training, arrays, job.seed + averaging.SEEDS * (epoch * 3 + segment + 1))
        merged = averaging.averaged([each.module.state_dict() for each in trainings], [50, 50, 50])
        for training in trainings:
            training.module.load_state_dict(merged)
        right, loss = validate(trainings[0].module, data.validation)
        expected.append(Epoch(right / 40, loss / 40, 0.0))
    result = run("averaging", job)
    close(list(map(list, result.epochs)), [expected])
    assert "merge" in result.parts


def test_ddp_takes_the_steps_of_the_whole_batch() -> None:
    if not torch.distributed.is_gloo_available():
        pytest.skip("this torch has no gloo")
    job = replace(JOB, configs=CONFIGS[:1])
    data = find(job.workload).arrays(job.size)
    training = Training(job, 0, data)
    expected = []
    for epoch in range(2):
        for index in cut(order(150, job, 0, epoch), 32):
            training.step(data.training, index)
        right, loss = validate(training.module, data.validation)
        expected.append(Epoch(right / 40, loss / 40, 0.0))
    result = run("ddp", job)
    close(list(map(list, result.epochs)), [expected])
    assert result.resources.loopback_bytes > 0


def test_ray_tune_runs_a_trial_per_config() -> None:
    if importlib.util.find_spec("tensorboardX") is None or importlib.util.find_spec("ray") is None:
        pytest.skip("ray[tune] is not installed: pip install 'cerebro-db[experiments]'")
    result = run("ray_tune", JOB)
    close(list(map(list, result.epochs)), alone())
    assert result.rows == 600
