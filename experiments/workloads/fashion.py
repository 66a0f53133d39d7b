"""Fashion-MNIST: 60,000 images of 28 x 28 in ten classes, for dense layers and for convolutions."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import List, Mapping, Optional, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor, nn

from cerebro_db.client import PsycopgDatabase
from cerebro_db.datasets import FASHION_CLASSES, FASHION_FOLDER, load_fashion_mnist, read_idx
from cerebro_db.sqltext import Fragment, fill, ident
from experiments.workloads import plain
from experiments.workloads.base import (
    GRID_CONFIGS,
    Arrays,
    Config,
    Data,
    Grid,
    Size,
    Workload,
    model,
    rates,
)

PIXELS = 28 * 28
MLP = model("mlp", hidden=[128])
CNN = model("cnn", channels=[16, 32], hidden=64, input_shape=[1, 28, 28])
#: The hyper-parameters of the demo.
BATCHES, RATES, DECAYS = (64, 256), (1e-3, 1e-4), (0.0, 1e-4)
#: Slow configs of "mixed": one in so many, the others one eighth of its time a row (measured, see `mixed`).
SLOW_EVERY = 5
#: Fast and slow of "mixed".
FAST, SLOW = model("mlp", hidden=[128]), model("mlp", hidden=[600, 600])
#: Weights and two moments of Adam, float32.
STATE_BYTES = 12

_PART = Fragment("create table {name} as select id, img, label from {source} where id <= %(rows)s::bigint")


def grid(models: Sequence[str]) -> List[Config]:
    """The hyper-parameters of the demo for these models, the batch size changing fastest."""
    combined = product(models, RATES, DECAYS, BATCHES)
    return [Config(each, lr, decay, batch) for each, lr, decay, batch in combined]


def mixed(count: Optional[int]) -> List[Config]:
    """Fast and slow configs, of which a slow one takes about eight times as long."""
    fast, slow = Config(FAST, 1e-3, 0.0, 256), Config(SLOW, 1e-3, 0.0, 128)
    return [replace(slow if n % SLOW_EVERY == 0 else fast, lr=lr) for n, lr in enumerate(rates(count or GRID_CONFIGS))]


def sized(megabytes: Optional[int]) -> List[Config]:
    """Four configs whose state takes `megabytes` (10^6 bytes) each: one hidden layer of the width that gives this."""
    width = max(1, round(((megabytes or 1) * 1e6 / STATE_BYTES - 10) / (PIXELS + 1 + 10)))
    return [Config(model("mlp", hidden=[width]), lr, 0.0, 256) for lr in rates(4)]


class Fashion(Workload):
    """The images as bytes in one column; which networks look at them is the grid's."""

    label, features, normalizing_const = "label", "img", 255.0

    def __init__(self, name: str, grids: Mapping[str, Grid]) -> None:
        self.name = name
        self.grids = grids

    def store(self, db: PsycopgDatabase, raw: str, checked: str, size: Size) -> None:
        load_fashion_mnist(db)
        _take(db, raw, "fashion_train", size.rows)
        _take(db, checked, "fashion_test", size.validation_rows)

    def arrays(self, size: Size) -> Data:
        return Data(_images("train", size.rows), _images("t10k", size.validation_rows), len(FASHION_CLASSES))

    def module(self, config: Config, data: Data) -> nn.Module:
        return plain.build(config.architecture, (PIXELS, (), data.classes))


def _take(db: PsycopgDatabase, name: str, source: str, rows: Optional[int]) -> None:
    db.rows(fill(_PART, name=ident(name), source=ident(source)), rows=rows or 1 << 40)


def _images(part: str, rows: Optional[int]) -> Arrays:
    pixels, labels = _files(part)
    return Arrays(((pixels[:rows].float() / 255).flatten(1),), labels[:rows])


@lru_cache(maxsize=2)
def _files(part: str) -> Tuple[Tensor, Tensor]:
    pixels = read_idx(FASHION_FOLDER / f"{part}-images-idx3-ubyte.gz")
    labels = read_idx(FASHION_FOLDER / f"{part}-labels-idx1-ubyte.gz")
    names = np.array(FASHION_CLASSES)
    # Classes count in the order of their names, as they do in the database.
    order = np.argsort(np.argsort(names))
    return torch.from_numpy(pixels.copy()), torch.from_numpy(order[labels].astype(np.int64))
