"""Settings of a run: the `options` argument, else the setting `cerebro.<name>`, else the default."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any, Dict, Mapping, Optional, Union

from cerebro_db.errors import UsageError, unknown
from cerebro_db.hopper import ORDERS

#: Where the scheduler and the training run, and how rows arrive; strategies/registry.py has the classes.
STRATEGIES = ("in_rdbms", "hybrid", "streaming", "export", "direct")
#: Where worker processes run.
EXECUTORS = ("local", "ray")
#: When configs are trained as one.
FUSE = ("auto", "off", "always")
#: What options in MB count in.
MB = 1_000_000
#: What is idle for longer is of no use to anybody [s].
LONGEST_KEEP = 86400


@dataclass(frozen=True)
class Options:
    """Every setting of a run; unknown names are refused with the nearest known one."""

    #: How rows reach the training loop, one of STRATEGIES.
    strategy: str = "in_rdbms"
    #: Where the worker processes of streaming, export and direct run, one of EXECUTORS.
    executor: str = "local"
    #: Seeds initial weights, dropout and the order of rows.
    seed: int = 0
    #: torch threads per training session; 0 means max(1, cores / segments).
    threads: int = 0
    #: Memory for decoded rows per training session [MB]; what does not fit is read again.
    cache_mb: int = 1024
    #: Rows are shuffled inside windows of about this size [MB].
    window_mb: int = 64
    #: Order of hops, one of hopper.ORDERS.
    order: str = "rotation"
    #: Configs of one architecture and batch size in one pass over a batch: "auto" where a probe finds it faster, "off"
    #: for the bits of each config alone, "always" without a probe. One of FUSE.
    fuse: str = "auto"
    #: A hop that failed this often ends its config.
    max_failures: int = 3
    #: Rows per forward pass in validation: few enough for the outputs of a convolution to stay in the cache.
    evaluation_batch: int = 256
    #: How long a loopback session waits for a lock [s]; the caller's own locks would never go.
    lock_seconds: float = 10.0
    #: How long idle training sessions or workers stay for the caller's next call [s]; 0 ends them with the call.
    keep_seconds: float = 60.0
    #: Store where the time of each hop goes, in cerebro.profile.
    profile: bool = False
    #: For a source that is not packed yet, the arguments of training_preprocessor_dl.
    dependent_varname: str = ""
    independent_varname: str = ""
    normalizing_const: float = 1.0
    #: 0 takes as many classes as there are labels.
    num_classes: int = 0
    nulls: str = "refuse"
    #: 0 takes the setting `cerebro.segments`, else one per core.
    segments: int = 0

    @classmethod
    def parse(
        cls, text: Optional[str], settings: Mapping[str, str], arguments: Optional[Mapping[str, Any]] = None
    ) -> Options:
        """Read `arguments` over JSON text over settings over defaults.

        `settings` maps option names to the text of `cerebro.<name>`; empty texts count as unset.
        """
        known = {item.name: item for item in fields(cls)}
        given = as_object(text)
        for name in given:
            if name not in known:
                raise unknown("option", name, known)
        merged = {name: value for name, value in settings.items() if name in known and value != ""}
        merged.update({**given, **(arguments or {})})
        options = cls(
            **{name: _typed(name, value, type(known[name].default)) for name, value in merged.items()}
        )
        options._check()
        return options

    @property
    def cache_bytes(self) -> int:
        return self.cache_mb * MB

    @property
    def window_bytes(self) -> int:
        return self.window_mb * MB

    def to_dict(self) -> Dict[str, Any]:
        return asdict(self)

    def _check(self) -> None:
        if self.strategy not in STRATEGIES:
            raise unknown("strategy", self.strategy, STRATEGIES)
        if self.executor not in EXECUTORS:
            raise unknown("executor", self.executor, EXECUTORS)
        if self.order not in ORDERS:
            raise unknown("order", self.order, ORDERS)
        if self.fuse not in FUSE:
            raise unknown("fuse", self.fuse, FUSE)
        for name, least in (
            ("seed", 0),
            ("threads", 0),
            ("cache_mb", 0),
            ("window_mb", 1),
            ("max_failures", 1),
            ("evaluation_batch", 1),
            ("lock_seconds", 0),
            ("keep_seconds", 0),
        ):
            if getattr(self, name) < least:
                raise UsageError(f"option {name} is {getattr(self, name)}, expected {least} or more")
        if not self.keep_seconds <= LONGEST_KEEP:  # nor NaN
            raise UsageError(f"option keep_seconds is {self.keep_seconds}, expected at most {LONGEST_KEEP} (a day)")
        if self.seed >= 2**31:
            raise UsageError(f"option seed is {self.seed}, expected less than {2**31}")


#: Options about one source, which are arguments and not settings; packing reads cerebro.segments itself.
_OF_SOURCE = {"dependent_varname", "independent_varname", "normalizing_const", "num_classes", "nulls", "segments"}
#: Options that `set cerebro.<name> = ...` may give.
SETTINGS = tuple(item.name for item in fields(Options) if item.name not in _OF_SOURCE)


def as_object(text: Union[None, str, Mapping[str, Any]]) -> Dict[str, Any]:
    """Options as a dict, from JSON text or a mapping; {} for None and for blank text."""
    if isinstance(text, Mapping):
        return dict(text)
    if text is None or not text.strip():
        return {}
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UsageError(
            f'options {text!r} are not JSON ({error}); expected an object such as {{"seed": 1}}'
        ) from None
    if not isinstance(value, dict):
        raise UsageError(
            f'options {text!r} are {type(value).__name__}, expected a JSON object such as {{"seed": 1}}'
        )
    return value


def _typed(name: str, value: Any, kind: type) -> Any:
    """The value as the option's type; settings arrive as text, JSON as itself."""
    if isinstance(value, kind) and isinstance(value, bool) == (kind is bool):
        return value
    if kind is bool:
        return _flag(name, value)
    try:
        if isinstance(value, (str, int)) and not isinstance(value, bool):
            return kind(value)
    except ValueError:
        pass
    raise UsageError(f"option {name} is {value!r}, expected {'a number' if kind is not str else 'text'}")


def _flag(name: str, value: Any) -> bool:
    """As the server reads its own settings."""
    known = {"on": True, "true": True, "yes": True, "1": True, "off": False, "false": False, "no": False, "0": False}
    if str(value).strip().lower() not in known:
        raise UsageError(f"option {name} is {value!r}, expected true or false")
    return known[str(value).strip().lower()]
