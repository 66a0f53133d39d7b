"""Options: JSON over settings over defaults, each checked by name, type and range."""

from __future__ import annotations

import re

import pytest

from cerebro_db.errors import UsageError
from cerebro_db.options import SETTINGS, Options


def test_json_over_settings_over_defaults() -> None:
    options = Options.parse('{"seed": 3}', {"seed": "2", "threads": "5", "order": "", "unrelated": "x"})
    assert (options.seed, options.threads, options.order) == (3, 5, "rotation")
    assert Options.parse('{"seed": 3}', {"seed": "2"}, {"seed": 4}).seed == 4
    assert Options.parse(None, {}) == Options.parse(" ", {}) == Options()


def test_what_is_about_one_source_is_no_setting() -> None:
    assert {"seed", "strategy", "threads", "lock_seconds"} <= set(SETTINGS)
    assert {"dependent_varname", "nulls", "segments"} & set(SETTINGS) == set()


@pytest.mark.parametrize(("text", "message"), [
    ('{"sed": 1}', "unknown option 'sed': did you mean 'seed'?"),
    ("[1]", "options '[1]' are list, expected a JSON object"),
    ("seed=1", "options 'seed=1' are not JSON"),
    ('{"seed": true}', "option seed is True, expected a number"),
    ('{"seed": "one"}', "option seed is 'one', expected a number"),
    ('{"seed": -1}', "option seed is -1, expected 0 or more"),
    ('{"seed": 2147483648}', "option seed is 2147483648, expected less than 2147483648"),
    ('{"max_failures": 0}', "option max_failures is 0, expected 1 or more"),
    ('{"order": "gredy"}', "unknown order 'gredy': did you mean 'greedy'?"),
    ('{"executor": "locl"}', "unknown executor 'locl': did you mean 'local'? known are local, ray"),
    ('{"strategy": "in_rdms"}', "unknown strategy 'in_rdms': did you mean 'in_rdbms'?"),
])  # fmt: skip
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        Options.parse(text, {})
