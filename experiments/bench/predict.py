"""rows/s of madlib_mop_predict over a plain batched PyTorch loop, both on the same one core.

The loop finds its inputs in memory and leaves its answers there. A user has both in tables, so a script that fetches
them, runs the loop and copies the answers back is measured beside it.
"""

from __future__ import annotations

import io
import os
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Set, Tuple

import numpy as np
import torch
from torch import Tensor, nn

from cerebro_db.client import PsycopgDatabase
from cerebro_db.sqltext import Fragment, fill, ident
from experiments.bench import data
from experiments.bench.measure import Measure
from experiments.bench.raw_loop import cnn, mlp

BATCH_ROWS, TURNS = 1024, 3
#: Of the loop, and of the script around it.
BAR, SCRIPT_BAR = 0.8, 1.0

_PREDICT = Fragment("select madlib_mop_predict(%(model)s, %(table)s, 'id', %(features)s, 'predicted', 'response')")
#: What no model needs: each row read as far as the features, and an answer written for it.
_READ = Fragment("select count(*) filter (where {touched}) from {table}")
_WRITE = Fragment(
    "create table predicted as select id, 'label'::text as class_name, 'T-shirt'::text as class_value"
    ", 0.5::float8 as prob from {table}"
)
_DROP = Fragment("drop table if exists predicted")
_FETCH = Fragment("select id, {features} from {table}")
_CREATE = Fragment("create table predicted (id bigint, class_name text, class_value text, prob float8)")
_COPY = Fragment("copy predicted from stdin")


class Case(NamedTuple):
    """A table, its features, what touches all of them in SQL, and a model trained on it."""

    table: str
    features: str
    touched: str
    selection: str
    module: nn.Module
    #: [rows, features] float32
    inputs: Tensor
    #: Fetched rows, ids and features, as inputs.
    decoded: Callable[[List[Tuple[Any, ...]]], Tensor]


class Seconds(NamedTuple):
    """The best of several turns, taken by turns."""

    loop: float
    predict: float
    read: float
    write: float
    script: float


def measure(db: PsycopgDatabase) -> Iterator[Measure]:
    for name, case in _cases(db):
        with _one_core(db):
            best = _alternated(db, case)
        rows, loop = len(case.inputs), best.loop
        yield Measure(f"plain PyTorch loop, {name}", rows / loop, "rows/s", None, "higher")
        yield Measure(f"madlib_mop_predict, {name}", rows / best.predict, "rows/s", None, "higher")
        over_script = best.script / best.predict
        yield Measure(f"madlib_mop_predict over a script, {name}", over_script, "ratio", SCRIPT_BAR, "higher")
        # Of a small model the row costs more than the answer: even the loop with both is below the bar.
        bar = BAR if loop / (loop + best.read + best.write) > BAR else None
        yield Measure(f"madlib_mop_predict over the loop, {name}", loop / best.predict, "ratio", bar, "higher")
        for what, value in (
            ("reading the rows in SQL, and no more", loop / best.read),
            ("writing the answers in SQL, and no more", loop / best.write),
            ("the loop with both", loop / (loop + best.read + best.write)),
        ):
            yield Measure(f"{what}, over the loop, {name}", value, "ratio", None, "higher")


def _cases(db: PsycopgDatabase) -> Iterator[Tuple[str, Case]]:
    yield "60,000 images, mlp 784-128-10", _images(db, "fashion_train", "mlp", mlp(), (784,))
    yield "10,000 images, cnn", _images(db, "fashion_test", "cnn", cnn(), (28, 28))
    yield "336,776 rows of 20 numbers, mlp 20-64-2", _numbers(db)


def _alternated(db: PsycopgDatabase, case: Case) -> Seconds:
    values = {"model": f"{case.selection}_models", "table": case.table, "features": case.features}
    table = ident(case.table)
    tasks: List[Callable[[], object]] = [
        lambda: _loop(case.module, case.inputs),
        lambda: db.rows(_PREDICT, **values),
        lambda: db.rows(fill(_READ, touched=Fragment(case.touched), table=table)),
        lambda: db.script(fill(_WRITE, table=table)),
        lambda: _script(db, case),
    ]
    best = [float("inf")] * len(tasks)
    for _ in range(TURNS + 1):  # the first predict of a session imports torch
        for place, task in enumerate(tasks):
            db.script(_DROP)
            started = time.perf_counter()
            task()
            best[place] = min(best[place], time.perf_counter() - started)
    db.script(_DROP)
    return Seconds(*best)


def _script(db: PsycopgDatabase, case: Case) -> None:
    """What a user would write without us: fetch, predict, copy the answers back."""
    with db.connection.cursor() as cursor:
        cursor.execute(fill(_FETCH, features=Fragment(case.features), table=ident(case.table)))
        rows = cursor.fetchall()
        classes, probs = _loop(case.module, case.decoded(rows))
        found = zip(rows, classes.tolist(), probs.tolist())
        lines = [f"{row[0]}\tlabel\t{code}\t{prob}\n" for row, code, prob in found]
        cursor.execute(_CREATE)
        cursor.copy_expert(_COPY, io.StringIO("".join(lines)))


def _loop(module: nn.Module, inputs: Tensor) -> Tuple[np.ndarray, np.ndarray]:
    """The most likely class of every row, and its probability."""
    rows = len(inputs)
    classes, probs = np.empty(rows, np.int64), np.empty(rows, np.float32)
    with torch.no_grad():
        for first in range(0, rows, BATCH_ROWS):
            prob, best = torch.softmax(module(inputs[first : first + BATCH_ROWS]), 1).max(1)
            classes[first : first + BATCH_ROWS], probs[first : first + BATCH_ROWS] = best.numpy(), prob.numpy()
    return classes, probs


class _one_core:  # noqa: N801  used as a block
    """Inside, this process and the session's are on one core together, and never work at the same time."""

    def __init__(self, db: PsycopgDatabase) -> None:
        self._pids = (0, db.connection.info.backend_pid)
        self._before: Dict[int, Set[int]] = {}

    def __enter__(self) -> None:
        self._threads = torch.get_num_threads()
        torch.set_num_threads(1)
        self._before = {pid: os.sched_getaffinity(pid) for pid in self._pids}
        core = min(self._before[0])
        for pid in self._pids:
            os.sched_setaffinity(pid, {core})

    def __exit__(self, *exception: object) -> None:
        for pid, cores in self._before.items():
            os.sched_setaffinity(pid, cores)
        torch.set_num_threads(self._threads)


def _images(db: PsycopgDatabase, table: str, model: str, module: nn.Module, shape: Tuple[int, ...]) -> Case:
    """Images with a model that a short fit has left."""
    source, selection = f"predict_{model}_rows", f"predict_{model}"
    data.take(db, source, 1000)
    data.pack_images(db, source, f"{source}_packed", 1)
    data.select_configs(db, selection, [model], [0.001], [256])
    data.fit(db, f"{source}_packed", selection, 1)
    (row,) = db.rows(fill(Fragment("select string_agg(img, ''::bytea) as pixels from {table}"), table=ident(table)))

    def images(pixels: bytes) -> Tensor:
        return torch.from_numpy(np.frombuffer(pixels, np.uint8).astype(np.float32).reshape(-1, *shape) / 255)

    def decoded(rows: List[Tuple[Any, ...]]) -> Tensor:
        return images(b"".join([image for _, image in rows]))

    return Case(table, "img", "octet_length(img) > 0", selection, module, images(row["pixels"]), decoded)


def _numbers(db: PsycopgDatabase) -> Case:
    data.pack_numbers(db, "predict_numbers", 2)
    data.select_configs(db, "predict_small", ["small"], [0.001], [1024])
    data.fit(db, "predict_numbers", "predict_small", 1)
    columns = [f"c{number}" for number in range(20)]
    (row,) = db.rows(Fragment("select count(*) as rows from numbers"))
    inputs = torch.rand(row["rows"], len(columns))
    module = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 2))

    def decoded(rows: List[Tuple[Any, ...]]) -> Tensor:
        return torch.from_numpy(np.array(rows, np.float32)[:, 1:])

    return Case("numbers", ", ".join(columns), f"{' + '.join(columns)} > 0", "predict_small", module, inputs, decoded)
