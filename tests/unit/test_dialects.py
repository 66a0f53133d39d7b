"""The files of the two engines say the same names, so that no caller asks which one it talks to."""

from __future__ import annotations

import re
from typing import List

import pytest

from cerebro_db.engines import GREENPLUM, POSTGRESQL
from cerebro_db.sqltext import root

#: What a file gives others: queries, psql variables, functions.
GIVEN = {
    "": re.compile(r"^-- (\w+) --$", re.MULTILINE),
    "install": re.compile(r"^(?:\\set (\w+) |create or replace function ([\w.]+)\()", re.MULTILINE),
}


def names(folder: str, engine: str) -> List[str]:
    text = (root() / "sql" / "dialect" / folder / f"{engine}.sql").read_text("utf-8")
    return sorted("".join(found) for found in GIVEN[folder].findall(text))


@pytest.mark.parametrize("folder", list(GIVEN))
def test_both_engines_have_the_same_names(folder: str) -> None:
    found = names(folder, POSTGRESQL)
    assert found
    assert len(set(found)) == len(found)
    assert names(folder, GREENPLUM) == found
