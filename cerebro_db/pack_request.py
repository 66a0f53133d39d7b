"""What a user asks of the preprocessors, parsed and checked before the database is touched."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Dict, Optional, Sequence, Tuple

from cerebro_db.errors import UsageError, unknown

#: What happens to rows with NULL: an error, leaving the row out, or a value in its place.
NULL_POLICIES = ("refuse", "drop", "impute")
_EXAMPLE = '{"seed": 1, "nulls": "drop"}'


@dataclass(frozen=True)
class PackOptions:
    """The settings beyond MADlib's arguments."""

    #: Seed of the shuffle; the same seed and table give the same bytes.
    seed: int = 0
    nulls: str = "refuse"
    #: Segments to spread the rows over; None leaves it to the server.
    segments: Optional[int] = None

    @classmethod
    def parse(cls, text: Optional[str]) -> PackOptions:
        """Read a JSON object of options; NULL and `{}` are the defaults."""
        return cls.checked(_object(text))

    @classmethod
    def checked(cls, raw: Dict[str, Any]) -> PackOptions:
        """Options from a mapping; raises UsageError for a key or value that is not known."""
        known = [item.name for item in fields(cls)]
        for key in raw:
            if key not in known:
                raise unknown("preprocessor option", key, known)
        options = replace(cls(), **{key: value for key, value in raw.items() if value is not None})
        _whole("option seed", options.seed, 0, 2**31 - 1)
        if options.segments is not None:
            _whole("option segments", options.segments, 1, 32767)
        if options.nulls not in NULL_POLICIES:
            raise unknown("value of the option nulls", options.nulls, NULL_POLICIES)
        return options


@dataclass(frozen=True)
class PackRequest:
    """The arguments of `training_preprocessor_dl`."""

    source_table: str
    output_table: str
    dependent_varname: str
    independent_varname: str
    #: Rows per buffer at most, a hint as in MADlib; None cuts by bytes.
    buffer_size: Optional[int] = None
    normalizing_const: float = 1.0
    num_classes: Optional[Tuple[Optional[int], ...]] = None
    distribution_rules: Optional[str] = None
    options: PackOptions = PackOptions()

    def __post_init__(self) -> None:
        _check_buffer_size(self.buffer_size)
        const = self.normalizing_const
        if isinstance(const, bool) or not isinstance(const, (int, float)) or not 0 < const < math.inf:
            raise UsageError(f"normalizing_const is {const!r}, expected a number above 0 (1: no scaling)")
        if self.num_classes is not None:
            _check_num_classes(self.num_classes)
        rules = parse_rules(self.distribution_rules)
        if rules is not None and self.options.segments not in (None, rules):
            raise UsageError(
                f"distribution_rules asks for {rules} segments and the option segments for "
                f"{self.options.segments}; give one of them"
            )

    @property
    def segments(self) -> Optional[int]:
        """Segments asked for, None when the server decides."""
        rules = parse_rules(self.distribution_rules)
        return self.options.segments if rules is None else rules

    @property
    def outputs(self) -> Optional[int]:
        """Classes asked for by num_classes, None when the labels decide."""
        return self.num_classes[0] if self.num_classes else None

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> PackRequest:
        raw = json.loads(text)
        classes = raw.pop("num_classes")
        options = PackOptions.checked(raw.pop("options"))
        return cls(**raw, num_classes=None if classes is None else tuple(classes), options=options)


@dataclass(frozen=True)
class ValidationRequest:
    """The arguments of `validation_preprocessor_dl`."""

    source_table: str
    output_table: str
    dependent_varname: str
    independent_varname: str
    training_preprocessor_table: str
    buffer_size: Optional[int] = None
    distribution_rules: Optional[str] = None

    def __post_init__(self) -> None:
        _check_buffer_size(self.buffer_size)
        parse_rules(self.distribution_rules)


def parse_rules(text: Optional[str]) -> Optional[int]:
    """Segments that distribution_rules asks for; None for 'all_segments'."""
    if text is None or text.strip().lower() == "all_segments":
        return None
    if not text.strip().isdigit() or not 1 <= int(text) <= 32767:
        raise UsageError(
            f"distribution_rules is {text!r}, expected 'all_segments' or a number of segments such as '4'"
        )
    return int(text)


def _object(text: Optional[str]) -> Dict[str, Any]:
    if text is None:
        return {}
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise UsageError(f"options {text!r} is not JSON ({error}); expected such as {_EXAMPLE}") from error
    if not isinstance(raw, dict):
        raise UsageError(f"options is {text!r}, expected a JSON object such as {_EXAMPLE}")
    return raw


def _whole(what: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise UsageError(f"{what} is {value!r}, expected a whole number from {low} to {high}")


def _check_buffer_size(value: Optional[int]) -> None:
    if value is not None:
        _whole("buffer_size", value, 1, 2**31 - 1)


def _check_num_classes(values: Sequence[Optional[int]]) -> None:
    if len(values) != 1:
        raise UsageError(f"num_classes has {len(values)} entries, expected 1: there is one label column")
    if values[0] is not None:
        _whole("num_classes", values[0], 2, 2**31 - 1)


