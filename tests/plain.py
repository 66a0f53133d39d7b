"""Training as anyone would write it in PyTorch, with nothing of cerebro_db: what runs are held against.

One process, one thread; each config visits the segments in the order that `cerebro.hop` recorded.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Sequence, Tuple

import numpy as np
import torch
from safetensors.torch import load
from torch import nn

MEGABYTE = 1_000_000

Rows = Tuple[List[np.ndarray], np.ndarray]


@dataclass
class Segment:
    """A segment's rows as packed: the rows of each buffer, and all rows in order of buffer_id."""

    buffer_rows: List[int]
    inputs: List[np.ndarray]
    target: np.ndarray


@dataclass
class Packed:
    """A packed table, read through a connection and decoded with NumPy."""

    segments: Dict[int, Segment]
    layout: Dict[str, Any]
    row_bytes: int


def read(connection: Any, table: str) -> Packed:
    with connection.cursor() as cursor:
        cursor.execute(f"select layout::text from {table}_summary")
        layout = json.loads(cursor.fetchone()[0])
        columns = [*layout["inputs"], layout["target"]]
        names = ", ".join(f'"{column["column"]}"' for column in columns)
        numbers = _segment_numbers(cursor, table)
        cursor.execute(f"select __dist_key__, {names} from {table} order by buffer_id")
        stored: Dict[int, List[List[np.ndarray]]] = {}
        for key, *values in cursor.fetchall():
            arrays = [
                np.frombuffer(bytes(value), column["dtype"]).reshape(-1, *column["shape"])
                for value, column in zip(values, columns)
            ]
            stored.setdefault(numbers[key], []).append(arrays)
    row_bytes = sum(
        int(np.prod(column["shape"], dtype=int)) * np.dtype(column["dtype"]).itemsize for column in columns
    )
    return Packed({key: _segment(buffers) for key, buffers in stored.items()}, layout, row_bytes)


def _segment_numbers(cursor: Any, table: str) -> Dict[int, int]:
    """__dist_key__ -> number of the segment. On Greenplum segment i lies on primary i modulo their number."""
    cursor.execute("select version() ~ 'Greenplum'")
    if not cursor.fetchone()[0]:
        cursor.execute(f"select distinct __dist_key__, __dist_key__ from {table}")
        return dict(cursor.fetchall())
    cursor.execute("select count(*) from gp_segment_configuration where role = 'p' and content >= 0")
    primaries = cursor.fetchone()[0]
    cursor.execute(f"select distinct gp_segment_id, __dist_key__ from {table} order by 1, 2")
    numbers: Dict[int, int] = {}
    for primary, key in cursor.fetchall():
        before = sum(number % primaries == primary for number in numbers.values())
        numbers[key] = before * primaries + primary
    return numbers


def _segment(buffers: List[List[np.ndarray]]) -> Segment:
    joined = [np.concatenate(column) for column in zip(*buffers)]
    return Segment([len(buffer[-1]) for buffer in buffers], joined[:-1], joined[-1])


def row_order(segment: Segment, key: Sequence[int], window_rows: int) -> np.ndarray:
    """Rows of an epoch: buffers permuted, windows of whole buffers, rows permuted inside a window."""
    random = np.random.RandomState(list(key))
    starts = np.cumsum([0, *segment.buffer_rows])
    windows: List[List[int]] = []
    room = 0
    for buffer in random.permutation(len(segment.buffer_rows)):
        if not windows or segment.buffer_rows[buffer] > room:
            windows.append([])
            room = window_rows
        windows[-1].append(buffer)
        room -= segment.buffer_rows[buffer]
    rows = []
    for window in windows:
        here = np.concatenate([np.arange(starts[b], starts[b + 1]) for b in window])
        rows.append(here[random.permutation(len(here))])
    return np.concatenate(rows)


@dataclass
class Config:
    """A config in plain PyTorch."""

    make: Callable[[], nn.Module]
    optimizer: Callable[[Any], torch.optim.Optimizer]
    batch_size: int
    passes: int = 1
    schedule: Any = None
    loss: Callable[..., torch.Tensor] = nn.functional.cross_entropy


def train(
    packed: Packed,
    config: Config,
    mst_key: int,
    visits: Sequence[Tuple[int, int]],
    seed: int = 0,
    window_mb: int = 64,
) -> Dict[str, torch.Tensor]:
    """Weights after the visits [(epoch, segment), ...], in that order."""
    torch.set_num_threads(1)
    torch.manual_seed((seed << 32) + mst_key)
    module = config.make()
    optimizer = config.optimizer(module.parameters())
    schedule = config.schedule(optimizer) if config.schedule else None
    window_rows = max(1, window_mb * MEGABYTE // packed.row_bytes)
    for place, (epoch, number) in enumerate(visits):
        segment = packed.segments[number]
        for each_pass in range((epoch - 1) * config.passes + 1, epoch * config.passes + 1):
            order = row_order(segment, (seed, each_pass, number), window_rows)
            for start in range(0, len(order), config.batch_size):
                inputs, target = _tensors(segment, packed.layout, order[start : start + config.batch_size])
                optimizer.zero_grad()
                loss = config.loss(module(*inputs), target)
                loss.backward()
                optimizer.step()
        last_of_epoch = place + 1 == len(visits) or visits[place + 1][0] != epoch
        if schedule is not None and last_of_epoch:
            schedule.step()
    return {name: tensor.detach() for name, tensor in module.state_dict().items()}


def _tensors(segment: Segment, layout: Dict[str, Any], rows: np.ndarray) -> Tuple[List[torch.Tensor], torch.Tensor]:
    inputs = []
    for column, values in zip(layout["inputs"], segment.inputs):
        taken = values[rows]
        if column["kind"] == "categorical":
            inputs.append(torch.tensor(taken.astype(np.int64)))
        elif column["kind"] == "array":
            inputs.append(torch.tensor(taken.astype(np.float32)) / layout["normalizing_const"])
        else:
            inputs.append(torch.tensor(taken.astype(np.float32)))
    return inputs, torch.tensor(segment.target[rows].astype(np.int64))


def same_bits(stored: bytes, expected: Dict[str, torch.Tensor]) -> None:
    """Fail unless stored weights are the expected ones, tensor by tensor, bit by bit.

    A stored name may stand in a module around it: `body.0.weight` is `0.weight`.
    """
    found = load(stored)
    assert len(found) == len(expected), (sorted(found), sorted(expected))
    for name, tensor in expected.items():
        (match,) = [found[other] for other in found if other == name or other.endswith("." + name)]
        assert match.dtype == tensor.dtype, name
        assert torch.equal(match, tensor), f"{name}: up to {(match - tensor).abs().max()} apart"


def mlp(inputs: int, hidden: int, outputs: int, dropout: float = 0.0) -> Callable[[], nn.Module]:
    """Linear, ReLU (, Dropout), Linear over flat rows."""

    def make() -> nn.Module:
        middle = [nn.Dropout(dropout)] if dropout else []
        return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), *middle, nn.Linear(hidden, outputs))

    return make


class Image(nn.Module):
    """A convolution of 3 x 3, pooled, and two linear layers, over flat rows seen as one-channel squares.

    In memory the channels of a pixel lie side by side, as one does where speed counts: in torch's usual order the
    same sums are added up in another order, which shows in the last bit.
    """

    def __init__(self, side: int, channels: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.side = side
        self.body = nn.Sequential(
            nn.Conv2d(1, channels, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(channels * (side // 2) ** 2, hidden),
            nn.ReLU(),
            nn.Linear(hidden, outputs),
        )

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.body(rows.reshape(-1, self.side, self.side, 1).movedim(-1, 1))


def cnn(side: int, channels: int, hidden: int, outputs: int) -> Callable[[], nn.Module]:
    return lambda: Image(side, channels, hidden, outputs)


class Table(nn.Module):
    """Standardised numbers beside embeddings of the categories, then two linear layers."""

    def __init__(self, layout: Dict[str, Any]) -> None:
        super().__init__()
        self.kinds = [column["kind"] for column in layout["inputs"]]
        self.embeddings = nn.ModuleList()
        width = 0
        for place, column in enumerate(layout["inputs"]):
            if column["kind"] == "categorical":
                for words in column["vocabulary"]:
                    self.embeddings.append(nn.Embedding(len(words) + 1, 3))
                    width += 3
            else:
                self.register_buffer(f"mean_{place}", torch.tensor(column["mean"]))
                self.register_buffer(f"deviation_{place}", torch.tensor(column["deviation"]))
                width += len(column["mean"])
        self.body = nn.Sequential(nn.Linear(width, 8), nn.ReLU(), nn.Linear(8, 2))

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        embeddings = iter(self.embeddings)
        parts: List[torch.Tensor] = []
        for place, (kind, values) in enumerate(zip(self.kinds, inputs)):
            if kind == "categorical":
                parts += [next(embeddings)(values[:, column]) for column in range(values.shape[1])]
            else:
                parts.append((values - getattr(self, f"mean_{place}")) / getattr(self, f"deviation_{place}"))
        return self.body(torch.cat(parts, 1))


def visits(rows: Sequence[Dict[str, Any]], mst_key: int) -> List[Tuple[int, int]]:
    """Where a config was, from rows of cerebro.hop in order of started_at: [(epoch, segment), ...]."""
    return [(row["epoch"], row["segment_id"]) for row in rows if row["mst_key"] == mst_key]
