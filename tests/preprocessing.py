"""Both ways into the preprocessors: the SQL functions, and the Python API over psycopg2."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, Optional

import psycopg2
import pytest

from cerebro_db.client import PsycopgDatabase
from cerebro_db.engines import dialect
from cerebro_db.errors import CerebroError
from cerebro_db.packing import PackOptions, PackRequest, ValidationRequest, pack_training, pack_validation
from cerebro_db.sqltext import Fragment, fill, ident

Pack = Callable[..., None]

_TRAIN = Fragment(
    "select cerebro.training_preprocessor_dl(%(source)s::text, %(out)s::text, %(y)s::text, %(x)s::text"
    ", %(buffer_size)s::integer, %(normalizing_const)s::float8, %(num_classes)s::integer[]"
    ", %(distribution_rules)s::text, %(options)s::text::jsonb)"
)
_VALIDATE = Fragment(
    "select cerebro.validation_preprocessor_dl(%(source)s::text, %(out)s::text, %(y)s::text, %(x)s::text"
    ", %(training)s::text, %(buffer_size)s::integer, %(distribution_rules)s::text)"
)


#: Table t: a number, an array, a label, a word and bytes, 100 rows.
ROWS = Fragment(
    "create table t as select i as id, i * 0.5 as f, array[i, i + 1]::float4[] as x, i %% 3 as y"
    ", 'w' || i %% 4 as w, decode(lpad(to_hex(i), 4, '0'), 'hex') as b from generate_series(1, 100) i"
)

#: Queries of rows to pack: images of 1,568 bytes; and numbers, a word, a flag and an array.
IMAGES = "select i as id, i % 3 as y, decode(repeat(md5(i::text), 49), 'hex') as img from generate_series(1, {}) i"
TABULAR = (
    "select i::float8 / 7 as a, i as b, 'w' || i % 5 as w, (i % 2 = 0) as f"
    ", array[i % 128, i % 7, 3]::smallint[] as v, array[i / 3.0, 1]::float8[] as y from generate_series(1, {}) i"
)


def train_by_sql(
    database: PsycopgDatabase, source: Optional[str], out: Optional[str], y: Optional[str], x: Optional[str],
    buffer_size: Optional[int] = None, normalizing_const: float = 1.0,
    num_classes: Optional[List[Optional[int]]] = None, distribution_rules: Optional[str] = None,
    **options: Any,
) -> None:
    database.rows(
        _TRAIN, source=source, out=out, y=y, x=x, buffer_size=buffer_size,
        normalizing_const=float(normalizing_const), num_classes=num_classes,
        distribution_rules=distribution_rules, options=json.dumps(options) if options else None,
    )


def train_by_python(
    database: PsycopgDatabase, source: str, out: str, y: str, x: str,
    buffer_size: Optional[int] = None, normalizing_const: float = 1.0,
    num_classes: Optional[List[Optional[int]]] = None, distribution_rules: Optional[str] = None,
    **options: Any,
) -> None:
    classes = None if num_classes is None else tuple(num_classes)
    request = PackRequest(
        source, out, y, x, buffer_size, normalizing_const, classes, distribution_rules,
        PackOptions.checked(options),
    )
    # A fit stores its request; what comes back must be the same.
    assert PackRequest.from_json(request.to_json()) == request
    pack_training(database, request)


def validate_by_sql(database: PsycopgDatabase, source: str, out: str, y: str, x: str, training: str,
                    **given: Any) -> None:
    values: Dict[str, Any] = {"buffer_size": None, "distribution_rules": None, **given}
    database.rows(_VALIDATE, source=source, out=out, y=y, x=x, training=training, **values)


def validate_by_python(database: PsycopgDatabase, source: str, out: str, y: str, x: str, training: str,
                       **given: Any) -> None:
    pack_validation(database, ValidationRequest(source, out, y, x, training, **given))


TRAIN = {"sql": train_by_sql, "python": train_by_python}
VALIDATE = {"sql": validate_by_sql, "python": validate_by_python}


@contextmanager
def refused(database: PsycopgDatabase, *words: str) -> Iterator[None]:
    """The block raises an error with all of `words`, and leaves every relation as it was."""
    before = relations(database)
    with pytest.raises((CerebroError, psycopg2.Error)) as caught:
        yield
    message = str(caught.value)
    for word in words:
        assert word in message, f"{word!r} is not in {message!r}"
    if isinstance(caught.value, psycopg2.Error):
        assert message.startswith("cerebro: "), message
    assert relations(database) == before


def run(database: PsycopgDatabase, *statements: str) -> None:
    for statement in statements:
        database.script(Fragment(statement))


def emptied(database: PsycopgDatabase) -> PsycopgDatabase:
    """The database as it was after installing: cheaper than a fresh one for each test."""
    found = database.rows(Fragment(
        "select nspname as name from pg_namespace where nspname !~ '^(pg_|cerebro|information_schema)'"
    ))
    for row in found:
        database.rows(fill(Fragment("drop schema {name} cascade"), name=ident(row["name"])))
    run(database, "create schema public", "reset search_path")
    return database


def pack_images(database: PsycopgDatabase, rows: int) -> None:
    """Tables raw, of IMAGES, and packed, in buffers of 40 rows."""
    run(database, "create table raw as " + IMAGES.format(rows))
    train_by_python(database, "raw", "packed", "y", "img", buffer_size=40)


def key_of(database: PsycopgDatabase, segment: Optional[int], segments: int = 2) -> Optional[int]:
    """The __dist_key__ of one of so many segments; None for all, 99 for a segment that no table has."""
    if segment is None or segment >= segments:
        return segment
    return int(database.rows(dialect(database, "keys_of_segments"), segments=segments)[segment]["key"])


def relations(database: PsycopgDatabase) -> List[str]:
    found = database.rows(Fragment("select oid::bigint || ' ' || relname as r from pg_class order by oid"))
    return [row["r"] for row in found]
