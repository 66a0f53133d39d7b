"""Texts for a person: hyper-parameters by name, short numbers, times."""

from __future__ import annotations

import json
import math
from typing import Any, Dict, Iterable, List, Optional, Tuple

from cerebro_db.errors import UsageError
from cerebro_db.params import CompileParams, FitParams
from cerebro_db.report.record import Config


def flat_params(compile_params: str, fit_params: str) -> Dict[str, str]:
    """The hyper-parameters of a config by name; texts that an older version wrote stay texts."""
    try:
        compiled, fit = CompileParams.parse(compile_params), FitParams.parse(fit_params)
    except UsageError:
        return {"compile": compile_params, "fit": fit_params}
    named: Dict[str, Any] = {
        "optimizer": compiled.optimizer,
        **dict(compiled.optimizer_args),
        "batch_size": fit.batch_size,
        "passes": fit.epochs if fit.epochs != 1 else None,
        "loss": compiled.loss,
        "metric": compiled.metric,
        "clip_norm": compiled.clip_norm,
    }
    if compiled.schedule:
        name, arguments = compiled.schedule
        named["schedule"] = " ".join([name, *(f"{key} {value}" for key, value in arguments)])
    return {name: _shown(value) for name, value in named.items() if value is not None}


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def model_word(arch: str) -> str:
    """A word for an architecture's JSON: its built-in name, its factory, or how many layers it has."""
    try:
        raw = json.loads(arch)
    except ValueError:
        raw = None
    if isinstance(raw, dict):
        for key in ("model", "factory", "function", "name"):
            if isinstance(raw.get(key), str):
                return str(raw[key])
        raw = raw.get("layers", raw)
    return f"{len(raw)} layer{'s' * (len(raw) != 1)}" if isinstance(raw, list) else "model"


def varied(configs: Iterable[Config]) -> Dict[str, List[str]]:
    """The parameters that differ between configs, the model among them, with their values in order."""
    rows = [{**config.params, "model": config.model} for config in configs]
    names = ["model", *sorted({name for row in rows for name in row} - {"model"})]
    values = {name: {row.get(name, "–") for row in rows} for name in names}
    return {name: sorted(found, key=_sort_key) for name, found in values.items() if len(found) > 1}


def _sort_key(text: str) -> Tuple[float, str]:
    value = number(text)
    return (math.inf if value is None else value, text)


def number(text: str) -> Optional[float]:
    try:
        return float(text)
    except ValueError:
        return None


def label(config: Config, names: Iterable[str]) -> str:
    """A config in one short line: its key, model, and the parameters that distinguish it."""
    shown = [f"{name} {config.params[name]}" for name in names if name in config.params]
    return f"#{config.mst_key} {config.model}" + "".join(f" · {text}" for text in shown)


def short(value: Optional[float], digits: int = 4) -> str:
    """A number to so many digits; a dash for none."""
    if value is None:
        return "–"
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else str(value)
    return f"{value:.{digits}g}" if abs(value) >= 100 else f"{value:.{digits}f}"


def duration(seconds: float) -> str:
    """`4.2 s`, `96.5 s`, `3 min 05 s`, `2 h 10 min`."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def size(count: Optional[int]) -> str:
    """Bytes as `812 kB`."""
    if count is None:
        return "–"
    value, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            break
        value /= 1000
    return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
