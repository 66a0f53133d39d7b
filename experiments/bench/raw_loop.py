"""The other side of the throughput ratios: plain PyTorch loops over float32 tensors in memory, one thread.

A process of its own, given JSON like {"configs": [["mlp", 256, 0.001, 0.0]], "rows": 60000, "epochs": 8,
"take": "index"}: it trains every config (model, batch size, learning rate, weight decay) one after the other
on the first rows, shuffled anew in each epoch, and writes for each a JSON list of the seconds of its epochs.
Rows of a batch are taken by `x[index]`, as such loops are written, or with "select" by `x.index_select`,
which is faster.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Callable, Dict, List, Tuple

import torch
from torch import Tensor, nn

from cerebro_db.datasets import FASHION_FOLDER, read_idx

#: Model, batch size, learning rate, weight decay.
Config = Tuple[str, int, float, float]

TAKES: Dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "index": lambda x, index: x[index],
    "select": lambda x, index: x.index_select(0, index),
}


def run(configs: List[Config], rows: int, epochs: int, take: str = "index") -> List[List[float]]:
    """Seconds of every config's epochs, trained in a process of its own."""
    case = json.dumps({"configs": configs, "rows": rows, "epochs": epochs, "take": take})
    command = [sys.executable, "-m", "experiments.bench.raw_loop", case]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 28)),
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 49, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip


def images(rows: int) -> Tuple[Tensor, Tensor]:
    """Inputs float32 [rows, 28, 28] and classes int64 [rows]."""
    x = torch.from_numpy(read_idx(FASHION_FOLDER / "train-images-idx3-ubyte.gz")[:rows].copy())
    y = torch.from_numpy(read_idx(FASHION_FOLDER / "train-labels-idx1-ubyte.gz")[:rows].copy())
    return x.float() / 255, y.long()


def train(config: Config, x: Tensor, y: Tensor, epochs: int, take: str) -> List[float]:
    """Seconds of each epoch."""
    model, batch, rate, decay = config
    module, taken, seconds = {"mlp": mlp, "cnn": cnn}[model](), TAKES[take], []
    optimizer = torch.optim.Adam(module.parameters(), lr=rate, weight_decay=decay)
    x = x.reshape(len(x), -1) if model == "mlp" else x
    for _ in range(epochs):
        started = time.perf_counter()
        for index in torch.randperm(len(x)).split(batch):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(module(taken(x, index)), taken(y, index))
            loss.backward()
            optimizer.step()
        seconds.append(time.perf_counter() - started)
    return seconds


def main(text: str) -> None:
    torch.set_num_threads(1)
    case = json.loads(text)
    x, y = images(case["rows"])
    for config in case["configs"]:
        seconds = train(tuple(config), x, y, case["epochs"], case["take"])
        sys.stdout.write(json.dumps(seconds) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
