"""Model architectures as JSON, by allow-list; nothing in them is ever evaluated.

    {"model": "mlp", "hidden": [128], "activation": "relu", "dropout": 0.0}
    {"model": "cnn", "channels": [16, 32], "kernel": 3, "hidden": 64, "input_shape": [1, 28, 28]}
    {"model": "resnet", "channels": [16, 32, 64], "blocks": 1}
    {"model": "tabular", "hidden": [64, 32], "embedding": "auto"}
    {"model": "sequential", "input_shape": [784], "layers": [["Linear", 784, 128], {"layer": "ReLU"}, ...]}
    {"factory": "package.module:function", "params": {...}}

The built-in models take the number of outputs from the data. `Architecture.parse` needs no torch, so
that a model can be stored without loading it; `build` and `check` do.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Tuple

from cerebro_db.checks import Check, ListOf, Named, Number, Whole, flag, take
from cerebro_db.errors import UsageError, unknown
from cerebro_db.layout import Layout, Target
from cerebro_db.literals import json_object

if TYPE_CHECKING:
    from torch import nn

    from cerebro_db.probe import Registry

#: A layer of "sequential": its class in `torch.nn` and its arguments.
Layer = Tuple[str, Dict[str, Any]]

ACTIVATIONS = ("relu", "gelu", "silu", "tanh", "sigmoid", "leaky_relu", "elu", "identity")
_LINEAR = "in_features! out_features! bias"
_CONV = "in_channels! out_channels! kernel_size! stride padding dilation groups bias padding_mode"
_NORM = "num_features! eps momentum affine track_running_stats"
_MAX_POOL = "kernel_size! stride padding dilation * ceil_mode"
_DROPOUT = "p"
#: Layers and their arguments in the order of `torch.nn`: ! is required, those behind * need their name.
LAYERS = {
    "Linear": _LINEAR, "LazyLinear": _LINEAR.replace("in_features! ", ""),
    "Conv1d": _CONV, "LazyConv1d": _CONV.replace("in_channels! ", ""),
    "Conv2d": _CONV, "LazyConv2d": _CONV.replace("in_channels! ", ""),
    "BatchNorm1d": _NORM, "LazyBatchNorm1d": _NORM.replace("num_features! ", ""),
    "BatchNorm2d": _NORM, "LazyBatchNorm2d": _NORM.replace("num_features! ", ""),
    "LayerNorm": "normalized_shape! eps elementwise_affine bias",
    "GroupNorm": "num_groups! num_channels! eps affine",
    "Dropout": _DROPOUT, "Dropout1d": _DROPOUT, "Dropout2d": _DROPOUT,
    "ReLU": "", "ReLU6": "", "GELU": "* approximate", "SiLU": "", "Mish": "", "Tanh": "", "Sigmoid": "",
    "LeakyReLU": "negative_slope", "ELU": "alpha", "SELU": "", "Hardswish": "", "Softplus": "beta threshold",
    "PReLU": "num_parameters init", "Softmax": "dim!", "LogSoftmax": "dim!",
    "Flatten": "start_dim end_dim", "Unflatten": "dim! unflattened_size!", "Identity": "",
    "MaxPool1d": _MAX_POOL, "MaxPool2d": _MAX_POOL,
    "AvgPool1d": "kernel_size! stride padding ceil_mode count_include_pad",
    "AvgPool2d": "kernel_size! stride padding ceil_mode count_include_pad divisor_override",
    "AdaptiveAvgPool1d": "output_size!", "AdaptiveAvgPool2d": "output_size!",
}
_FLAGS = (
    "bias", "affine", "track_running_stats", "elementwise_affine", "ceil_mode", "count_include_pad",
)
#: Layers that change no value, or none when the model predicts.
_NEUTRAL = ("Identity", "Flatten", "Unflatten", "Dropout", "Dropout1d", "Dropout2d")
_SATURATED = {
    "cross_entropy": ("Softmax", "LogSoftmax"),
    "bce_with_logits": ("Sigmoid", "Softmax", "LogSoftmax"),
}


@dataclass(frozen=True)
class Architecture:
    """A checked description of a model; `options` holds every option, defaults filled in."""

    #: "mlp", "cnn", "resnet", "tabular", "sequential" or "factory".
    kind: str
    #: "sequential": `layers` is a tuple of (name, arguments). "factory": `factory` and `params`.
    options: Dict[str, Any]

    @classmethod
    def parse(cls, text: Optional[str]) -> Architecture:
        """Read JSON and check its structure; UsageError names the nearest known model, layer or argument."""
        given = json_object(text, "model_arch")
        if "factory" in given:
            checked = take(given, {"factory": _factory, "params": _params}, "model_arch")
            return cls("factory", {"params": {}, **checked})
        if "model" not in given:
            raise UsageError(f"model_arch has the keys {sorted(given)}, {_hint(given)}")
        kind = Named(tuple(_MODELS))(given["model"], "model")
        checks, defaults = _MODELS[kind]
        options = {key: value for key, value in given.items() if key != "model"}
        return cls(kind, {**defaults, **take(options, checks, f"model {kind}", _NEEDED.get(kind, ()))})


def output_count(target: Target, loss: str) -> int:
    """How many numbers per row a model must give for a target."""
    if target.kind == "vector":
        return math.prod(target.shape)
    if target.kind == "value" or (loss == "bce_with_logits" and target.outputs == 2):
        return 1
    return target.outputs


def build(
    architecture: Architecture,
    layout: Layout,
    loss: str = "cross_entropy",
    allowed: Optional[Registry] = None,
    weigh: bool = True,
) -> nn.Module:
    """The module for a packed table, in training mode, its first weights from torch's global generator.

    It takes one tensor per input of the layout, in order: float32 [rows, *shape], or codes (int32 or
    int64 [rows, columns]) of a categorical input. Its size is found before memory is taken for it, unless that
    was done before: `weigh` is false then.
    Raises UsageError for inputs it cannot take, a size beyond this machine, or a factory not `allowed`.
    """
    from cerebro_db import probe  # loads torch, which parsing does without

    outputs = output_count(layout.target, loss)
    return probe.build(architecture.kind, architecture.options, layout, outputs, allowed, weigh)


def check(
    architecture: Architecture, layout: Layout, loss: str, allowed: Optional[Registry] = None
) -> None:
    """Build the module once and push two rows of zeros through; UsageError names both shapes.

    torch's global generator is left as it was.
    """
    from cerebro_db import probe

    _refuse_saturated(architecture, loss)
    probe.check(lambda: build(architecture, layout, loss, allowed), layout, output_count(layout.target, loss))


def _refuse_saturated(architecture: Architecture, loss: str) -> None:
    names = [name for name, _ in architecture.options.get("layers", ()) if name not in _NEUTRAL]
    if names and names[-1] in _SATURATED.get(loss, ()):
        raise UsageError(
            f"the last layer is {names[-1]}, but loss {loss} takes logits and does that itself; remove it"
        )


def _hint(given: Mapping[str, Any]) -> str:
    if "class_name" in given:
        return 'as of a Keras model; write {"model": "sequential", "layers": [...]} of torch.nn layers'
    return f"expected 'model' (one of {', '.join(_MODELS)}) or 'factory'"


def _factory(value: Any, what: str) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", value):
        raise UsageError(f"{what} is {value!r}, expected 'package.module:function'")
    return value


def _params(value: Any, what: str) -> Dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{what} is {value!r}, expected an object")
    return value


def _embedding(value: Any, what: str) -> Any:
    return value if value == "auto" else Whole()(value, what)


def _layers(value: Any, what: str) -> Tuple[Layer, ...]:
    if not isinstance(value, list) or not value:
        raise UsageError(f"{what} is {json.dumps(value)}, expected a list of at least one layer")
    return tuple(_layer(item, f"layer {place}") for place, item in enumerate(value))


def _layer(item: Any, what: str) -> Layer:
    """{"layer": name, argument: value} or [name, value, ..., {argument: value}]."""
    if isinstance(item, dict) and "layer" in item:
        name, ordered = item["layer"], []
        named = {key: value for key, value in item.items() if key != "layer"}
    elif isinstance(item, list) and item:
        named = item[-1] if isinstance(item[-1], dict) else {}
        name, *ordered = item[:-1] if isinstance(item[-1], dict) else item
    else:
        raise UsageError(f"{what} is {json.dumps(item)}, expected {{\"layer\": name, ...}} or [name, ...]")
    if name not in LAYERS:
        raise unknown(f"torch.nn layer ({what})", name, LAYERS)
    return name, _arguments(name, ordered, named, f"{what} ({name})")


def _arguments(name: str, ordered: List[Any], named: Dict[str, Any], what: str) -> Dict[str, Any]:
    positional, _, keyword = LAYERS[name].partition("*")
    names = positional.replace("!", "").split()
    if len(ordered) > len(names):
        raise UsageError(f"{what} has {len(ordered)} values in order, expected at most {len(names)}: {names}")
    given = dict(zip(names, ordered))
    twice = sorted(set(given) & set(named))
    if twice:
        raise UsageError(f"{what} has the argument {twice[0]!r} twice; keep one of them")
    checks: Dict[str, Check] = {key: flag if key in _FLAGS else _plain for key in [*names, *keyword.split()]}
    required = [key[:-1] for key in positional.split() if key.endswith("!")]
    return take({**given, **named}, checks, what, required)


def _plain(value: Any, what: str) -> Any:
    """A number, a text, or a list of numbers; sizes in lists become tuples, as torch wants them."""
    if isinstance(value, list):
        return tuple(_plain(item, what) for item in value)
    if value is None or isinstance(value, str):
        return value
    Number()(value, what)
    return value


_SHAPE = ListOf(Whole())
_COMMON: Dict[str, Check] = {"activation": Named(ACTIVATIONS), "dropout": Number(0, 1, open_high=True)}
_RELU = {"activation": "relu", "dropout": 0.0}
_IMAGE: Dict[str, Check] = {"input_shape": _SHAPE, "channels_last": flag}
_PLAIN_IMAGE = {"input_shape": None, "channels_last": False}
#: Built-in models: the checks of their options and the defaults.
_MODELS: Dict[str, Tuple[Dict[str, Check], Dict[str, Any]]] = {
    "mlp": ({"hidden": _SHAPE, **_COMMON}, {"hidden": (128,), **_RELU}),
    "cnn": (
        {"channels": _SHAPE, "kernel": Whole(), "hidden": Whole(), **_COMMON, **_IMAGE},
        {"channels": (8, 16), "kernel": 3, "hidden": 64, **_RELU, **_PLAIN_IMAGE},
    ),
    "resnet": (
        {"channels": _SHAPE, "blocks": Whole(1, 100), **_IMAGE},
        {"channels": (16, 32, 64), "blocks": 1, **_PLAIN_IMAGE},
    ),
    "tabular": (
        {"hidden": _SHAPE, "embedding": _embedding, **_COMMON},
        {"hidden": (64, 32), "embedding": "auto", **_RELU},
    ),
    "sequential": ({"layers": _layers, "input_shape": _SHAPE}, {"input_shape": None}),
}
_NEEDED = {"sequential": ("layers",)}
