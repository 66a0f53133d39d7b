"""One contract for every strategy: the same rows and seed give the same bits, whatever way the rows take.

Final weights are those of a plain PyTorch loop that visits the segments in the recorded order; optimizer
state, losses and metrics are those of every other strategy. A new strategy joins by a word in STRATEGIES.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Callable, Dict, List, Optional, Tuple

import pytest
import torch

import cerebro_db
from cerebro_db.client import PsycopgDatabase
from cerebro_db.datasets import load_fashion_mnist, load_flights
from cerebro_db.strategies import registry
from tests import plain, runs
from tests.runs import sql

STRATEGIES = ("in_rdbms", "hybrid", "streaming", "export", "direct")

ADAM = {"optimizer": "adam", "lr": 0.001, "loss": "cross_entropy", "metrics": ["accuracy"]}
SGD = {"optimizer": "sgd", "lr": 0.05, "momentum": 0.9, "loss": "cross_entropy", "metrics": ["accuracy"]}
MLP = {"model": "mlp", "hidden": [16]}
CNN = {"model": "cnn", "channels": [4], "hidden": 16, "input_shape": [1, 28, 28]}
TABULAR = {"model": "tabular", "hidden": [8], "embedding": 3}
FLIGHT_FEATURES = "month, sched_dep_minute, dep_delay, distance, carrier, origin, dest"

adam = partial(torch.optim.Adam, lr=0.001)
sgd = partial(torch.optim.SGD, lr=0.05, momentum=0.9)
METRICS = ("rows", "loss", "metric", "validation_rows", "validation_loss", "validation_metric")
PARTS = ("train_seconds", "validate_seconds", "data_seconds", "hop_seconds", "start_seconds")
#: From a packed table to the module of the same architecture in plain PyTorch.
Make = Callable[[plain.Packed], Callable[[], torch.nn.Module]]
Given = Tuple[Tuple[Any, Any, str], Make, Any, int]
#: mst_key -> (state as safetensors: weights, and optimizer with the rest).
States = Dict[int, Tuple[bytes, bytes]]


def given(arch: Any, compiled: Any, make: Make, batch: int) -> Given:
    """A config as cerebro takes it and as the plain loop does."""
    return (arch, compiled, f"batch_size={batch}"), make, adam if compiled is ADAM else sgd, batch


def classes(packed: plain.Packed) -> int:
    return int(packed.layout["target"]["outputs"])


def mlp(compiled: Any, batch: int) -> Given:
    return given(MLP, compiled, lambda packed: plain.mlp(784, 16, classes(packed)), batch)


def cnn(compiled: Any, batch: int) -> Given:
    return given(CNN, compiled, lambda packed: plain.cnn(28, 4, 16, classes(packed)), batch)


def tabular(compiled: Any, batch: int) -> Given:
    return given(TABULAR, compiled, lambda packed: partial(plain.Table, packed.layout), batch)


@dataclass(frozen=True)
class Case:
    """A packed table and the configs that train on it."""

    packed: str
    configs: Dict[int, Given]
    segments: int
    epochs: int = 2
    validation: Optional[str] = None
    options: Dict[str, Any] = field(default_factory=dict)


CASES = {
    # Three segments of 667 rows: batches of 37 leave one row, and of 111 too.
    "more configs than segments": Case(
        "fashion_three", {1: mlp(ADAM, 37), 2: mlp(SGD, 111), 3: cnn(ADAM, 64), 4: cnn(SGD, 37)}, 3,
        validation="fashion_check",
    ),
    "fewer configs than segments, none or one row": Case("fashion_tiny", {7: mlp(ADAM, 256)}, 3),
    # 2.4 MB of rows in windows of 1 MB.
    "more rows than the cache holds": Case(
        "fashion_one", {1: mlp(SGD, 100), 2: cnn(ADAM, 100)}, 1, options={"cache_mb": 1, "window_mb": 1, "seed": 3}
    ),
    "flights": Case(
        "flights_packed", {4: tabular(ADAM, 100), 5: tabular(SGD, 256)}, 2, validation="flights_check"
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def tables(pg_module: PsycopgDatabase) -> PsycopgDatabase:
    """Packed parts of Fashion-MNIST and of the flights of 2013."""
    load_fashion_mnist(pg_module)
    load_flights(pg_module)
    for name, source, some in (("f2001", "fashion_train", "id <= 2001"), ("f3000", "fashion_train", "id <= 3000"),
                               ("f3", "fashion_train", "id <= 3"), ("f500", "fashion_test", "id <= 500"),
                               ("late", "flights_train", "id % 97 = 1"), ("late_check", "flights_test", "id % 97 = 1")):
        pg_module.script(sql(f"create table {name} as select * from {source} where {some}"))
    runs.pack(pg_module, "f2001", "fashion_three", 3, buffer_size=100)
    runs.pack(pg_module, "f3", "fashion_tiny", 4)
    runs.pack(pg_module, "f3000", "fashion_one", 1, buffer_size=150)
    pg_module.rows(
        sql("select training_preprocessor_dl('late', 'flights_packed', 'late', %(features)s"
            ", options := '{\"segments\": 2, \"nulls\": \"drop\"}')"),
        features=FLIGHT_FEATURES,
    )  # fmt: skip
    pg_module.rows(sql("select validation_preprocessor_dl('f500', 'fashion_check', 'label', 'img', 'fashion_three')"))
    pg_module.rows(
        sql("select validation_preprocessor_dl('late_check', 'flights_check', 'late', %(features)s, 'flights_packed')"),
        features=FLIGHT_FEATURES,
    )
    for number, case in enumerate(CASES.values()):
        runs.make_selection(pg_module, f"configs_{number}", {key: config[0] for key, config in case.configs.items()})
    return pg_module


@dataclass
class Outcome:
    """What a run left, and the order in which each config visited the segments."""

    states: States
    #: (mst_key, epoch, segment) -> METRICS.
    metrics: Dict[Tuple[int, int, int], Tuple[Any, ...]]
    visits: Dict[int, List[Tuple[int, int]]]
    #: Of each hop: the seconds it took, and the five parts that they went into.
    seconds: List[Tuple[float, Tuple[float, ...]]]


class Trained:
    """Every case by every strategy, trained when it is first asked for."""

    def __init__(self, database: PsycopgDatabase, dsn: str) -> None:
        self._database = database
        self._dsn = dsn
        self._outcomes: Dict[Tuple[str, str], Outcome] = {}
        self._plain: Dict[str, Dict[int, Dict[str, torch.Tensor]]] = {}

    def outcome(self, strategy: str, name: str) -> Outcome:
        if (strategy, name) not in self._outcomes:
            self._outcomes[strategy, name] = self._train(strategy, name)
        return self._outcomes[strategy, name]

    def plain(self, name: str) -> Dict[int, Dict[str, torch.Tensor]]:
        """Weights by the plain loop, in the order of visits of in_rdbms."""
        if name not in self._plain:
            case, visits = CASES[name], self.outcome("in_rdbms", name).visits
            packed = plain.read(self._database.connection, case.packed)
            settings = {key: case.options[key] for key in ("seed", "window_mb") if key in case.options}
            self._plain[name] = {
                key: plain.train(packed, plain.Config(make(packed), optimizer, batch), key, visits[key], **settings)
                for key, (_, make, optimizer, batch) in case.configs.items()
            }
        return self._plain[name]

    def _train(self, strategy: str, name: str) -> Outcome:
        case, number = CASES[name], list(CASES).index(name)
        output = f"out_{number}_{strategy}"
        run = cerebro_db.fit(
            self._dsn, case.packed, output, f"configs_{number}", case.epochs,
            validation_table=case.validation, strategy=strategy, options={"threads": 1, **case.options},
        )  # fmt: skip
        stored = self._database.rows(sql(f"select mst_key, model_weights, optimizer_state from {output} order by 1"))
        hops = runs.hops(self._database, run.run_id)
        return Outcome(
            {row["mst_key"]: (bytes(row["model_weights"]), bytes(row["optimizer_state"])) for row in stored},
            {(hop["mst_key"], hop["epoch"], hop["segment_id"]): tuple(hop[name] for name in METRICS) for hop in hops},
            {key: plain.visits(hops, key) for key in case.configs},
            [((hop["finished_at"] - hop["started_at"]).total_seconds(), tuple(hop[p] for p in PARTS)) for hop in hops],
        )


@pytest.fixture(scope="module")
def trained(tables: PsycopgDatabase, pg_module_dsn: str) -> Trained:
    return Trained(tables, pg_module_dsn)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("case", CASES)
class TestContract:
    def test_final_weights_are_those_of_a_plain_loop(self, trained: Trained, strategy: str, case: str) -> None:
        outcome = trained.outcome(strategy, case)
        expected = trained.plain(case)
        assert outcome.visits == trained.outcome("in_rdbms", case).visits
        assert list(outcome.states) == list(expected)
        for key, weights in expected.items():
            plain.same_bits(outcome.states[key][0], weights)

    def test_state_and_metrics_are_those_of_in_rdbms(self, trained: Trained, strategy: str, case: str) -> None:
        """Optimizer, schedule, random numbers and counters too: the bytes that would hop on."""
        outcome, reference = trained.outcome(strategy, case), trained.outcome("in_rdbms", case)
        assert outcome.states == reference.states
        assert outcome.metrics == reference.metrics

    def test_every_segment_is_visited_once_in_every_epoch(self, trained: Trained, strategy: str, case: str) -> None:
        metrics = trained.outcome(strategy, case).metrics
        expected = runs.every_hop(list(CASES[case].configs), CASES[case].epochs, CASES[case].segments)
        assert sorted(metrics) == expected

    def test_the_time_of_a_hop_is_accounted_for(self, trained: Trained, strategy: str, case: str) -> None:
        for seconds, parts in trained.outcome(strategy, case).seconds:
            assert min(parts) >= 0
            assert sum(parts) == pytest.approx(seconds, abs=1e-3)


def test_the_registry_has_these_strategies_and_no_other() -> None:
    assert tuple(registry.STRATEGIES) == STRATEGIES
