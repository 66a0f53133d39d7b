"""Modules of one shape computed as one: weights stacked, a batched product in place of several small ones.

The idea is horizontal fusion (Wang et al., "Horizontally Fused Training Array", MLSys 2021, section 3). Of B modules
every parameter becomes one tensor [B, *shape]; values between layers are [B, rows, ...]. What a config sees and
draws is what it would alone, but the order of additions differs, and so do last bits.
"""

from __future__ import annotations

from functools import reduce
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Type

import torch
from torch import Tensor, nn
from torch.nn import functional

from cerebro_db.networks import Flat, Shaped, Tabular

#: Values of B modules: [B, rows, ...] -> [B, rows, ...].
Layer = Callable[[Tensor], Tensor]

#: Modules that compute each value on its own, whatever its place.
_ELEMENTWISE = (
    nn.ReLU, nn.ReLU6, nn.GELU, nn.SiLU, nn.Mish, nn.Tanh, nn.Sigmoid, nn.LeakyReLU, nn.ELU, nn.SELU, nn.Hardswish,
    nn.Softplus, nn.Identity,
)  # fmt: skip


class UnstackableError(ValueError):
    """These modules have a layer that is not computed for several at once, or differ where they must not."""


class StackedModule:
    """B modules of the architecture of `like`. Parameters are leaves that the caller trains; buffers are its own.

    `tensors`: every parameter by its name, [B, *shape], but for weights of Linear [B, inputs, outputs]; `generators`:
    one per module, by the time that it is called. Raises UnstackableError.
    """

    def __init__(
        self, width: int, like: nn.Module, tensors: Mapping[str, Tensor], generators: Sequence[torch.Generator]
    ) -> None:
        self._layers = _Layers(width, like, tensors, generators)
        self._entry = self._layers.top(like)

    @property
    def training(self) -> bool:
        return self._layers.training

    @training.setter
    def training(self, mode: bool) -> None:
        self._layers.training = mode

    def __call__(self, *inputs: Tensor) -> Tensor:
        """The outputs [B, rows, ...] of inputs [rows, *shape]."""
        return self._entry(inputs)

    def add(self, number: int, module: nn.Module) -> None:
        """Read the buffers of one of them."""
        for name, buffer in module.named_buffers():
            self._layers.buffers[name][number].copy_(buffer)
        self._layers.check_common(number)

    def give_back(self, number: int, module: nn.Module) -> None:
        """Write the buffers of one of them into its module."""
        for name, buffer in module.named_buffers():
            buffer.copy_(self._layers.buffers[name][number])


class _Layers:
    """What the layers of a stack share. It knows none of them: a cycle would keep a stack in memory for long."""

    def __init__(
        self, width: int, like: nn.Module, tensors: Mapping[str, Tensor], generators: Sequence[torch.Generator]
    ) -> None:
        self.width = width
        self.training = True
        self.buffers = {name: buffer.new_empty(width, *buffer.shape) for name, buffer in like.named_buffers()}
        #: Names of buffers that all modules must have alike.
        self._constants: List[str] = []
        self._tensors = tensors
        self._generators = generators

    def top(self, module: nn.Module) -> Callable[[Tuple[Tensor, ...]], Tensor]:
        """The outermost module, which takes what the configs share."""
        if type(module) is Flat:
            body = self._layer(module.body, "body.")
            return lambda inputs: body(self._shared(torch.cat([values.flatten(1) for values in inputs], 1)))
        if type(module) is Shaped:
            inner, shape = self._layer(module.body, "body."), module.shape
            return lambda inputs: inner(self._shared(inputs[0].reshape(len(inputs[0]), *shape)))
        if type(module) is Tabular:
            return self._tabular(module)
        raise UnstackableError(f"{type(module).__name__} is not computed for several configs at once")

    def _shared(self, values: Tensor) -> Tensor:
        """What all configs see: [rows, ...] -> [B, rows, ...] without a copy."""
        return values.expand(self.width, *values.shape)

    def _layer(self, module: nn.Module, prefix: str) -> Layer:
        if type(module) is nn.Sequential:
            parts = [self._layer(part, f"{prefix}{name}.") for name, part in module.named_children()]
            return lambda values: reduce(lambda done, part: part(done), parts, values)
        if type(module) in _ELEMENTWISE:
            return module
        make = _MAKERS.get(type(module))
        if make is None:
            raise UnstackableError(f"layer {type(module).__name__} is not computed for several configs at once")
        return make(self, module, prefix)

    def _linear(self, module: nn.Module, prefix: str) -> Layer:
        weight, bias = self._tensors[f"{prefix}weight"], self._tensors.get(f"{prefix}bias")

        def apply(values: Tensor) -> Tensor:
            flat = values if values.dim() == 3 else values.flatten(1, -2)
            output = flat.bmm(weight) if bias is None else torch.baddbmm(bias.unsqueeze(1), flat, weight)
            return output if values.dim() == 3 else output.reshape(*values.shape[:-1], -1)

        return apply

    def _flatten(self, module: nn.Module, prefix: str) -> Layer:
        assert isinstance(module, nn.Flatten)
        if module.start_dim < 1:
            raise UnstackableError("layer Flatten joins rows")
        start, end = module.start_dim + 1, module.end_dim + (module.end_dim >= 0)
        return lambda values: values.flatten(start, end)

    def _dropout(self, module: nn.Module, prefix: str) -> Layer:
        assert isinstance(module, nn.Dropout)
        keep = 1.0 - module.p

        def apply(values: Tensor) -> Tensor:
            if not self.training or module.p == 0:
                return values
            # The draws of functional.dropout, of each config's own generator.
            noise = torch.empty(values.shape, dtype=values.dtype)
            for one, generator in zip(noise, self._generators):
                one.bernoulli_(keep, generator=generator)
            return values * (noise.div_(keep) if keep else noise)

        return apply

    def _layer_norm(self, module: nn.Module, prefix: str) -> Layer:
        assert isinstance(module, nn.LayerNorm)
        dims = len(module.normalized_shape)
        scale, shift = (self._tensors.get(f"{prefix}{name}") for name in ("weight", "bias"))

        def apply(values: Tensor) -> Tensor:
            between = (self.width, *(1,) * (values.dim() - 1 - dims), *module.normalized_shape)
            output = functional.layer_norm(values, module.normalized_shape, eps=module.eps)
            output = output if scale is None else output * scale.view(between)
            return output if shift is None else output + shift.view(between)

        return apply

    def _batch_norm(self, module: nn.Module, prefix: str) -> Layer:
        assert isinstance(module, nn.BatchNorm1d)
        if module.momentum is None or not module.track_running_stats:
            raise UnstackableError("layer BatchNorm1d without running statistics by momentum")
        scale, shift = (self._tensors.get(f"{prefix}{name}") for name in ("weight", "bias"))
        mean, variance = self.buffers[f"{prefix}running_mean"], self.buffers[f"{prefix}running_var"]
        batches = self.buffers[f"{prefix}num_batches_tracked"]
        momentum, features = module.momentum, module.num_features

        def apply(values: Tensor) -> Tensor:
            if values.dim() != 3:
                raise UnstackableError("layer BatchNorm1d over [rows, channels, length]")
            if self.training:
                batches.add_(1)
            side_by_side = values.transpose(0, 1).reshape(values.shape[1], self.width * features)
            output = functional.batch_norm(
                side_by_side, mean.view(-1), variance.view(-1), None if scale is None else scale.reshape(-1),
                None if shift is None else shift.reshape(-1), self.training, momentum, module.eps,
            )  # fmt: skip
            return output.view(-1, self.width, features).transpose(0, 1)

        return apply

    def _tabular(self, module: Tabular) -> Callable[[Tuple[Tensor, ...]], Tensor]:
        body = self._layer(module.body, "body.")
        tables = [self._tensors[f"embeddings.{number}.weight"] for number in range(len(module.embeddings))]
        self._constants = [name for name, _ in module.named_buffers()]
        constants = {name: self.buffers[name][0] for name in self._constants}

        def apply(inputs: Tuple[Tensor, ...]) -> Tensor:
            left = iter(tables)
            parts: List[Tensor] = []
            for place, (kind, values) in enumerate(zip(module.kinds, inputs)):
                if kind == "categorical":
                    parts += [next(left).index_select(1, column) for column in values.unbind(1)]
                else:
                    centred = values.flatten(1) - constants[f"mean_{place}"]
                    parts.append(self._shared(centred / constants[f"deviation_{place}"]))
            return body(torch.cat(parts, 2))

        return apply

    def check_common(self, number: int) -> None:
        """Raise UnstackableError when a constant of a module is not that of the first."""
        for name in self._constants:
            if not torch.equal(self.buffers[name][0], self.buffers[name][number]):
                raise UnstackableError(f"constants {name} differ between configs")


_Maker = Callable[[_Layers, nn.Module, str], Layer]
_MAKERS: Dict[Type[nn.Module], _Maker] = {
    nn.Linear: _Layers._linear,
    nn.Flatten: _Layers._flatten,
    nn.Dropout: _Layers._dropout,
    nn.LayerNorm: _Layers._layer_norm,
    nn.BatchNorm1d: _Layers._batch_norm,
}


class FlatParameters:
    """The parameters of B modules like one in one tensor [B, n], a row per config: an optimizer takes few steps then.

    Weights of Linear lie turned, as [inputs, outputs]: so a batched product gives their gradients in the same order.
    """

    def __init__(self, width: int, like: nn.Module) -> None:
        named = dict(like.named_parameters())
        if any(value.dtype != torch.float32 or not value.requires_grad for value in named.values()):
            raise UnstackableError("parameters that are not float32, or not trained")
        self._width = width
        linear = {f"{name}.weight" for name, part in like.named_modules() if type(part) is nn.Linear}
        self._named_shapes = {name: value.shape for name, value in named.items()}
        self._turned = [name in linear for name in named]
        shapes = zip(self._named_shapes.values(), self._turned)
        self._shapes = [shape[::-1] if turned else shape for shape, turned in shapes]
        self.values = self.empty()
        self.gradients = torch.zeros_like(self.values)
        #: name -> leaves that share memory with `values`.
        self.leaves = {name: part.detach().requires_grad_() for name, part in zip(named, self._parts(self.values))}
        self._gradients = self._parts(self.gradients)

    def add(self, row: int, module: nn.Module) -> None:
        """Read the values of a module."""
        named = dict(module.named_parameters())
        if {name: value.shape for name, value in named.items()} != self._named_shapes:
            raise UnstackableError("the modules have other parameters than each other")
        self.gather(self.values, row, list(named.values()))

    def empty(self) -> Tensor:
        """Room for a number per parameter of each config [B, n]."""
        return torch.empty(self._width, sum(shape.numel() for shape in self._shapes))

    def gather(self, flat: Tensor, row: int, tensors: Sequence[Tensor]) -> None:
        """Write tensors shaped as the parameters of a config into its row of [B, n]."""
        with torch.no_grad():
            torch.cat([*map(self._flat, tensors, self._turned)], out=flat[row])

    def views(self, flat: Tensor) -> List[Tensor]:
        """A tensor [B, n] as [B, *shape] for each parameter, sharing its memory."""
        parts = zip(self._parts(flat), self._turned)
        return [part.transpose(1, 2) if turned else part for part, turned in parts]

    def take(self, gradients: Sequence[Optional[Tensor]]) -> None:
        """Gradients of the leaves, in order."""
        for own, new in zip(self._gradients, gradients):
            if new is None:
                own.zero_()
            else:
                own.copy_(new)

    @staticmethod
    def vacate(module: nn.Module) -> None:
        """Free the memory of a module's parameters, until their values are given back."""
        for parameter in module.parameters():
            parameter.data = parameter.data.new_empty(0)

    def give_back(self, row: int, module: nn.Module) -> None:
        """Put the values of a config back into its module."""
        for view, parameter in zip(self.views(self.values), module.parameters()):
            parameter.data = view[row].clone(memory_format=torch.contiguous_format)

    def _parts(self, flat: Tensor) -> List[Tensor]:
        """The same, as they lie."""
        sizes = [shape.numel() for shape in self._shapes]
        return [part.view(len(flat), *shape) for part, shape in zip(torch.split(flat, sizes, 1), self._shapes)]

    @staticmethod
    def _flat(tensor: Tensor, turned: bool) -> Tensor:
        return (tensor.t() if turned else tensor).reshape(-1)
