"""Losses, metrics, optimizers and schedules by their canonical names; see `params` for the names.

Everything is plain torch with torch's defaults, so that a loop written by hand gives the same bits.
A model's output is [rows, n], or [rows] where n is 1; a target is class codes [rows], values [rows]
or vectors [rows, n].
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, Iterable, Optional

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.lr_scheduler import LRScheduler

from cerebro_db.errors import UsageError
from cerebro_db.layout import Target
from cerebro_db.params import CompileParams, top_k

#: (output, target) -> a number as a tensor without dimensions.
Measure = Callable[[Tensor, Tensor], Tensor]

_OPTIMIZERS: Dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW,
    "adamax": torch.optim.Adamax, "nadam": torch.optim.NAdam, "radam": torch.optim.RAdam,
    "rmsprop": torch.optim.RMSprop, "adagrad": torch.optim.Adagrad, "adadelta": torch.optim.Adadelta,
    "asgd": torch.optim.ASGD,
}
_SCHEDULES: Dict[str, Callable[..., LRScheduler]] = {
    "step": torch.optim.lr_scheduler.StepLR,
    "multi_step": torch.optim.lr_scheduler.MultiStepLR,
    "exponential": torch.optim.lr_scheduler.ExponentialLR,
    "cosine": torch.optim.lr_scheduler.CosineAnnealingLR,
    "linear": torch.optim.lr_scheduler.LinearLR,
    "polynomial": torch.optim.lr_scheduler.PolynomialLR,
}
_TORCH_NAMES = {"t_max": "T_max"}


def _cross_entropy(output: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    return functional.cross_entropy(output, target.long(), reduction=reduction)


def _like_output(loss: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Targets in the type of the output, outputs in the shape of the target: [rows, 1] meets [rows]."""

    def apply(output: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
        return loss(output.reshape(target.shape), target.to(output.dtype), reduction=reduction)

    return apply


_LOSSES: Dict[str, Callable[..., Tensor]] = {
    "cross_entropy": _cross_entropy,
    "bce_with_logits": _like_output(functional.binary_cross_entropy_with_logits),
    "mse": _like_output(functional.mse_loss),
    "mae": _like_output(functional.l1_loss),
    "huber": _like_output(functional.huber_loss),
    "smooth_l1": _like_output(functional.smooth_l1_loss),
}


def loss_function(name: str) -> Measure:
    """The mean loss over a batch, differentiable: (output, target) -> float32 []."""
    return _LOSSES[name]


def row_losses(name: str) -> Measure:
    """The loss of each row: (output, target) -> float32 [rows], whose mean `loss_function` gives."""
    loss = _LOSSES[name]

    def apply(output: Tensor, target: Tensor) -> Tensor:
        losses = loss(output, target, reduction="none")
        return losses if losses.dim() == 1 else losses.flatten(1).mean(1)

    return apply


def metric_sum(name: str) -> Measure:
    """The metric summed over the rows of a batch: (output, target) -> int64 [] or float64 []."""
    k = top_k(name)
    return _METRICS[name] if k is None else lambda output, target: _top_k(output, target, k)


def _accuracy(output: Tensor, target: Tensor) -> Tensor:
    """Rows whose largest output is the target's; one output is a logit of class 1."""
    if output.dim() == 1 or output.shape[1] == 1:
        return (output.reshape(target.shape) > 0).eq(target).sum()
    return output.argmax(1).eq(target).sum()


def _binary_accuracy(output: Tensor, target: Tensor) -> Tensor:
    """As accuracy; of a vector of labels, each row gives the share of its labels that are right."""
    if target.dim() == 1:
        return _accuracy(output, target)
    return _row_means((output > 0).eq(target > 0.5)).sum()


def _top_k(output: Tensor, target: Tensor, k: int) -> Tensor:
    return output.topk(k, 1).indices.eq(target.unsqueeze(1)).any(1).sum()


def _absolute(output: Tensor, target: Tensor) -> Tensor:
    return _row_means((output.reshape(target.shape).double() - target.double()).abs()).sum()


def _squared(output: Tensor, target: Tensor) -> Tensor:
    return _row_means((output.reshape(target.shape).double() - target.double()).square()).sum()


def _row_means(values: Tensor) -> Tensor:
    return values.double().reshape(len(values), -1).mean(1)


_METRICS: Dict[str, Measure] = {
    "accuracy": _accuracy, "binary_accuracy": _binary_accuracy, "mae": _absolute, "mse": _squared,
}


def optimizer(params: CompileParams, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """The plain torch optimizer with the given arguments and torch's defaults for the others."""
    return _OPTIMIZERS[params.optimizer](parameters, **dict(params.optimizer_args))


def schedule(params: CompileParams, optimizer: torch.optim.Optimizer) -> Optional[LRScheduler]:
    """The schedule of the learning rate, to be stepped once after each epoch; None without one."""
    if params.schedule is None:
        return None
    name, arguments = params.schedule
    named: Dict[str, Any] = {_TORCH_NAMES.get(key, key): value for key, value in arguments}
    return _SCHEDULES[name](optimizer, **named)


def check_target(loss: str, metric: Optional[str], target: Target) -> None:
    """Raise UsageError where loss or metric cannot serve the target, with what would."""
    if not _loss_fits(loss, target):
        raise UsageError(f"loss {loss} does not fit {_described(target)}; use {_advice(target, 'loss')}")
    if metric is not None and not _metric_fits(metric, target):
        advice = _advice(target, "metric")
        raise UsageError(f"metric {metric} does not fit {_described(target)}; use {advice}")


def _loss_fits(loss: str, target: Target) -> bool:
    if loss == "cross_entropy":
        return target.kind == "class" and target.outputs > 1
    if loss == "bce_with_logits":
        return target.kind == "vector" or (target.kind == "class" and target.outputs == 2)
    return target.kind != "class"


def _metric_fits(metric: str, target: Target) -> bool:
    k = top_k(metric)
    if k is not None:
        return target.kind == "class" and k < target.outputs
    if metric == "binary_accuracy":
        return target.kind == "vector" or (target.kind == "class" and target.outputs == 2)
    return (metric == "accuracy") == (target.kind == "class")


def _described(target: Target) -> str:
    size = {"class": f" of {target.outputs} classes", "vector": f" of {math.prod(target.shape)} numbers"}
    return f"{target.kind} target {target.source!r} ({target.sql_type}){size.get(target.kind, '')}"


def _advice(target: Target, what: str) -> str:
    advice = {
        ("class", "loss"): "cross_entropy (with two classes also bce_with_logits), or pack a numeric target",
        ("class", "metric"): "accuracy, or top_<k>_accuracy with k below the number of classes",
        ("value", "loss"): "mse, mae, huber or smooth_l1, or pack the target as classes",
        ("value", "metric"): "mae or mse",
        ("vector", "loss"): "mse, mae, huber or smooth_l1, or bce_with_logits for labels of 0 and 1",
        ("vector", "metric"): "mae or mse, or binary_accuracy for labels of 0 and 1",
    }
    return advice[target.kind, what]


def probabilities(loss: str, output: Tensor) -> Tensor:
    """Outputs as probabilities [rows, classes]; of independent labels (a vector target) [rows, labels].

    Raises UsageError for a regression, which has none.
    """
    if loss == "cross_entropy":
        return output.softmax(1)
    if loss != "bce_with_logits":
        raise UsageError(f"a model of loss {loss} gives values, not probabilities; use pred_type 'response'")
    if output.dim() > 1 and output.shape[1] > 1:
        return output.sigmoid()
    logits = output.reshape(-1, 1)
    return torch.cat([-logits, logits], 1).sigmoid()
