"""One process that trains one config after the other, with as many threads as the job says."""

from __future__ import annotations

import sys

from experiments.baselines.base import finish, read_job
from experiments.baselines.loop import Clock, fit, warm
from experiments.resources import Meter
from experiments.workloads.registry import find


def main() -> int:
    job = read_job()
    data = find(job.workload).arrays(job.size)
    warm(job, data)
    with Meter() as meter:
        clock = Clock()
        for number in range(len(job.configs)):
            fit(job, number, data, clock)
    return finish("sequential", clock.done, meter, workers=1)


if __name__ == "__main__":
    sys.exit(main())
