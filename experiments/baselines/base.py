"""What a baseline is asked and what it answers, as lines of JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from typing import Any, Dict, List, Mapping, Tuple

from experiments.resources import Meter, Resources, age
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
    #: Seconds of all that train by part: "train", "validate", "merge", "start", and "idle" for what is left.
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


@dataclass
class Outcome:
    """What training came to, in the process that did it; a part of it, where several did."""

    #: Per config.
    epochs: List[List[Epoch]] = field(default_factory=list)
    #: Seconds by part.
    parts: Dict[str, float] = field(default_factory=dict)
    #: Rows trained.
    rows: int = 0

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Outcome:
        return cls([[Epoch(**epoch) for epoch in config] for config in raw["epochs"]], raw["parts"], raw["rows"])


def read_job() -> Job:
    """The job of this process."""
    return Job.from_json(sys.stdin.readline())


def finish(approach: str, outcome: Outcome, meter: Meter, workers: int) -> int:
    """Write the result of this process, in which `workers` trained at a time, as a line; gives its exit status."""
    used = meter.resources
    idle = max(0.0, workers * used.seconds - sum(outcome.parts.values()))
    result = Result(
        approach, used.seconds, age() - used.seconds, tuple(map(tuple, outcome.epochs)), outcome.rows, used,
        {**outcome.parts, "idle": idle},
    )  # fmt: skip
    sys.stdout.write(result.to_json() + "\n")
    sys.stdout.flush()
    return 0
