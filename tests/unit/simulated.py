"""A made-up run for tests of the report: hops laid out greedily on segments, curves that fall."""

from __future__ import annotations

import itertools
import random
from typing import Any, Dict, List

from cerebro_db.report.record import Config, Epoch, Hop, Record, Run

RATES = {"mlp": 150_000.0, "cnn": 18_000.0}


def simulated(
    configs: int = 16, segments: int = 4, epochs: int = 2, rows: int = 15_000, **run: Any
) -> Record:
    """A finished run whose hops never overlap on a segment nor for a config."""
    grid = itertools.cycle(
        itertools.product(("mlp", "cnn"), ("0.001", "0.0001"), ("0", "0.0001"), ("64", "256"))
    )
    made = [_config(key, *next(grid)) for key in range(1, configs + 1)]
    hops = _hops(made, segments, epochs, rows)
    end = max((hop.finished for hop in hops), default=0.0) + 0.4
    facts: Dict[str, Any] = {
        "run_id": 7,
        "owner": "ana",
        "source_table": "fashion_train_packed",
        "strategy": "in_rdbms",
        "ranking": "metric_higher",
        "status": "finished",
        "num_iterations": epochs,
        "started_at": 1.7e9,
        "ended_at": 1.7e9 + end,
        "hops_total": configs * segments * epochs,
        "name": "fashion-mnist demo",
        "description": "mlp and cnn over learning rate, weight decay and batch size",
        "validation_table": "fashion_test_packed",
        "model_output_table": "fashion_models",
        **run,
    }
    return Record(Run(**facts), tuple(made), tuple(hops), tuple(_curves(made, epochs)))


def _config(key: int, model: str, lr: str, decay: str, batch: str) -> Config:
    params = {
        "optimizer": "adam",
        "lr": lr,
        "weight_decay": decay,
        "batch_size": batch,
        "loss": "cross_entropy",
        "metric": "accuracy",
    }
    return Config(
        key, 1 if model == "mlp" else 2, model, params, 1_223_016 if model == "mlp" else 640_512, "finished"
    )


def _hops(configs: List[Config], segments: int, epochs: int, rows: int) -> List[Hop]:
    chance, hops = random.Random(3), []
    free = dict.fromkeys(range(segments), 2.9)
    idle = {config.mst_key: 2.9 for config in configs}
    left = [
        (epoch, config, segment)
        for epoch in range(1, epochs + 1)
        for config in configs
        for segment in range(segments)
    ]
    left.sort(key=lambda hop: (hop[0], (hop[1].mst_key + hop[2]) % max(segments, 1)))
    while left:
        hop = min(left, key=lambda item: (max(free[item[2]], idle[item[1].mst_key]), item[0]))
        left.remove(hop)
        epoch, config, segment = hop
        start = max(free[segment], idle[config.mst_key])
        train = (
            rows
            / RATES[config.model]
            * chance.uniform(0.95, 1.1)
            * (1.25 if config.params["batch_size"] == "64" else 1)
        )
        parts = (train, train * 0.12, 0.25 if start < 3 else 0.01, 0.02, 1.6 if start < 3 else 0.015)
        free[segment] = idle[config.mst_key] = start + sum(parts) + 0.004
        hops.append(Hop(config.mst_key, epoch, segment, rows, start, free[segment], parts, 4000 + segment))
    return hops


def _curves(configs: List[Config], epochs: int) -> List[Epoch]:
    chance, found = random.Random(4), []
    for config in configs:
        top = 0.905 if config.model == "cnn" else 0.88
        pace = (1.1 if config.params["lr"] == "0.001" else 0.6) * (
            1.1 if config.params["batch_size"] == "64" else 0.9
        )
        for epoch in range(1, epochs + 1):
            reached = top * (1 - 0.22 * 2.7 ** (-pace * epoch)) - chance.uniform(0, 0.01)
            found.append(
                Epoch(
                    config.mst_key,
                    epoch,
                    3 * (1 - reached) * 0.95,
                    reached + 0.004,
                    3 * (1 - reached),
                    reached,
                )
            )
    return found
