"""What the training loop trains: one config, or several as one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, List, Optional, Protocol, Sequence, Tuple

import torch
from torch import Tensor, nn

from cerebro_db.objective import loss_function, metric_sum, row_losses
from cerebro_db.phases import Mark, unmarked
from cerebro_db.stacked import FlatParameters, StackedModule, UnstackableError
from cerebro_db.stacked_optimizer import StackedOptimizer
from cerebro_db.state import Trainee

Inputs = Tuple[Tensor, ...]
#: The outputs [width, rows, ...] of a batch, and the mean losses.
Scored = Tuple[Tensor, List[float]]


@dataclass(frozen=True)
class Objective:
    """What a config minimises and reports."""

    #: (output, target) -> mean over the batch, a scalar tensor.
    loss: Callable[[Tensor, Tensor], Tensor]
    #: (output, target) -> sum over the batch's rows, a scalar tensor.
    metric: Optional[Callable[[Tensor, Tensor], Tensor]] = None
    #: Largest norm of all gradients together; None leaves them.
    clip_norm: Optional[float] = None
    #: (output, target) -> the loss of each row [rows]; None where it is not known.
    row_losses: Optional[Callable[[Tensor, Tensor], Tensor]] = None

    @classmethod
    def named(cls, loss: str, metric: Optional[str], clip_norm: Optional[float] = None) -> Objective:
        """By the canonical names of `params`."""
        return cls(loss_function(loss), metric_sum(metric) if metric else None, clip_norm, row_losses(loss))


class Scorer(Protocol):
    """One or several configs, `width` of them, which see the same batches."""

    width: int
    #: (output, target) -> sum over the batch's rows, of one config.
    metric: Optional[Callable[[Tensor, Tensor], Tensor]]
    #: Told of every phase of a step that ends.
    mark: Mark

    @property
    def training(self) -> bool:
        """The mode, as of `nn.Module`."""

    def mode(self, training: bool) -> None:
        """Set it, as `nn.Module.train`."""

    def score(self, inputs: Inputs, target: Tensor) -> Scored:
        """Call it without gradients."""


class Learner(Scorer, Protocol):
    """The same, to be trained."""

    def step(self, inputs: Inputs, target: Tensor) -> Scored:
        """One optimizer step; what is told is of before it."""

    def end(self, rows: Sequence[int]) -> None:
        """The pass is over; `rows`: what each config has trained on."""

    def give_back(self, number: int) -> None:
        """After the end: let the trainee of a config, and torch's random numbers, be what they have become."""


class Module:
    """A module that is scored."""

    width = 1

    def __init__(self, module: nn.Module, objective: Objective, mark: Mark = unmarked) -> None:
        self._module = module
        self.mark = mark
        self._objective = objective
        self.metric = objective.metric

    @property
    def training(self) -> bool:
        return self._module.training

    def mode(self, training: bool) -> None:
        self._module.train(training)

    def score(self, inputs: Inputs, target: Tensor) -> Scored:
        output = self._module(*inputs)
        return output.unsqueeze(0), [self._objective.loss(output, target).item()]


class Alone(Module):
    """One config by plain torch: the bits are those of a loop written by hand."""

    def __init__(self, trainee: Trainee, objective: Objective, mark: Mark = unmarked) -> None:
        super().__init__(trainee.module, objective, mark)
        self._trainee = trainee

    def step(self, inputs: Inputs, target: Tensor) -> Scored:
        trainee, objective, mark = self._trainee, self._objective, self.mark
        trainee.optimizer.zero_grad()
        mark("zero gradients")
        output = trainee.module(*inputs)
        mark("forward")
        loss = objective.loss(output, target)
        mark("loss")
        loss.backward()  # type: ignore[no-untyped-call]
        if objective.clip_norm is not None:
            nn.utils.clip_grad_norm_(trainee.module.parameters(), objective.clip_norm)
        mark("backward")
        trainee.optimizer.step()
        mark("optimizer")
        trainee.steps += 1
        scored = output.detach().unsqueeze(0), [loss.item()]
        mark("read loss")
        return scored

    def end(self, rows: Sequence[int]) -> None:
        self._trainee.rows += rows[0]

    def give_back(self, number: int) -> None:
        """Its trainee is what is trained."""


class Stack:
    """Room for several configs whose modules differ in values only, whose optimizers are of one kind; see `stacked`.

    Weights and what optimizers keep move into the stack as configs are added, and out of it as they are given back:
    they are in memory once. `like` is one of the `width` configs. Raises UnstackableError.
    """

    def __init__(self, width: int, like: Trainee, objective: Objective, mark: Mark = unmarked) -> None:
        self.width = width
        self.mark = mark
        self._trainees: List[Trainee] = []
        self._generators: List[torch.Generator] = []
        self._loss, self.metric = objective.row_losses, objective.metric
        if self._loss is None:
            raise UnstackableError("the loss of single rows is not known")
        self._parameters = FlatParameters(width, like.module)
        self._leaves = list(self._parameters.leaves.values())
        self._module = StackedModule(width, like.module, self._parameters.leaves, self._generators)
        self._optimizer = StackedOptimizer(like.optimizer, self._parameters)
        self._limits = torch.full((width, 1), float("inf"))
        self._clips = False

    def add(self, trainee: Trainee, objective: Objective, rng_state: Tensor) -> None:
        """The next config, with its random numbers."""
        row = len(self._trainees)
        self._parameters.add(row, trainee.module)
        self._module.add(row, trainee.module)
        self._optimizer.add(row, trainee.optimizer)
        self._parameters.vacate(trainee.module)  # last: what an optimizer does not keep yet is zeros of their shapes
        self._generators.append(torch.Generator())
        self._generators[row].set_state(rng_state)
        if objective.clip_norm is not None:
            self._limits[row], self._clips = objective.clip_norm, True
        self._trainees.append(trainee)

    @property
    def training(self) -> bool:
        return self._module.training

    def mode(self, training: bool) -> None:
        self._module.training = training

    def step(self, inputs: Inputs, target: Tensor) -> Scored:
        mark = self.mark
        output = self._module(*inputs)
        mark("forward")
        losses = self._losses(output, target)
        mark("loss")
        self._parameters.take(torch.autograd.grad(losses.sum(), self._leaves, allow_unused=True))
        if self._clips:
            self._clip()
        mark("backward")
        self._optimizer.step()
        for trainee in self._trainees:
            trainee.steps += 1
        mark("optimizer")
        scored = output.detach(), losses.tolist()
        mark("read loss")
        return scored

    def score(self, inputs: Inputs, target: Tensor) -> Scored:
        output = self._module(*inputs)
        return output, self._losses(output, target).tolist()

    def end(self, rows: Sequence[int]) -> None:
        for trainee, count in zip(self._trainees, rows):
            trainee.rows += count

    def give_back(self, number: int) -> None:
        trainee = self._trainees[number]
        self._parameters.give_back(number, trainee.module)
        self._module.give_back(number, trainee.module)
        self._optimizer.give_back(number, trainee.optimizer)
        torch.set_rng_state(self._generators[number].get_state())

    def _losses(self, output: Tensor, target: Tensor) -> Tensor:
        """The mean loss of each config [B]."""
        assert self._loss is not None
        repeated = target.repeat(self.width, *(1,) * (target.dim() - 1))
        return self._loss(output.flatten(0, 1), repeated).view(self.width, -1).mean(1)

    def _clip(self) -> None:
        """As `nn.utils.clip_grad_norm_`, for each config."""
        gradients = self._parameters.gradients
        norms = torch.linalg.vector_norm(gradients, dim=1, keepdim=True)
        gradients.mul_((self._limits / (norms + 1e-6)).clamp_(max=1.0))
