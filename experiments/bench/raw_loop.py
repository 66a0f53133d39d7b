"""The other side of the throughput ratios: plain PyTorch loops over float32 tensors in memory, one thread.

A process of its own, `python -m experiments.bench.raw_loop ROWS TAKE`: it reads lines of JSON like ["mlp", 256,
0.001, 0.0] (model, batch size, learning rate, weight decay), trains that config for one epoch more on the first ROWS
images, shuffled anew, and writes its seconds. Rows of a batch are taken by `x[index]`, as such loops are written, or
with TAKE "select" by `x.index_select`, which is faster. Model "cnn_tuned" is "cnn" as one writes it who has measured:
pooled before each ReLU, the channels of a pixel side by side.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from functools import partial
from typing import Callable, Dict, Tuple

import torch
from torch import Tensor, nn

from cerebro_db.datasets import FASHION_FOLDER, read_idx

#: Model, batch size, learning rate, weight decay.
Config = Tuple[str, int, float, float]

TAKES: Dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "index": lambda x, index: x[index],
    "select": lambda x, index: x.index_select(0, index),
}


class RawLoops:
    """The process, which trains when it is asked and sleeps otherwise."""

    def __init__(self, rows: int, take: str = "index") -> None:
        command = [sys.executable, "-m", "experiments.bench.raw_loop", str(rows), take]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def epoch(self, config: Config) -> float:
        """Seconds of one epoch more of a config."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(config) + "\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def __enter__(self) -> RawLoops:
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.communicate()


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))


def cnn(tuned: bool = False) -> nn.Module:
    rectified = [nn.MaxPool2d(2), nn.ReLU()] if tuned else [nn.ReLU(), nn.MaxPool2d(2)]
    module = nn.Sequential(
        nn.Unflatten(1, (1, 28)),
        nn.Conv2d(1, 16, 3, padding=1), *rectified,
        nn.Conv2d(16, 32, 3, padding=1), *rectified,
        nn.Flatten(), nn.Linear(32 * 49, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip
    return module.to(memory_format=torch.channels_last) if tuned else module  # type: ignore[call-overload]


MODELS: Dict[str, Callable[[], nn.Module]] = {"mlp": mlp, "cnn": cnn, "cnn_tuned": partial(cnn, tuned=True)}


def images(rows: int) -> Tuple[Tensor, Tensor]:
    """Inputs float32 [rows, 28, 28] and classes int64 [rows]."""
    x = torch.from_numpy(read_idx(FASHION_FOLDER / "train-images-idx3-ubyte.gz")[:rows].copy())
    y = torch.from_numpy(read_idx(FASHION_FOLDER / "train-labels-idx1-ubyte.gz")[:rows].copy())
    return x.float() / 255, y.long()


class Loop:
    """A config's plain loop."""

    def __init__(self, config: Config, take: str) -> None:
        self._model, self._batch, rate, decay = config
        self._take = TAKES[take]
        self._module = MODELS[self._model]()
        self._optimizer = torch.optim.Adam(self._module.parameters(), lr=rate, weight_decay=decay)

    def epoch(self, x: Tensor, y: Tensor) -> float:
        """Seconds of a pass over x [rows, 28, 28] and y [rows]."""
        started = time.perf_counter()
        x = x.reshape(len(x), -1) if self._model == "mlp" else x
        for index in torch.randperm(len(x)).split(self._batch):  # type: ignore[no-untyped-call]
            self._optimizer.zero_grad()
            loss = nn.functional.cross_entropy(self._module(self._take(x, index)), self._take(y, index))
            loss.backward()  # type: ignore[no-untyped-call]
            self._optimizer.step()
        return time.perf_counter() - started


def main(rows: int, take: str) -> None:
    torch.set_num_threads(1)
    x, y = images(rows)
    loops: Dict[str, Loop] = {}
    for line in sys.stdin:
        if line not in loops:
            loops[line] = Loop(tuple(json.loads(line)), take)
        sys.stdout.write(f"{loops[line].epoch(x, y)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
