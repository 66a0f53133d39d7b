"""The other side of the throughput ratio: a plain PyTorch loop over float32 tensors in memory, one thread.

A process of its own: `python -m experiments.bench.raw_loop mlp 256 60000 8 index` trains `mlp` in batches of
256 on 60,000 shuffled rows for 8 epochs, and writes the time at which each epoch ends. Rows of a batch are
taken by `x[index]`, as such loops are written, or with `select` by `x.index_select`, which is faster.
"""

from __future__ import annotations

import sys
import time

import torch
from torch import nn

from cerebro_db.datasets import FASHION_FOLDER, read_idx


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 28)),
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 49, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip


TAKES = {"index": lambda x, index: x[index], "select": lambda x, index: x.index_select(0, index)}


def main(model: str, batch_rows: int, rows: int, epochs: int, way: str) -> None:
    take = TAKES[way]
    torch.set_num_threads(1)
    x = torch.from_numpy(read_idx(FASHION_FOLDER / "train-images-idx3-ubyte.gz")[:rows].reshape(-1, 784).copy())
    y = torch.from_numpy(read_idx(FASHION_FOLDER / "train-labels-idx1-ubyte.gz")[:rows].copy()).long()
    x = x.float() / 255
    x = x.reshape(-1, 28, 28) if model == "cnn" else x
    module = mlp() if model == "mlp" else cnn()
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-3)
    for _ in range(epochs):
        for index in torch.randperm(len(x)).split(batch_rows):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(module(take(x, index)), take(y, index))
            loss.backward()
            optimizer.step()
        sys.stdout.write(f"{time.time()}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
