"""The networks of the workloads in plain PyTorch, as one writes them by hand; nothing here is from cerebro_db."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence, Tuple

import torch
from torch import Tensor, nn

Options = Dict[str, Any]


def mlp(widths: Sequence[int]) -> nn.Sequential:
    """Linear layers of these widths, the first the input's, with ReLU between them."""
    layers: List[nn.Module] = []
    for before, after in zip(widths, widths[1:]):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def cnn(shape: Sequence[int], channels: Sequence[int], hidden: int, classes: int) -> nn.Sequential:
    """Per entry of `channels` a 3x3 convolution, ReLU and a maximum over 2x2; then one hidden layer.

    Takes rows [rows, height, width] or flat ones, of the shape [channels, height, width].
    """
    before, height, width = shape
    layers: List[nn.Module] = [nn.Flatten(), nn.Unflatten(1, tuple(shape))]
    for after in channels:
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        before, height, width = after, height // 2, width // 2
    return nn.Sequential(*layers, nn.Flatten(), *mlp([before * height * width, hidden, classes]))


class Tabular(nn.Module):
    """Standardised numbers [rows, n] and an embedding per column of codes [rows, m], side by side into an MLP."""

    def __init__(self, numbers: int, cardinalities: Sequence[int], hidden: Sequence[int], classes: int) -> None:
        super().__init__()
        sizes = [int(min(600, round(1.6 * codes**0.56))) for codes in cardinalities]
        self.embeddings = nn.ModuleList(map(nn.Embedding, cardinalities, sizes))
        self.body = mlp([numbers + sum(sizes), *hidden, classes])

    def forward(self, numbers: Tensor, codes: Tensor) -> Any:
        embedded = [embed(column) for embed, column in zip(self.embeddings, codes.unbind(1))]
        return self.body(torch.cat([numbers, *embedded], 1))


#: What the rows of a workload look like: width of the numbers, codes of each category, classes.
Shape = Tuple[int, Tuple[int, ...], int]


def build(options: Options, shape: Shape) -> nn.Module:
    """The module of an architecture's JSON."""
    return _MAKERS[options["model"]](options, shape)


def _mlp(options: Options, shape: Shape) -> nn.Module:
    return mlp([shape[0], *options["hidden"], shape[2]])


def _cnn(options: Options, shape: Shape) -> nn.Module:
    return cnn(options["input_shape"], options["channels"], options["hidden"], shape[2])


def _tabular(options: Options, shape: Shape) -> nn.Module:
    return Tabular(shape[0], shape[1], options["hidden"], shape[2])


_MAKERS: Dict[str, Callable[[Options, Shape], nn.Module]] = {"mlp": _mlp, "cnn": _cnn, "tabular": _tabular}
