"""delete_model_arch: one model less, the table with the last; unknown ids and tables are errors."""

from __future__ import annotations

import psycopg2
import pytest

from cerebro_db import names, selection
from cerebro_db.client import connect
from cerebro_db.sqltext import Fragment, TableName

DELETE = Fragment("select delete_model_arch(%(table)s, %(model_id)s::integer)")


@pytest.fixture
def pg(pg_dsn):
    with connect(pg_dsn) as database:
        for _ in range(2):
            selection.load_model_arch(database, "arch", '{"model": "mlp"}')
        yield database


def test_the_table_goes_with_its_last_model(pg):
    pg.rows(DELETE, table="arch", model_id=1)
    assert pg.rows(Fragment("select model_id from arch")) == [{"model_id": 2}]
    pg.rows(DELETE, table="public.arch", model_id=2)
    assert names.find(pg, TableName(None, "arch")) is None


@pytest.mark.parametrize(
    ("table", "model_id", "message"),
    [
        ("arch", 3, "model_id 3 is not in model_arch_table public.arch, which holds 1, 2"),
        ("arch", None, "model_id NULL is not in"),
        ("arc", 1, "model_arch_table arc does not exist (did you mean 'arch'?)"),
        (None, 1, "model_arch_table is None, expected a name"),
        ("empty", 1, "which holds no models"),
        ("other", 1, "model_arch_table public.other lacks the columns model_arch, model_weights"),
    ],
)
def test_refused(pg, table, model_id, message):
    pg.script(Fragment("create table empty (like arch)"))
    pg.script(Fragment("create table other (model_id integer)"))
    with pytest.raises(psycopg2.Error) as caught:
        pg.rows(DELETE, table=table, model_id=model_id)
    assert message in str(caught.value)
    assert len(pg.rows(Fragment("select * from arch"))) == 2
    assert names.find(pg, TableName(None, "empty")) is not None
