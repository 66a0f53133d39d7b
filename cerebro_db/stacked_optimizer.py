"""Optimizers of several configs as one: a fused kernel of torch's over rows of their parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Sequence, Tuple, Type

import torch
from torch import Tensor

from cerebro_db.stacked import FlatParameters, UnstackableError


@dataclass
class _Part:
    """The configs whose optimizers have the same arguments and have taken the same number of steps."""

    rows: List[int]
    arguments: Dict[str, Any]
    #: A tensor [n] per config.
    values: List[Tensor]
    gradients: List[Tensor]
    kept: Dict[str, List[Tensor]]
    #: One number, which every config of the part shares.
    steps: Tensor

    def step(self) -> None:
        raise NotImplementedError


class _Adam(_Part):
    """torch.optim.Adam, and AdamW with `kernel`."""

    kernel = staticmethod(torch._fused_adam_)

    def step(self) -> None:
        given, steps = self.arguments, [self.steps] * len(self.rows)
        self.steps += 1
        self.kernel(
            self.values, self.gradients, self.kept["exp_avg"], self.kept["exp_avg_sq"], [], steps, lr=given["lr"],
            beta1=given["betas"][0], beta2=given["betas"][1], weight_decay=given["weight_decay"], eps=given["eps"],
            amsgrad=False, maximize=given["maximize"],
        )  # fmt: skip


class _AdamW(_Adam):
    kernel = staticmethod(torch._fused_adamw_)


class _SGD(_Part):
    """torch.optim.SGD; a first step makes the momentum of its gradient."""

    def step(self) -> None:
        given, first = self.arguments, not self.steps.item()
        self.steps += 1
        torch._fused_sgd_(
            self.values, self.gradients, self.kept.get("momentum_buffer", []), weight_decay=given["weight_decay"],
            momentum=given["momentum"], lr=given["lr"], dampening=given["dampening"], nesterov=given["nesterov"],
            maximize=given["maximize"], is_first_step=first,
        )  # fmt: skip


_KINDS: Dict[Type[torch.optim.Optimizer], Type[_Part]] = {
    torch.optim.Adam: _Adam, torch.optim.AdamW: _AdamW, torch.optim.SGD: _SGD,
}


class StackedOptimizer:
    """What the optimizers of B configs would do, over `FlatParameters`. Raises UnstackableError for other kinds.

    What they keep moves here, one after the other; `give_back` fills them again.
    """

    def __init__(self, optimizers: Sequence[torch.optim.Optimizer], parameters: FlatParameters) -> None:
        kind = type(optimizers[0])
        if kind not in _KINDS or any(type(each) is not kind for each in optimizers):
            raise UnstackableError(f"optimizer {kind.__name__} is not computed for several configs at once")
        self._optimizers = optimizers
        self._parameters = parameters
        self._kept = {name: parameters.empty() for name in _names(optimizers)}
        self._parts = [self._part(_KINDS[kind], rows) for rows in _alike(optimizers)]
        self._part_of = {row: part for part in self._parts for row in part.rows}
        for row, optimizer in enumerate(optimizers):
            for name, kept in self._kept.items():
                parameters.gather(kept, row, _state(optimizer, name))
            optimizer.state.clear()

    def step(self) -> None:
        """One step of every config by the gradients of the parameters."""
        with torch.no_grad():
            for part in self._parts:
                part.step()

    def give_back(self, number: int) -> None:
        """Write what is kept of a config, and the number of steps, into its optimizer."""
        views = {name: self._parameters.views(kept) for name, kept in self._kept.items()}
        part = self._part_of[number]
        for place, parameter in enumerate(_parameters(self._optimizers[number])):
            kept = {name: view[place][number] for name, view in views.items()}
            state = {name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in kept.items()}
            if isinstance(part, _Adam):
                state["step"] = part.steps.clone()
            if state:
                self._optimizers[number].state[parameter] = state

    def _part(self, kind: Type[_Part], rows: List[int]) -> _Part:
        kept = {name: [tensor[row] for row in rows] for name, tensor in self._kept.items()}
        flat = self._parameters
        values, gradients = ([tensor[row] for row in rows] for tensor in (flat.values, flat.gradients))
        first = self._optimizers[rows[0]]
        return kind(rows, first.param_groups[0], values, gradients, kept, torch.tensor(_steps(first)))


def _names(optimizers: Sequence[torch.optim.Optimizer]) -> Tuple[str, ...]:
    """The tensors that these optimizers keep for each parameter."""
    groups = [optimizer.param_groups[0] for optimizer in optimizers]
    if any(len(optimizer.param_groups) > 1 or group.get("amsgrad") for optimizer, group in zip(optimizers, groups)):
        raise UnstackableError("an optimizer with amsgrad is not computed for several configs at once")
    if isinstance(optimizers[0], torch.optim.SGD):
        moving = {group["momentum"] != 0 for group in groups}
        if len(moving) > 1:
            raise UnstackableError("SGD with and without momentum are not computed at once")
        return ("momentum_buffer",) if moving.pop() else ()
    return ("exp_avg", "exp_avg_sq")


def _parameters(optimizer: torch.optim.Optimizer) -> List[Tensor]:
    return list(optimizer.param_groups[0]["params"])


def _state(optimizer: torch.optim.Optimizer, name: str) -> List[Tensor]:
    """A tensor that is kept for each parameter; zeros before the first step."""
    kept = [optimizer.state.get(parameter, {}).get(name) for parameter in _parameters(optimizer)]
    return [torch.zeros_like(p) if k is None else k for k, p in zip(kept, _parameters(optimizer))]


def _steps(optimizer: torch.optim.Optimizer) -> float:
    """Steps taken; of SGD, which counts none, whether it has a momentum."""
    states = [state for state in optimizer.state.values() if state]
    return float(states[0].get("step", 1.0)) if states else 0.0


def _alike(optimizers: Sequence[torch.optim.Optimizer]) -> List[List[int]]:
    """Rows by arguments and steps."""
    found: Dict[str, List[int]] = {}
    for row, optimizer in enumerate(optimizers):
        given = {name: value for name, value in optimizer.param_groups[0].items() if name != "params"}
        found.setdefault(repr((sorted(given.items(), key=lambda item: item[0]), _steps(optimizer))), []).append(row)
    return list(found.values())
