"""Compile and fit parameters: MADlib strings or JSON, parsed and checked, never evaluated.

    loss='categorical_crossentropy', optimizer='Adam(lr=0.001, weight_decay=1e-4)', metrics=['accuracy']
    {"loss": "cross_entropy", "optimizer": "adam", "lr": 0.001, "metrics": ["accuracy"]}
    {"loss": "cross_entropy", "optimizer": "adam", "optimizer_params": {"lr": 0.001}}
    batch_size=64, epochs=1

Keras's and torch's names of a loss, metric or optimizer mean the same here. Arguments that are
left out have the defaults of `torch.optim`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Tuple

from cerebro_db import literals
from cerebro_db.checks import Check, ListOf, Number, Whole, flag, take
from cerebro_db.errors import UsageError, unknown

Arguments = Tuple[Tuple[str, Any], ...]

_POSITIVE = Number(low=0, open_low=True)
_NOT_NEGATIVE = Number(low=0)
_SHARE = Number(low=0, high=1, open_high=True)
_BETAS = ListOf(_SHARE, 2)
_STEP: Dict[str, Check] = {"lr": _POSITIVE}
_DECAY: Dict[str, Check] = {"weight_decay": _NOT_NEGATIVE}
_ADAM: Dict[str, Check] = {**_STEP, "betas": _BETAS, "eps": _NOT_NEGATIVE, **_DECAY}

#: Optimizers and their arguments: those of `torch.optim` that keep the meaning of an update.
OPTIMIZERS: Dict[str, Dict[str, Check]] = {
    "sgd": {**_STEP, "momentum": _SHARE, "dampening": Number(0, 1), **_DECAY, "nesterov": flag},
    "adam": {**_ADAM, "amsgrad": flag},
    "adamw": {**_ADAM, "amsgrad": flag},
    "adamax": _ADAM,
    "nadam": {**_ADAM, "momentum_decay": _NOT_NEGATIVE, "decoupled_weight_decay": flag},
    "radam": {**_ADAM, "decoupled_weight_decay": flag},
    "rmsprop": {
        **_STEP, "alpha": _SHARE, "eps": _NOT_NEGATIVE, **_DECAY, "momentum": _SHARE, "centered": flag,
    },
    "adagrad": {
        **_STEP, "lr_decay": _NOT_NEGATIVE, **_DECAY,
        "initial_accumulator_value": _NOT_NEGATIVE, "eps": _NOT_NEGATIVE,
    },
    "adadelta": {**_STEP, "rho": _SHARE, "eps": _NOT_NEGATIVE, **_DECAY},
    "asgd": {**_STEP, "lambd": _NOT_NEGATIVE, "alpha": _SHARE, "t0": _POSITIVE, **_DECAY},
}
#: Schedules step once per epoch. The arguments without a default come first.
SCHEDULES: Dict[str, Dict[str, Check]] = {
    "step": {"step_size": Whole(), "gamma": _POSITIVE},
    "multi_step": {"milestones": ListOf(Whole()), "gamma": _POSITIVE},
    "exponential": {"gamma": _POSITIVE},
    "cosine": {"t_max": Whole(), "eta_min": _NOT_NEGATIVE},
    "linear": {
        "total_iters": Whole(), "start_factor": Number(0, 1, open_low=True), "end_factor": Number(0, 1),
    },
    "polynomial": {"total_iters": Whole(), "power": _POSITIVE},
}
_REQUIRED = {name: next(iter(arguments)) for name, arguments in SCHEDULES.items()}
LOSSES = {
    "cross_entropy": "cross_entropy",
    "categorical_crossentropy": "cross_entropy",
    "sparse_categorical_crossentropy": "cross_entropy",
    "bce_with_logits": "bce_with_logits",
    "binary_crossentropy": "bce_with_logits",
    "binary_cross_entropy": "bce_with_logits",
    "binary_cross_entropy_with_logits": "bce_with_logits",
    "mse": "mse",
    "mean_squared_error": "mse",
    "mae": "mae",
    "mean_absolute_error": "mae",
    "l1": "mae",
    "huber": "huber",
    "smooth_l1": "smooth_l1",
}
#: Only metrics that are means over rows: those of hops and segments then add up exactly.
METRICS = {
    "accuracy": "accuracy",
    "acc": "accuracy",
    "categorical_accuracy": "accuracy",
    "sparse_categorical_accuracy": "accuracy",
    "binary_accuracy": "binary_accuracy",
    "top_k_categorical_accuracy": "top_5_accuracy",
    "sparse_top_k_categorical_accuracy": "top_5_accuracy",
    "top_5_accuracy": "top_5_accuracy",
    "mse": "mse",
    "mean_squared_error": "mse",
    "mae": "mae",
    "mean_absolute_error": "mae",
}
_NOT_ADDITIVE = (
    "auc", "rmse", "rootmeansquarederror", "f1", "f1score", "precision", "recall", "r2", "r2score",
)
_OPTIMIZER_NAMES = {name: name for name in OPTIMIZERS}
_SCHEDULE_NAMES = {
    **{name: name for name in SCHEDULES},
    "StepLR": "step", "MultiStepLR": "multi_step", "ExponentialLR": "exponential",
    "CosineAnnealingLR": "cosine", "LinearLR": "linear", "PolynomialLR": "polynomial",
}
_ALIASES = {"learning_rate": "lr", "epsilon": "eps"}
_COMPILE_KEYS = ("optimizer", "optimizer_params", "loss", "metrics", "metric", "lr_schedule", "clip_norm")
_WEIGHTED = "every row and every output counts the same"
_REFUSED_COMPILE = {
    "loss_weights": _WEIGHTED,
    "sample_weight_mode": _WEIGHTED,
    "weighted_metrics": _WEIGHTED,
    "target_tensors": "the target is the dependent variable of the packed table",
    "decay": "the decay of old Keras is a schedule: write for example lr_schedule='exponential(gamma=0.95)'",
    "clipnorm": "Keras clips each tensor on its own by it: write clip_norm=..., the norm over all gradients",
    "clipvalue": "write clip_norm=..., the norm over all gradients",
    "batch_size": "it belongs to the fit parameters",
    "epochs": "it belongs to the fit parameters",
}
_VALIDATION = "give validation_table to madlib_mop_fit"
_PASSES = "an epoch is every row of the segment once"
_REFUSED_FIT = {
    "validation_split": _VALIDATION,
    "validation_data": _VALIDATION,
    "validation_freq": "give metrics_compute_frequency to madlib_mop_fit",
    "validation_steps": "validation takes all rows",
    "steps_per_epoch": _PASSES,
    "initial_epoch": "resume a run with madlib_mop_resume",
    "sample_weight": _WEIGHTED,
    "class_weight": _WEIGHTED,
    "callbacks": "no code runs from a parameter; read cerebro.hop and cerebro.metric instead",
}


@dataclass(frozen=True)
class CompileParams:
    """Optimizer, loss, metric and schedule of a config, under their canonical names."""

    #: A key of OPTIMIZERS, with the arguments that were given, in the order of that table.
    optimizer: str
    optimizer_args: Arguments
    #: "cross_entropy", "bce_with_logits", "mse", "mae", "huber" or "smooth_l1".
    loss: str
    #: "accuracy", "binary_accuracy", "top_<k>_accuracy", "mae", "mse" or None.
    metric: Optional[str] = None
    #: A key of SCHEDULES and its arguments; it steps once per epoch.
    schedule: Optional[Tuple[str, Arguments]] = None
    #: Largest norm over all gradients of a step; larger ones are scaled down.
    clip_norm: Optional[float] = None

    @classmethod
    def parse(cls, text: Optional[str]) -> CompileParams:
        """Read a MADlib string or JSON; UsageError names the key, its value and what was expected."""
        given = literals.mapping(text, "compile_params")
        _refuse(given, _REFUSED_COMPILE, "compile_params")
        name, arguments = _optimizer(given)
        clip_norm = arguments.pop("clip_norm", None)
        return cls(
            optimizer=name,
            optimizer_args=_optimizer_args(name, arguments),
            loss=_loss(given.get("loss")),
            metric=_metric(given),
            schedule=_schedule(given.get("lr_schedule")),
            clip_norm=None if clip_norm is None else _POSITIVE(clip_norm, "clip_norm"),
        )

    def to_json(self) -> str:
        """JSON that `parse` reads back to an equal object."""
        schedule = self.schedule and {"name": self.schedule[0], **dict(self.schedule[1])}
        given = {
            "optimizer": self.optimizer, "optimizer_params": dict(self.optimizer_args), "loss": self.loss,
            "metrics": self.metric, "lr_schedule": schedule, "clip_norm": self.clip_norm,
        }
        return json.dumps({key: value for key, value in given.items() if value is not None})


@dataclass(frozen=True)
class FitParams:
    """How a hop goes over its segment. Rows are always shuffled, by the seed of the run."""

    batch_size: int = 32
    #: Passes over the segment within one hop.
    epochs: int = 1

    @classmethod
    def parse(cls, text: Optional[str]) -> FitParams:
        """Read a MADlib string or JSON; `verbose` is ignored, what is left out has Keras's default."""
        given = literals.mapping(text, "fit_params")
        _refuse(given, _REFUSED_FIT, "fit_params")
        checks: Dict[str, Check] = {
            "batch_size": Whole(), "epochs": Whole(), "shuffle": _shuffle, "verbose": Whole(0),
        }
        checked = take(given, checks, "fit_params")
        return cls(**{key: checked[key] for key in ("batch_size", "epochs") if key in checked})

    def to_json(self) -> str:
        return json.dumps({"batch_size": self.batch_size, "epochs": self.epochs})


def higher_is_better(metric: str) -> bool:
    """Whether a larger value of a canonical metric is a better one."""
    return metric.endswith("accuracy")


def top_k(metric: str) -> Optional[int]:
    """The k of "top_<k>_accuracy"; None for another metric."""
    match = re.fullmatch(r"top_([1-9]\d{0,8})_accuracy", metric)
    return int(match.group(1)) if match else None


def _refuse(given: Mapping[str, Any], refused: Mapping[str, str], what: str) -> None:
    for key in given:
        if key in refused:
            raise UsageError(f"{what} holds {key!r}, which is not supported: {refused[key]}")


def _squeezed(name: str) -> str:
    squeezed = re.sub(r"[\s_]", "", name.lower())
    return squeezed[:-4] if squeezed.endswith("loss") else squeezed


def _canonical(name: Any, names: Mapping[str, str], what: str) -> str:
    """`name` as the table knows it; case, underscores and a final "Loss" do not matter."""
    if not isinstance(name, str):
        raise UsageError(f"{what} is {name!r}, expected a name in quotes; known are {', '.join(names)}")
    for known, canonical in names.items():
        if _squeezed(known) == _squeezed(name):
            return canonical
    raise unknown(what, name, names)


def _optimizer(given: Mapping[str, Any]) -> Tuple[str, Dict[str, Any]]:
    """The optimizer's canonical name and its arguments from all the places where they may stand."""
    name, inner = _named("optimizer", given.get("optimizer"))
    nested = given.get("optimizer_params", {})
    if not isinstance(nested, dict):
        raise UsageError(f"optimizer_params is {nested!r}, expected an object such as {{\"lr\": 0.001}}")
    canonical = _canonical(name, _OPTIMIZER_NAMES, "optimizer")
    beside = {key: value for key, value in given.items() if key not in _COMPILE_KEYS or key == "clip_norm"}
    arguments = _argument_names(canonical)
    for key in [*inner, *nested, *beside]:
        if key not in arguments and key in beside:
            raise unknown("key of compile_params", key, [*_COMPILE_KEYS, *arguments])
        if key not in arguments and key not in _REFUSED_COMPILE:
            raise unknown(f"argument of optimizer {canonical}", key, arguments)
    return canonical, _merged([inner, nested, beside], f"optimizer {canonical}")


def _named(key: str, value: Any) -> Tuple[Any, Dict[str, Any]]:
    """A name with arguments, given as "name", "name(argument=...)" or {"name": ..., argument: ...}."""
    if value is None:
        raise UsageError(f"compile_params has no {key}; expected for example {key}='adam(lr=0.001)'")
    if isinstance(value, dict):
        if "name" not in value:
            raise UsageError(f"{key} {value!r} has no 'name'")
        return value["name"], {name: item for name, item in value.items() if name != "name"}
    if not isinstance(value, str):
        raise UsageError(f"{key} is {value!r}, expected a name in quotes")
    return literals.call(value, key)


def _argument_names(optimizer: str) -> List[str]:
    names = [*OPTIMIZERS[optimizer], "learning_rate", "clip_norm", "global_clipnorm"]
    names += ["epsilon"] if "eps" in names else []
    names += ["beta_1", "beta_2"] if "betas" in names else []
    return [*names, "rho"] if optimizer == "rmsprop" else names


def _merged(places: List[Dict[str, Any]], what: str) -> Dict[str, Any]:
    merged: Dict[str, Any] = {}
    for place in places:
        _refuse(place, _REFUSED_COMPILE, what)
        for key, value in place.items():
            name = _ALIASES.get(key, "clip_norm" if key == "global_clipnorm" else key)
            if name in merged:
                raise UsageError(f"{what} has the argument {name!r} twice; keep one of them")
            merged[name] = value
    return merged


def _optimizer_args(optimizer: str, given: Dict[str, Any]) -> Arguments:
    renamed = {"alpha" if optimizer == "rmsprop" and key == "rho" else key: given[key] for key in given}
    if len(renamed) < len(given):
        raise UsageError("optimizer rmsprop has both 'rho' and 'alpha', which are one; keep one of them")
    if "betas" in OPTIMIZERS[optimizer]:
        renamed = _joined_betas(optimizer, renamed)
    checked = take(renamed, OPTIMIZERS[optimizer], f"optimizer {optimizer}")
    if checked.get("nesterov") and not (checked.get("momentum") and not checked.get("dampening")):
        raise UsageError("optimizer sgd: nesterov=True needs momentum > 0 and no dampening")
    return tuple(checked.items())


def _joined_betas(optimizer: str, given: Dict[str, Any]) -> Dict[str, Any]:
    """Keras's beta_1 and beta_2 as the `betas` of torch."""
    separate = {key: given[key] for key in ("beta_1", "beta_2") if key in given}
    if not separate:
        return given
    if "betas" in given:
        raise UsageError(f"optimizer {optimizer} has both 'betas' and {min(separate)!r}; keep one of them")
    others = {key: value for key, value in given.items() if key not in separate}
    return {**others, "betas": [separate.get("beta_1", 0.9), separate.get("beta_2", 0.999)]}


def _loss(name: Any) -> str:
    if name is None:
        raise UsageError("compile_params has no loss; expected for example loss='cross_entropy'")
    return _canonical(name, LOSSES, "loss")


def _metric(given: Mapping[str, Any]) -> Optional[str]:
    if "metric" in given and "metrics" in given:
        raise UsageError("compile_params has both 'metric' and 'metrics'; keep one of them")
    value = given.get("metrics", given.get("metric"))
    names = value if isinstance(value, list) else [value]
    if isinstance(value, dict) or len(names) > 1:
        raise UsageError(f"metrics is {value!r}, expected at most one metric, for example ['accuracy']")
    if not names or names[0] is None:
        return None
    if isinstance(names[0], str):
        if top_k(names[0].lower()):
            return names[0].lower()
        if _squeezed(names[0]) in _NOT_ADDITIVE:
            known = ", ".join(METRICS)
            raise UsageError(f"metric {names[0]!r} is not a mean over rows; expected one of {known}")
    return _canonical(names[0], METRICS, "metric")


def _schedule(value: Any) -> Optional[Tuple[str, Arguments]]:
    if value is None:
        return None
    given_name, given = _named("lr_schedule", value)
    name = _canonical(given_name, _SCHEDULE_NAMES, "lr_schedule")
    lowered = {key.lower(): item for key, item in given.items()}
    checked = take(lowered, SCHEDULES[name], f"lr_schedule {name}", (_REQUIRED[name],))
    return name, tuple(checked.items())


def _shuffle(value: Any, what: str) -> bool:
    if not flag(value, what):
        raise UsageError(f"{what} is False; expected True: rows are always shuffled by the seed of the run")
    return True
