"""Ray Tune as its documentation shows it: a trial per config on one core each, the data put once into the object store.

The option {"reuse_actors": true} has a process train one config after the other, which is not Ray's default.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import time
from dataclasses import asdict
from typing import Any, Dict, List, Mapping

import numpy as np
import ray
import torch
from ray import tune

from experiments.baselines.base import Epoch, Job, Outcome, finish, read_job
from experiments.baselines.loop import Clock, Training, validate
from experiments.resources import Meter
from experiments.workloads.base import Arrays, Data
from experiments.workloads.registry import find

#: Ray's rows in the object store: what `unpacked` takes.
Packed = Dict[str, Any]


def main() -> int:
    job = read_job()
    packed = pack(find(job.workload).arrays(job.size))
    # Ray is told about its cores and nothing else, except to be silent: results go to stdout here.
    os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
    ray.init(num_cpus=job.processes, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    with tempfile.TemporaryDirectory() as folder:
        tuner = _tuner(job, packed, folder)
        with Meter() as meter:
            clock = Clock()
            results = tuner.fit()
        outcome = _outcome(job, results, clock)
        code = finish("ray_tune", outcome, meter, job.processes)
    ray.shutdown()
    return code


def pack(data: Data) -> Packed:
    """Arrays of NumPy, which processes read from the object store without a copy."""
    parts = {"training": data.training, "validation": data.validation}
    rows = {name: [each.numpy() for each in (*part.inputs, part.target)] for name, part in parts.items()}
    return {**rows, "classes": data.classes, "cardinalities": data.cardinalities}


def unpacked(packed: Packed) -> Data:
    training, validation = (_arrays(packed[name]) for name in ("training", "validation"))
    return Data(training, validation, packed["classes"], packed["cardinalities"])


def _arrays(columns: List[np.ndarray]) -> Arrays:
    *inputs, target = map(torch.from_numpy, columns)
    return Arrays(tuple(inputs), target)


def _tuner(job: Job, packed: Packed, folder: str) -> tune.Tuner:
    trainable = tune.with_parameters(train, packed=packed, text=job.to_json())
    return tune.Tuner(
        tune.with_resources(trainable, {"cpu": 1}),
        param_space={"number": tune.grid_search(list(range(len(job.configs))))},
        tune_config=tune.TuneConfig(
            metric="accuracy", mode="max", max_concurrent_trials=job.processes,
            reuse_actors=bool(job.options.get("reuse_actors", False)),
        ),
        run_config=tune.RunConfig(storage_path=folder, verbose=0),
    )  # fmt: skip


def train(config: Mapping[str, Any], packed: Packed, text: str) -> None:
    """A trial: one config, reported after each epoch."""
    job = Job.from_json(text)
    torch.set_num_threads(job.threads)
    data = unpacked(packed)
    training = Training(job, config["number"], data)
    for _ in range(job.epochs):
        started = time.perf_counter()
        training.epoch(data.training)
        trained = time.perf_counter()
        right, loss = validate(training.module, data.validation)
        at = time.perf_counter()
        rows = data.validation.rows
        epoch = asdict(Epoch(right / rows, loss / rows, at))
        tune.report({**epoch, "train": trained - started, "validate": at - trained, "rows": data.training.rows})


def _outcome(job: Job, results: tune.ResultGrid, clock: Clock) -> Outcome:
    outcome = Outcome([[] for _ in job.configs])
    for number in range(len(results)):
        result = results[number]
        frame, config = result.metrics_dataframe, result.config
        assert frame is not None, result.error
        assert config is not None
        for row in frame.to_dict("records"):
            epoch = Epoch(row["accuracy"], row["loss"], row["at"] - clock.zero)
            outcome.epochs[config["number"]].append(epoch)
            outcome.rows += int(row["rows"])
        for part in ("train", "validate"):
            outcome.parts[part] = outcome.parts.get(part, 0.0) + float(frame[part].sum())
    return outcome


if __name__ == "__main__":
    sys.exit(main())
