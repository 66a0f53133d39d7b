"""Names and fragments: what a user types never becomes SQL."""

from __future__ import annotations

import pytest

from cerebro_db.errors import UsageError
from cerebro_db.sqltext import Fragment, TableName, fill, ident, numbered, query, split_names


@pytest.mark.parametrize(
    ("text", "schema", "name"),
    [
        ("t", None, "t"),
        ("MyTable", None, "mytable"),
        ('"MyTable"', None, "MyTable"),
        ('s."a.b"', "s", "a.b"),
        (' "S" . "say ""hi""" ', "S", 'say "hi"'),
        ("größe", None, "größe"),
        ("t$1", None, "t$1"),
    ],
)
def test_names_are_read_as_sql_reads_them(text: str, schema: str, name: str) -> None:
    table = TableName.parse(text)
    assert table == TableName(schema, name)
    assert TableName.parse(str(table)) == table


@pytest.mark.parametrize(
    "text", [None, "", "  ", "NULL", "1t", "a b", "a.b.c", 'a"b', '"a', "a;drop", "a.", "a,b"]
)
def test_texts_that_are_no_name(text: str) -> None:
    with pytest.raises(UsageError, match="output table"):
        TableName.parse(text, "output table")


def test_lists_of_names() -> None:
    assert split_names('a, "B,c" ,d', "columns") == ["a", "B,c", "d"]


def test_identifiers_are_quoted_and_keep_percent_signs() -> None:
    assert ident('a"b') == '"a""b"'
    assert numbered(fill(Fragment("select {c} where x = %(v)s"), c=ident("50% %(v)s"))) == (
        'select "50% %(v)s" where x = $1', ["v"],
    )
    with pytest.raises(UsageError, match="zero byte"):
        ident("a\0b")


def test_only_fragments_fill_a_template() -> None:
    with pytest.raises(TypeError, match="expected Fragment"):
        fill(Fragment("select {c}"), c="x; drop table t")  # type: ignore[arg-type]
    with pytest.raises(KeyError):
        fill(Fragment("select {c}"))


def test_values_are_numbered_once() -> None:
    assert numbered(Fragment("%(a)s %(b)s %(a)s 5 %% 2")) == ("$1 $2 $1 5 % 2", ["a", "b"])


def test_queries_come_from_files_by_name() -> None:
    assert "pg_table_is_visible" in query("names", "find")
    with pytest.raises(KeyError):
        query("names", "nothing")
