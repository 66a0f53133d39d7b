"""Spaces of compile and fit parameters: every point of a grid, or points drawn by chance.

    compile grid   {'loss': ['cross_entropy'], 'metrics': ['accuracy'],
                    'optimizer_params_list': [{'optimizer': ['adam'], 'lr': [0.0001, 0.1, 'log']},
                                              {'optimizer': ['sgd'], 'lr': [0.1], 'momentum': [0.0, 0.9]}]}
    fit grid       {'batch_size': [64, 256], 'epochs': [1]}

A list holds the choices; in a random search [low, high, 'linear' | 'log' | 'log_near_one'] is drawn
from instead: evenly, evenly in log(value), or evenly in log(1 - value), the last for momentum and betas.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from random import Random
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Set, Tuple, Union

from cerebro_db.checks import ListOf, Number
from cerebro_db.errors import UsageError, unknown
from cerebro_db.literals import assignments, mapping
from cerebro_db.params import CompileParams, FitParams

#: A point as text: compile parameters, fit parameters.
Texts = Tuple[str, str]
#: A config as it is stored: model_id, compile parameters, fit parameters.
Triple = Tuple[int, str, str]
#: A config as it is understood.
Meaning = Tuple[int, CompileParams, FitParams]

#: Nobody means more configs than this, and no Python loop hears a cancel.
MAX_CONFIGS = 100_000
#: Draws in vain before a random search gives up; a tenth of it more for every config asked for.
_DRAWS = 1000

_DISTRIBUTIONS = ("linear", "log", "log_near_one")
_COMPILE_KEYS = ("loss", "metrics", "lr_schedule", "clip_norm", "optimizer_params_list")
_FIT_KEYS = ("batch_size", "epochs", "shuffle", "verbose")
_WHOLE = ("batch_size", "epochs")


@dataclass(frozen=True)
class Distribution:
    """Numbers between low and high; `whole` rounds them."""

    low: float
    high: float
    shape: str
    whole: bool

    def draw(self, rng: Random) -> Union[int, float]:
        value = self._between(rng.random())
        return round(value) if self.whole else value

    def _between(self, share: float) -> float:
        if self.shape == "linear":
            return self.low + (self.high - self.low) * share
        if self.shape == "log":
            return self.low * math.exp(math.log(self.high / self.low) * share)
        return 1 - (1 - self.low) * math.exp(math.log((1 - self.high) / (1 - self.low)) * share)

    def ends(self) -> List[Union[int, float]]:
        return [round(end) if self.whole else end for end in (self.low, self.high)]


@dataclass(frozen=True)
class Choices:
    """A list of values, all as likely."""

    values: Tuple[Any, ...]

    def draw(self, rng: Random) -> Any:
        return rng.choice(self.values)

    def ends(self) -> List[Any]:
        return list(self.values)


Axis = Union[Choices, Distribution]
Axes = Dict[str, Axis]


@dataclass(frozen=True)
class Space:
    """The axes of compile and fit parameters; `optimizers` holds one set of axes per optimizer."""

    compile: Axes
    optimizers: Tuple[Axes, ...]
    fit: Axes

    @classmethod
    def parse(cls, compile_grid: Optional[str], fit_grid: Optional[str], random: bool) -> Space:
        """Read the two grids; every value in them is checked together with the first of all others."""
        compile_lists = _grid(compile_grid, "compile_params_grid", _COMPILE_KEYS)
        fit_lists = _grid(fit_grid, "fit_params_grid", _FIT_KEYS)
        optimizers = _optimizers(compile_lists.pop("optimizer_params_list", None))
        space = cls(
            compile=_axes(compile_lists, "compile_params_grid", random),
            optimizers=tuple(_axes(lists, "optimizer_params_list", random) for lists in optimizers),
            fit=_axes(fit_lists, "fit_params_grid", random),
        )
        space._check()
        return space

    def size(self) -> float:
        """Number of points, equal ones counted again; infinite with a distribution of reals."""
        return _size(self.compile) * _size(self.fit) * sum(_size(axes) for axes in self.optimizers)

    def grid(self) -> Iterator[Texts]:
        """Every point, the fit parameters changing fastest; needs a space without distributions."""
        for optimizer in self.optimizers:
            for arguments in _points(optimizer):
                for others in _points(self.compile):
                    for fit in _points(self.fit):
                        yield _compile_text(arguments, others), assignments(fit)

    def draw(self, rng: Random) -> Texts:
        """One point: an optimizer, then each of its arguments and the other parameters."""
        arguments = _drawn(rng.choice(self.optimizers), rng)
        return _compile_text(arguments, _drawn(self.compile, rng)), assignments(_drawn(self.fit, rng))

    def _check(self) -> None:
        for optimizer in self.optimizers:
            for arguments in _one_at_a_time(optimizer):
                CompileParams.parse(_compile_text(arguments, _first(self.compile)))
        for others in _one_at_a_time(self.compile):
            CompileParams.parse(_compile_text(_first(self.optimizers[0]), others))
        for fit in _one_at_a_time(self.fit):
            FitParams.parse(assignments(fit))


def _grid(text: Optional[str], what: str, keys: Sequence[str]) -> Dict[str, List[Any]]:
    lists = mapping(text, what)
    for key, values in lists.items():
        if key not in keys:
            raise unknown(f"key of {what} (those of an optimizer stand in optimizer_params_list)", key, keys)
        _require_list(values, f"{what}: {key}")
    return lists


def _require_list(values: Any, what: str) -> None:
    if not isinstance(values, list) or not values:
        raise UsageError(f"{what} is {values!r}, expected a list of at least one value")


def _optimizers(entries: Optional[List[Any]]) -> List[Dict[str, List[Any]]]:
    if entries is None:
        raise UsageError("compile_params_grid has no optimizer_params_list; expected for example "
                         "'optimizer_params_list': [{'optimizer': ['adam'], 'lr': [0.001, 0.01]}]")
    for place, entry in enumerate(entries, 1):
        what = f"optimizer_params_list entry {place}"
        if not isinstance(entry, dict) or "optimizer" not in entry:
            raise UsageError(f"{what} is {entry!r}, expected a dict of lists with the key 'optimizer'")
        for key, values in entry.items():
            _require_list(values, f"{what}: {key}")
        _require_names(entry["optimizer"], what)
    return entries


def _require_names(names: List[Any], what: str) -> None:
    for name in names:
        if not isinstance(name, str) or "(" in name:
            raise UsageError(f"{what}: optimizer {name!r} is no plain name; put its arguments beside it")


def _axes(lists: Mapping[str, List[Any]], what: str, random: bool) -> Axes:
    return {key: _axis(key, values, f"{what}: {key}", random) for key, values in lists.items()}


def _axis(key: str, values: List[Any], what: str, random: bool) -> Axis:
    if not _like_distribution(values):
        return Choices(tuple(values))
    if not random:
        raise UsageError(f"{what} is the distribution {values!r}, which has no grid; "
                         "list the values, or use search_type 'random'")
    return _distribution(values, what, key in _WHOLE)


def _like_distribution(values: List[Any]) -> bool:
    """Whether a list is meant as [low, high, shape]: a text that ends numbers, or the name of a shape."""
    last = values[-1]
    numbers = all(isinstance(value, (int, float)) for value in values[:-1])
    return isinstance(last, str) and (last in _DISTRIBUTIONS or (numbers and len(values) > 1))


def _distribution(values: List[Any], what: str, whole: bool) -> Distribution:
    if values[-1] not in _DISTRIBUTIONS:
        raise unknown(f"distribution in {what}", values[-1], _DISTRIBUTIONS)
    if len(values) != 3:
        raise UsageError(f"{what} is {values!r}, expected three values [low, high, {values[-1]!r}]")
    low, high = ListOf(Number())(values[:2], what)
    if low >= high:
        raise UsageError(f"{what} is {values!r}, expected low < high")
    if values[-1] == "log" and low <= 0:
        raise UsageError(f"{what} is {values!r}, expected low > 0 for 'log'")
    if values[-1] == "log_near_one" and high >= 1:
        raise UsageError(f"{what} is {values!r}, expected high < 1 for 'log_near_one'")
    return Distribution(low, high, values[-1], whole)


def _compile_text(arguments: Mapping[str, Any], others: Mapping[str, Any]) -> str:
    inner = {key: value for key, value in arguments.items() if key != "optimizer"}
    optimizer = f"{arguments['optimizer']}({assignments(inner)})"
    given = {**others, "optimizer": optimizer}
    if isinstance(given.get("metrics"), str):
        given["metrics"] = [given["metrics"]]
    return assignments(given)


def _points(axes: Axes) -> Iterator[Dict[str, Any]]:
    for values in itertools.product(*(axis.ends() for axis in axes.values())):
        yield dict(zip(axes, values))


def _drawn(axes: Axes, rng: Random) -> Dict[str, Any]:
    return {key: axis.draw(rng) for key, axis in axes.items()}


def _first(axes: Axes) -> Dict[str, Any]:
    return {key: axis.ends()[0] for key, axis in axes.items()}


def _one_at_a_time(axes: Axes) -> Iterator[Dict[str, Any]]:
    """Points that show every value at least once: all axes at their first but one."""
    yield _first(axes)
    for key, axis in axes.items():
        for value in axis.ends()[1:]:
            yield {**_first(axes), key: value}


def _size(axes: Axes) -> float:
    return math.prod(_axis_size(axis) for axis in axes.values())


def _axis_size(axis: Axis) -> float:
    if isinstance(axis, Choices):
        return len(axis.values)
    return round(axis.high) - round(axis.low) + 1 if axis.whole else math.inf


def meaning(triple: Triple) -> Meaning:
    """What a config trains: equal for texts that differ in spelling, blanks or order only."""
    return triple[0], CompileParams.parse(triple[1]), FitParams.parse(triple[2])


def fresh(triples: Iterable[Triple], taken: Set[Meaning]) -> List[Triple]:
    """The configs whose meaning is new; it is added to `taken`."""
    found = []
    for triple in triples:
        key = meaning(triple)
        if key not in taken:
            taken.add(key)
            found.append(triple)
    return found


def grid_search(space: Space, model_ids: Sequence[int], taken: Set[Meaning]) -> List[Triple]:
    """Every point of the grid for every model, without those in `taken`."""
    require_few(len(model_ids) * space.size())
    return fresh(((model_id, *texts) for model_id in model_ids for texts in space.grid()), taken)


def random_search(
    space: Space, model_ids: Sequence[int], count: int, rng: Random, taken: Set[Meaning]
) -> List[Triple]:
    """`count` different configs drawn by chance, none of them in `taken`; equal ones are drawn again."""
    require_few(count)
    size = len(model_ids) * space.size()
    if count > size:
        raise UsageError(f"num_configs is {count}, but the grids hold only {size} configs; ask for fewer")
    found: List[Triple] = []
    patience = _DRAWS + _DRAWS * count // 10
    while len(found) < count:
        draws = ((rng.choice(model_ids), *space.draw(rng)) for _ in range(patience))
        triple = next((draw for draw in draws if fresh([draw], taken)), None)
        if triple is None:
            raise UsageError(
                f"num_configs is {count}, but only {len(found)} new configs were found in {patience} draws; "
                "ask for fewer or widen the grids"
            )
        found.append(triple)
    return found


def require_few(count: float) -> None:
    """Refuse a number of configs that is a slip of the pen."""
    if count > MAX_CONFIGS:
        raise UsageError(f"this makes {count:,.0f} configs, expected at most {MAX_CONFIGS:,}; ask for fewer")
