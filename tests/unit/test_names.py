"""Errors of the name look-up, over answers that a database would give."""

from __future__ import annotations

from typing import Any, Dict, List

import pytest

from cerebro_db import names
from cerebro_db.errors import ExistsError, MissingError, UsageError
from cerebro_db.sqltext import Fragment, TableName, query

PLACE = {"schema": "public", "exists": True, "may_create": True, "name_bytes": 63, "role": "ann"}


class Answers:
    """A database that knows the answers to the queries of names.sql."""

    def __init__(self, **answers: List[Dict[str, Any]]) -> None:
        self.answers = {query("names", name): rows for name, rows in answers.items()}

    def rows(self, sql: Fragment, **values: Any) -> List[Dict[str, Any]]:
        return self.answers[sql]


def test_find_resolves_the_schema() -> None:
    database = Answers(find=[{"schema": "s", "name": "t"}])
    assert names.find(database, TableName(None, "t")) == TableName("s", "t")
    assert names.find(Answers(find=[]), TableName(None, "t")) is None


def test_require_offers_the_nearest_name() -> None:
    database = Answers(find=[], visible_names=[{"name": "Flights"}, {"name": "planes"}])
    with pytest.raises(MissingError, match=r"source table s.flihgts does not exist \(did you mean"
                                           r" 'Flights'\?\)"):
        names.require(database, "s.flihgts", "source table")


@pytest.mark.parametrize(
    ("place", "kind", "words"),
    [
        ({"schema": None}, UsageError, "search_path holds none"),
        ({"exists": False}, MissingError, "schema 'public' .* does not exist"),
        ({"may_create": False}, UsageError, "role 'ann' may not create"),
        ({"schema": "pg_catalog"}, UsageError, "pg_catalog"),
        ({"name_bytes": 9}, UsageError, "too long: 'o_summary_x' has 11 bytes, and the server keeps 9"),
    ],
)
def test_places_that_take_no_table(place: Dict[str, Any], kind: Any, words: str) -> None:
    database = Answers(target_schema=[{**PLACE, **place}], taken=[])
    with pytest.raises(kind, match=words):
        names.require_new(database, "o", "output table", ("_summary_x",))


def test_nothing_is_overwritten() -> None:
    database = Answers(target_schema=[PLACE], taken=[{"name": "o"}, {"name": "o_summary"}])
    with pytest.raises(ExistsError, match="output table public.o and public.o_summary already exist;"
                                          " nothing"):
        names.require_new(database, "o", "output table", ("_summary",))
    free = Answers(target_schema=[PLACE], taken=[])
    assert names.require_new(free, "o", "output table") == TableName("public", "o")


def test_literal_keeps_percent_signs() -> None:
    assert names.literal(TableName("s", 'a"%')) == '"s"."a""%"'
