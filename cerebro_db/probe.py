"""Modules built with care: how big they are and what shapes they take, found before memory is taken."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import warnings
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple, TypeVar, Union

import torch
from torch import Tensor, nn

from cerebro_db.errors import CerebroError, UsageError
from cerebro_db.layout import Input, Layout
from cerebro_db.networks import MAKERS, rows_of, shown

#: Factories that an administrator allows: "package.module:function" -> the function.
Registry = Mapping[str, Callable[..., Any]]
Make = Callable[[], nn.Module]
Result = TypeVar("Result")

#: What torch and factories raise for arguments and shapes that do not fit.
_UNFIT = (
    TypeError, ValueError, RuntimeError, LookupError, AttributeError,
    ArithmeticError, AssertionError, MemoryError,
)
#: A weight in training: itself, its gradient and two moments of the optimizer.
_COPIES = 4
_PROBE_ROWS = 2


def build(
    kind: str, options: Dict[str, Any], layout: Layout, outputs: int, allowed: Optional[Registry], weigh: bool = True
) -> nn.Module:
    """The module for a layout; see `architecture.build`. `weigh` loads parts of torch that training does without."""
    given = {**options, "make": _factory(options["factory"], allowed)} if kind == "factory" else options

    def make() -> nn.Module:
        return _attempt(lambda: MAKERS[kind](given, layout, outputs), "the architecture cannot be built")

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Lazy modules")
        if weigh:
            _require_small(make, layout, strict=kind != "factory")
        module = make()
        if any(nn.parameter.is_lazy(parameter) for parameter in module.parameters()):
            _push(module, layout, torch.device("cpu"))
    return module.train(True)


def check(make: Make, layout: Layout, outputs: int) -> None:
    """Push two rows of zeros through a module and compare what comes out with the target."""
    with torch.random.fork_rng(devices=[]):
        given = _push(make(), layout, torch.device("cpu"))
    expected = [(_PROBE_ROWS, outputs)] + [(_PROBE_ROWS,)] * (outputs == 1)
    if not isinstance(given, Tensor):
        kind = type(given).__name__
        raise UsageError(f"the architecture gives a {kind}, expected one tensor [rows, {outputs}]")
    if tuple(given.shape) not in expected:
        target = layout.target
        raise UsageError(
            f"the architecture gives {rows_of(given.shape[1:])} for inputs {shown(layout)}, but the "
            f"{target.kind} target {target.source!r} needs [rows, {outputs}]; let the last layer give that"
        )


def _zeros(item: Input, device: torch.device) -> Tensor:
    dtype = torch.int64 if item.kind == "categorical" else torch.float32
    return torch.zeros((_PROBE_ROWS, *item.shape), dtype=dtype, device=device)



def _require_small(make: Make, layout: Layout, strict: bool) -> None:
    """Refuse what cannot fit on this machine; a factory that needs real values goes unmeasured."""
    try:
        weights, activations = _weigh(make, layout)
    except UsageError:
        if strict:
            raise
        return
    needed = 4 * (weights * _COPIES + activations)  # bytes of float32
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > memory:
        raise UsageError(
            f"the architecture has {weights:,} parameters and needs about {needed / 2**30:,.1f} GiB "
            f"to train, more than the {memory / 2**30:,.1f} GiB of this machine; use smaller layers"
        )


def _weigh(make: Make, layout: Layout) -> Tuple[int, int]:
    """Numbers in weights and in activations, counted on torch's meta device, which holds no values."""
    device = torch.device("meta")
    counted: List[int] = []
    with torch.random.fork_rng(devices=[]), device:
        module = make()
        for part in module.modules():
            if not list(part.children()):
                part.register_forward_hook(lambda _part, _given, result: counted.append(_elements(result)))
        _push(module, layout, device)
    return sum(parameter.numel() for parameter in module.parameters()), sum(counted)


def _elements(result: Any) -> int:
    return result.numel() if isinstance(result, Tensor) else 0


def _push(module: nn.Module, layout: Layout, device: torch.device) -> Any:
    """What the module gives for rows of zeros; the error names the part that failed and what it got."""
    entered = ["the model"]

    def enter(name: str, part: nn.Module, given: Tuple[Any, ...]) -> None:
        shapes = ", ".join(rows_of(value.shape[1:]) for value in given if isinstance(value, Tensor))
        entered.append(f"{type(part).__name__} {name!r} for {shapes}")

    hooks = [
        part.register_forward_pre_hook(functools.partial(enter, name))
        for name, part in module.named_modules() if name
    ]
    inputs = [_zeros(item, device) for item in layout.inputs]
    try:
        with torch.no_grad():
            return _attempt(
                lambda: module.train(False)(*inputs),
                lambda: f"the architecture cannot take the inputs {shown(layout)}: it fails in {entered[-1]}",
            )
    finally:
        for hook in hooks:
            hook.remove()


def _attempt(act: Callable[[], Result], failure: Union[str, Callable[[], str]]) -> Result:
    """Do it; what torch raises becomes one sentence."""
    try:
        return act()
    except CerebroError:
        raise
    except _UNFIT as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        sentence = failure if isinstance(failure, str) else failure()
        raise UsageError(f"{sentence} ({reason})") from error



def _factory(name: str, allowed: Optional[Registry]) -> Callable[..., Any]:
    registry = dict(allowed or {})
    if name not in registry and name.startswith("torchvision.models:"):
        registry.update(_torchvision())
    if name not in registry:
        raise UsageError(
            f"factory {name!r} is not on the list of allowed ones; an administrator puts it there by "
            f"select register_factory({name!r})"
        )
    return registry[name]


def _torchvision() -> Registry:
    """The factories of torchvision, which is imported only when it is named."""
    if importlib.util.find_spec("torchvision") is None:
        raise UsageError("torchvision is not installed on this server; install it, or use a built-in model")
    models = importlib.import_module("torchvision.models")
    names = [name for name in models.list_models() if callable(getattr(models, name, None))]
    return {f"torchvision.models:{name}": getattr(models, name) for name in names}
