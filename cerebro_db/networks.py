"""The modules behind architectures: what a built-in model makes of a layout."""

from __future__ import annotations

import inspect
import math
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
from torch import Tensor, nn

from cerebro_db.errors import UsageError
from cerebro_db.layout import Input, Layout

Shape = Tuple[int, ...]
Options = Dict[str, Any]

ACTIVATIONS: Dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid,
    "leaky_relu": nn.LeakyReLU, "elu": nn.ELU, "identity": nn.Identity,
}
#: Activations that nowhere fall: that of a maximum is the maximum of theirs.
RISING = ("relu", "tanh", "sigmoid", "leaky_relu", "elu", "identity")


class Flat(nn.Module):
    """All inputs flattened and put side by side: [rows, features] into `body`."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, *inputs: Tensor) -> Any:
        flat = [values.flatten(1) for values in inputs]
        return self.body(flat[0] if len(flat) == 1 else torch.cat(flat, 1))  # cat copies, even one


class Shaped(nn.Module):
    """One input as [rows, *shape] into `body`."""

    def __init__(self, body: nn.Module, shape: Shape) -> None:
        super().__init__()
        self.body, self.shape = body, shape

    def forward(self, values: Tensor) -> Any:
        return self.body(values.reshape(len(values), *self.shape))


class Image(Shaped):
    """One input as images [rows, channels, height, width] into `body`, the channels of a pixel side by side in memory.

    Convolutions and pooling keep that order, in which pooling takes a fraction of the time.
    """

    def __init__(self, body: nn.Module, shape: Shape, channels_last: bool = False) -> None:
        if not channels_last and shape[0] == 1:  # the same bytes either way
            shape, channels_last = (*shape[1:], 1), True
        super().__init__(body, shape)
        self.channels_last = channels_last

    def forward(self, values: Tensor) -> Any:
        shaped = values.reshape(len(values), *self.shape)
        if self.channels_last:
            return self.body(shaped.movedim(-1, 1))
        return self.body(shaped.contiguous(memory_format=torch.channels_last))


class Tabular(nn.Module):
    """Numeric columns standardised by the training rows, an embedding per categorical column, an MLP.

    Mean and deviation are constants: unlike batch normalisation they serve a batch of one row, and
    every segment sees the same ones.
    """

    def __init__(
        self, inputs: Sequence[Input], embedding: Any, body: Callable[[int], nn.Module]
    ) -> None:
        super().__init__()
        self.kinds = [item.kind for item in inputs]
        self.embeddings = nn.ModuleList()
        width = 0
        for place, item in enumerate(inputs):
            if item.kind == "categorical":
                width += self._add_embeddings(item, embedding)
            else:
                width += math.prod(item.shape)
                self._add_constants(place, item)
        self.body = body(width)

    def _add_embeddings(self, item: Input, embedding: Any) -> int:
        sizes = [embedding_size(codes) if embedding == "auto" else embedding for codes in item.cardinalities]
        self.embeddings.extend(map(nn.Embedding, item.cardinalities, sizes))
        return sum(sizes)

    def _add_constants(self, place: int, item: Input) -> None:
        width = math.prod(item.shape)
        mean, deviation = item.mean or (0.0,) * width, item.deviation or (1.0,) * width
        self.register_buffer(f"mean_{place}", torch.tensor(mean, dtype=torch.float32))
        usable = [value or 1.0 for value in deviation]  # a constant column has deviation 0
        self.register_buffer(f"deviation_{place}", torch.tensor(usable, dtype=torch.float32))

    def forward(self, *inputs: Tensor) -> Any:
        embeddings = iter(self.embeddings)
        parts: List[Tensor] = []
        for place, (kind, values) in enumerate(zip(self.kinds, inputs)):
            if kind == "categorical":
                parts += [next(embeddings)(column) for column in values.unbind(1)]
            else:
                centred = values.flatten(1) - self.get_buffer(f"mean_{place}")
                parts.append(centred / self.get_buffer(f"deviation_{place}"))
        return self.body(torch.cat(parts, 1))


def embedding_size(codes: int) -> int:
    """Width of an embedding by fastai's rule of thumb (fastai.tabular.model, emb_sz_rule)."""
    return int(min(600, round(1.6 * codes**0.56)))


class Residual(nn.Module):
    """Two 3x3 convolutions beside a shortcut (He et al. 2016); `stride` 2 halves the image."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU(),
            nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            narrow = nn.Conv2d(before, after, 1, stride, bias=False)
            self.shortcut = nn.Sequential(narrow, nn.BatchNorm2d(after))

    def forward(self, values: Tensor) -> Tensor:
        return torch.relu(self.body(values) + self.shortcut(values))


def _hidden(width: int, options: Options, outputs: int) -> nn.Sequential:
    layers: List[nn.Module] = []
    for size in options["hidden"]:
        layers += [nn.Linear(width, size), ACTIVATIONS[options["activation"]]()]
        layers += [nn.Dropout(options["dropout"])] if options["dropout"] else []
        width = size
    return nn.Sequential(*layers, nn.Linear(width, outputs))


def _mlp(options: Options, layout: Layout, outputs: int) -> nn.Module:
    for item in layout.inputs:
        if item.kind == "categorical":
            raise UsageError(
                f"model mlp takes numbers, but {', '.join(item.sources)} are categorical; use model 'tabular'"
            )
    return Flat(_hidden(sum(math.prod(item.shape) for item in layout.inputs), options, outputs))


def _cnn(options: Options, layout: Layout, outputs: int) -> nn.Module:
    shape, (channels, height, width) = _image(options, layout, "cnn")
    kernel, layers = options["kernel"], []
    for size in options["channels"]:
        layers += [nn.Conv2d(channels, size, kernel, padding=kernel // 2), *_pooled(options["activation"])]
        # An even kernel makes the image one pixel larger before it is halved.
        height, width = (height + 1 - kernel % 2) // 2, (width + 1 - kernel % 2) // 2
        channels = size
    if not height * width:
        raise UsageError(
            f"model cnn halves the image {len(options['channels'])} times, too often for {shown(layout)} "
            f"seen as {list(shape)}; use fewer channels entries"
        )
    head = _hidden(channels * height * width, {**options, "hidden": [options["hidden"]]}, outputs)
    return Image(nn.Sequential(*layers, nn.Flatten(), *head), shape, options["channels_last"])


def _pooled(activation: str) -> Tuple[nn.Module, nn.Module]:
    """An activation and the maximum over 2 x 2, in the order that computes less where both give the same."""
    function, pool = ACTIVATIONS[activation](), nn.MaxPool2d(2)
    return (pool, function) if activation in RISING else (function, pool)


def _resnet(options: Options, layout: Layout, outputs: int) -> nn.Module:
    shape, (before, _, _) = _image(options, layout, "resnet")
    first = options["channels"][0] if options["channels"] else before
    stem = nn.Conv2d(before, first, 3, 1, 1, bias=False)
    layers: List[nn.Module] = [stem, nn.BatchNorm2d(first), nn.ReLU()]
    before = first
    for stage, size in enumerate(options["channels"]):
        for block in range(options["blocks"]):
            layers.append(Residual(before, size, 2 if stage and not block else 1))
            before = size
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, outputs)]
    return Image(nn.Sequential(*layers), shape, options["channels_last"])


def _tabular(options: Options, layout: Layout, outputs: int) -> nn.Module:
    return Tabular(layout.inputs, options["embedding"], lambda width: _hidden(width, options, outputs))


def _sequential(options: Options, layout: Layout, outputs: int) -> nn.Module:
    layers = []
    for place, (name, arguments) in enumerate(options["layers"]):
        try:
            layers.append(getattr(nn, name)(**arguments))
        except (TypeError, ValueError, RuntimeError, ArithmeticError) as error:
            reason = str(error).strip().split("\n")[0]
            raise UsageError(f"layer {place} ({name}) cannot be built from {arguments} ({reason})") from error
    return Shaped(nn.Sequential(*layers), _reshaped(options["input_shape"], layout, "sequential"))


def _from_factory(options: Options, layout: Layout, outputs: int) -> nn.Module:
    make = options["make"]
    # torchvision's name for the number of outputs; a factory without it says so by its own params.
    told = {"num_classes": outputs} if _takes(make, "num_classes") else {}
    module = make(**{**told, **options["params"]})
    if not isinstance(module, nn.Module):
        raise UsageError(f"the factory gives a {type(module).__name__}, expected a torch.nn.Module")
    return Shaped(module, _reshaped(None, layout, "factory"))


def _takes(function: Callable[..., Any], name: str) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return any(p.name == name or p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)


#: Kind of architecture -> (options, layout, outputs) -> module.
MAKERS: Dict[str, Callable[[Options, Layout, int], nn.Module]] = {
    "mlp": _mlp, "cnn": _cnn, "resnet": _resnet, "tabular": _tabular, "sequential": _sequential,
    "factory": _from_factory,
}



def _reshaped(wanted: Optional[Shape], layout: Layout, model: str) -> Shape:
    """The shape of a row of the only input, as the model wants to see it."""
    if len(layout.inputs) != 1:
        raise UsageError(
            f"model {model} takes one input, but the table has {len(layout.inputs)}: {shown(layout)}; "
            "use model 'tabular' or pack fewer columns"
        )
    item = layout.inputs[0]
    if item.kind == "categorical":
        name = item.column
        raise UsageError(f"model {model} takes numbers, but {name!r} is categorical; use model 'tabular'")
    if wanted is not None and math.prod(wanted) != math.prod(item.shape):
        raise UsageError(
            f"input_shape {list(wanted)} of the architecture has {math.prod(wanted)} values a row, but "
            f"{item.column!r} has shape {list(item.shape)} with {math.prod(item.shape)}"
        )
    return item.shape if wanted is None else wanted


def _image(options: Options, layout: Layout, model: str) -> Tuple[Shape, Tuple[int, int, int]]:
    """The shape to see a row as, and its (channels, height, width)."""
    shape = _reshaped(options["input_shape"], layout, model)
    last = options["channels_last"]
    if len(shape) == 2:
        shape = (*shape, 1) if last else (1, *shape)
    if len(shape) != 3:
        raise UsageError(
            f"model {model} takes images [channels, height, width], but the input has shape {list(shape)}; "
            "give input_shape"
        )
    if not last and shape[0] > 4 >= shape[2]:
        raise UsageError(
            f"model {model} got the shape {list(shape)}, which looks like [height, width, channels]; "
            "add \"channels_last\": true"
        )
    return shape, (shape[2], shape[0], shape[1]) if last else (shape[0], shape[1], shape[2])


def rows_of(shape: Sequence[int]) -> str:
    return "[" + ", ".join(["rows", *map(str, shape)]) + "]"


def shown(layout: Layout) -> str:
    return ", ".join(f"{item.column} {rows_of(item.shape)}" for item in layout.inputs)
