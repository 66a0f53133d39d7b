"""What a baseline is asked and what it answers, as lines of JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from typing import Any, Dict, List, Mapping, Tuple

from experiments.resources import Resources
from experiments.workloads.base import Config, Size

#: Modules of this package that take a job.
BASELINES = ("sequential", "processes", "ddp", "averaging", "ray_tune")


@dataclass(frozen=True)
class Job:
    """Train all configs for `epochs` passes over a workload's rows, and validate after each."""

    workload: str
    size: Size
    configs: Tuple[Config, ...]
    epochs: int
    #: Torch's threads in each process.
    threads: int = 1
    #: Processes that train at a time; `sequential` has one whatever this says.
    processes: int = 2
    #: Of initial weights and orders; config n uses seed + n.
    seed: int = 0
    #: What only one baseline knows, such as {"reuse_actors": true} of ray_tune.
    options: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Job:
        raw = json.loads(text)
        size, configs = Size(**raw.pop("size")), tuple(map(Config.from_json, raw.pop("configs")))
        return cls(size=size, configs=configs, **raw)


@dataclass(frozen=True)
class Epoch:
    """What a config came to after a pass over all rows."""

    accuracy: float
    loss: float
    #: When it was validated, after the start of training [s].
    at: float


@dataclass(frozen=True)
class Result:
    """What a baseline came to."""

    approach: str
    #: From the start of training, with modules imported and data in memory, to the last validation [s].
    seconds: float
    #: Everything before: interpreters, imports, data, and what has to run [s].
    startup_seconds: float
    #: Per config, in the order of the job, its epochs.
    epochs: Tuple[Tuple[Epoch, ...], ...]
    #: Rows trained, over all configs and epochs.
    rows: int
    #: Of the training alone; those of the start are not counted.
    resources: Resources
    #: Seconds of all processes by part ("train", "validate", ...), where the baseline can tell.
    parts: Dict[str, float] = field(default_factory=dict)

    @property
    def accuracy(self) -> List[List[float]]:
        """Per config, after each epoch."""
        return [[epoch.accuracy for epoch in epochs] for epochs in self.epochs]

    def to_json(self) -> str:
        return json.dumps({**asdict(self), "accuracy": self.accuracy})

    @classmethod
    def from_json(cls, text: str) -> Result:
        raw = json.loads(text)
        del raw["accuracy"]
        epochs = tuple(tuple(Epoch(**epoch) for epoch in config) for config in raw.pop("epochs"))
        return cls(epochs=epochs, resources=Resources(**raw.pop("resources")), **raw)


def run(name: str, job: Job) -> Result:
    """Run a baseline in a process of its own and wait for it; raises CalledProcessError when it fails."""
    command = [sys.executable, "-m", f"experiments.baselines.{name}"]
    done = subprocess.run(command, input=job.to_json() + "\n", stdout=subprocess.PIPE, text=True, check=True)
    return Result.from_json(done.stdout.strip().rsplit("\n", 1)[-1])
