"""A generated table like Criteo's after encoding: 7,306 binary features, of which 39 of a row are one.

13 numbers cut into bins and 26 categories, one-hot each, the frequencies of the values falling as in a language
(Zipf). The label is drawn from a planted logistic model. Rows come in blocks with seeds of their own, so that the
first n rows are the same whatever the size, in the database and in memory.
"""

from __future__ import annotations

import io
import struct
from functools import lru_cache
from itertools import product
from typing import Iterator, List, Tuple

import numpy as np
import torch
from torch import nn

from cerebro_db.client import PsycopgDatabase
from cerebro_db.copy_format import END, HEADER
from cerebro_db.sqltext import Fragment, fill, ident
from experiments.workloads import plain
from experiments.workloads.base import Arrays, Config, Data, Size, Workload, first, model, uniform

WIDTH = 7306
NUMBERS, CATEGORIES = 13, 26
#: Bins of each number; the categories share the other features, the largest ones having the most.
BINS = 50
#: Rows that share a seed, and those of a table that nobody sized: training, validation.
BLOCK_ROWS, ROWS, VALIDATION_ROWS = 4096, 20_000, 4_000
SEED = 20211
#: Blocks of validation rows begin here.
VALIDATION_BLOCK = 1 << 20
#: Of the planted model: deviation of a feature's weight, and what makes about a quarter of the labels one.
SIGNAL, OFFSET = 0.35, -1.35

MODEL = model("mlp", hidden=[1000, 500])
SMALL = model("mlp", hidden=[100, 50])
RATES, DECAYS, BATCHES = (1e-3, 1e-4), (1e-4, 1e-5), (32, 64, 256, 512)

_CREATE = Fragment("create table {name} (id integer primary key, features bytea not null, label smallint not null)")
#: One in 180 bytes is not zero: worth compressing, which the server does by itself.
_COPY = Fragment("copy {name} (id, features, label) from stdin (format binary)")


def grid(models: str) -> List[Config]:
    """The 16 configs of the paper, for one architecture."""
    return [Config(models, lr, decay, batch) for lr, decay, batch in product(RATES, DECAYS, BATCHES)]


class Criteo(Workload):
    name = "criteo"
    label, features = "label", "features"
    grids = {
        "grid": first(grid(MODEL)), "small": first(grid(SMALL)), "uniform": uniform(Config(SMALL, 1e-3, 1e-5, 256)),
    }  # fmt: skip

    def store(self, db: PsycopgDatabase, raw: str, checked: str, size: Size) -> None:
        _store(db, raw, size.rows or ROWS, 0)
        _store(db, checked, size.validation_rows or VALIDATION_ROWS, VALIDATION_BLOCK)

    def arrays(self, size: Size) -> Data:
        training = _in_memory(size.rows or ROWS, 0)
        return Data(training, _in_memory(size.validation_rows or VALIDATION_ROWS, VALIDATION_BLOCK), 2)

    def module(self, config: Config, data: Data) -> nn.Module:
        return plain.build(config.architecture, (WIDTH, (), data.classes))


def group_sizes() -> List[int]:
    """Features of each of the 39 columns."""
    rest = WIDTH - NUMBERS * BINS
    weights = 1.0 / np.arange(1, CATEGORIES + 1)
    sizes = np.maximum(2, np.floor(rest * weights / weights.sum())).astype(int)
    sizes[0] += rest - sizes.sum()
    return [BINS] * NUMBERS + [int(each) for each in sizes]


@lru_cache(maxsize=1)
def _planted() -> Tuple[List[np.ndarray], np.ndarray]:
    """Cumulative frequencies of each column's values, and the weight of each feature."""
    frequencies = [np.cumsum(1 / np.arange(1, size + 1)) for size in group_sizes()]
    weights = np.random.RandomState(SEED).normal(0, SIGNAL, WIDTH)
    return [each / each[-1] for each in frequencies], weights


def block(number: int) -> Tuple[np.ndarray, np.ndarray]:
    """Places of the ones int64 [BLOCK_ROWS, 39] and labels int64 [BLOCK_ROWS] of a block."""
    rng = np.random.RandomState([SEED, number])
    frequencies, weights = _planted()
    starts = np.cumsum([0, *group_sizes()[:-1]])
    drawn = rng.random_sample((BLOCK_ROWS, len(starts)))
    ones = np.stack([np.searchsorted(each, drawn[:, n], "right") + starts[n] for n, each in enumerate(frequencies)], 1)
    chance = 1 / (1 + np.exp(-weights[ones].sum(1) - OFFSET))
    return ones, (rng.random_sample(BLOCK_ROWS) < chance).astype(np.int64)


def generated(rows: int, first_block: int) -> Iterator[Tuple[np.ndarray, np.ndarray]]:
    """Features uint8 [n, WIDTH] and labels int64 [n], a block at a time."""
    for number in range(-(-rows // BLOCK_ROWS)):
        ones, labels = block(first_block + number)
        n = min(BLOCK_ROWS, rows - number * BLOCK_ROWS)
        features = np.zeros((n, WIDTH), np.uint8)
        features[np.arange(n)[:, None], ones[:n]] = 1
        yield features, labels[:n]


def _in_memory(rows: int, first_block: int) -> Arrays:
    features, labels = np.empty((rows, WIDTH), np.uint8), np.empty(rows, np.int64)
    start = 0
    for part, classes in generated(rows, first_block):
        features[start : start + len(part)], labels[start : start + len(part)] = part, classes
        start += len(part)
    return Arrays((torch.from_numpy(features),), torch.from_numpy(labels))


def _store(db: PsycopgDatabase, name: str, rows: int, first_block: int) -> None:
    db.script(fill(_CREATE, name=ident(name)))
    start = 0
    for features, labels in generated(rows, first_block):
        with db.connection.cursor() as cursor:
            cursor.copy_expert(fill(_COPY, name=ident(name)), io.BytesIO(_copy_rows(start, features, labels)))
        start += len(features)


def _copy_rows(start: int, features: np.ndarray, labels: np.ndarray) -> bytes:
    """Rows (id from `start` + 1, features, label) in the binary format of COPY."""
    pieces = [HEADER]
    for number, (row, label) in enumerate(zip(features, labels), start + 1):
        pieces += [struct.pack(">hiii", 3, 4, number, WIDTH), row.tobytes(), struct.pack(">ih", 2, int(label))]
    return b"".join([*pieces, END])
