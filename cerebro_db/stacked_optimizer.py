"""Optimizers of several configs as one: a fused kernel of torch's over rows of their parameters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Tuple, Type

import torch
from torch import Tensor

from cerebro_db.stacked import FlatParameters, UnstackableError


@dataclass
class _Part:
    """The configs whose optimizers have the same arguments and have taken the same number of steps."""

    arguments: Dict[str, Any]
    #: One number, which every config of the part shares.
    steps: Tensor
    #: A tensor [n] per config.
    values: List[Tensor] = field(default_factory=list)
    gradients: List[Tensor] = field(default_factory=list)
    kept: Dict[str, List[Tensor]] = field(default_factory=dict)

    def step(self) -> None:
        raise NotImplementedError


class _Adam(_Part):
    """torch.optim.Adam, and AdamW with `kernel`."""

    kernel = staticmethod(torch._fused_adam_)

    def step(self) -> None:
        given, steps = self.arguments, [self.steps] * len(self.values)
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

    What they keep moves here as they are added; `give_back` fills them again.
    """

    def __init__(self, like: torch.optim.Optimizer, parameters: FlatParameters) -> None:
        self._kind = type(like)
        if self._kind not in _KINDS:
            raise UnstackableError(f"optimizer {self._kind.__name__} is not computed for several configs at once")
        self._parameters = parameters
        self._kept = {name: parameters.empty() for name in _names(like)}
        #: The configs by arguments and steps, and the part of each.
        self._parts: Dict[str, _Part] = {}
        self._part_of: List[_Part] = []

    def add(self, row: int, optimizer: torch.optim.Optimizer) -> None:
        """Move what the optimizer of the next config keeps here."""
        if type(optimizer) is not self._kind or _names(optimizer) != tuple(self._kept):
            raise UnstackableError("optimizers of two kinds, or with and without momentum, are not computed at once")
        given = {name: value for name, value in optimizer.param_groups[0].items() if name != "params"}
        steps = _steps(optimizer)
        alike = repr((sorted(given.items(), key=lambda item: item[0]), steps))
        part = self._parts.setdefault(alike, _KINDS[self._kind](optimizer.param_groups[0], torch.tensor(steps)))
        for name, kept in self._kept.items():
            self._parameters.gather(kept, row, _state(optimizer, name))
            part.kept.setdefault(name, []).append(kept[row])
        part.values.append(self._parameters.values[row])
        part.gradients.append(self._parameters.gradients[row])
        self._part_of.append(part)
        optimizer.state.clear()

    def step(self) -> None:
        """One step of every config by the gradients of the parameters."""
        with torch.no_grad():
            for part in self._parts.values():
                part.step()

    def give_back(self, row: int, optimizer: torch.optim.Optimizer) -> None:
        """Write what is kept of a config, and the number of steps, into its optimizer."""
        views = {name: self._parameters.views(kept) for name, kept in self._kept.items()}
        part = self._part_of[row]
        for place, parameter in enumerate(_parameters(optimizer)):
            kept = {name: view[place][row] for name, view in views.items()}
            state = {name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in kept.items()}
            if isinstance(part, _Adam):
                state["step"] = part.steps.clone()
            if state:
                optimizer.state[parameter] = state


def _names(optimizer: torch.optim.Optimizer) -> Tuple[str, ...]:
    """The tensors that an optimizer keeps for each parameter."""
    group = optimizer.param_groups[0]
    if len(optimizer.param_groups) > 1 or group.get("amsgrad"):
        raise UnstackableError("an optimizer with amsgrad is not computed for several configs at once")
    if isinstance(optimizer, torch.optim.SGD):
        return ("momentum_buffer",) if group["momentum"] else ()
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
