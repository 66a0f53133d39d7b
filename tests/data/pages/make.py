"""Write heap.bin, toast.bin and facts.json beside this file: `python tests/data/pages/make.py DSN`.

The DSN is that of a superuser on this machine's PostgreSQL, to a scratch database. The table has rows of
every kind: inline with short and long headers, TOASTed, NULL, of before a column was added, beside a
dropped column, updated in place, deleted and vacuumed, rolled back.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.sqltext import Fragment, query

HERE = Path(__file__).resolve().parent
TABLE = "golden_pages"
#: Sizes of the two bytea columns of each row; None is NULL.
SIZES = (
    (0, 1), (5, 126), (127, 1500), (1996, 3), (1997, 1997), (5988, 20000), (None, 40), (41, None), (None, None),
    (7984, 100), (3000, 3000), (60, 61), (9000, 2500),
)  # fmt: skip
DELETED, UPDATED, EARLY = (3, 10), 11, 4


def content(row: int, column: str, size: int) -> bytes:
    """The bytes of a value; the unit test makes them anew."""
    return bytes((i * (2 * row + 3) + i // 251 + len(column)) % 256 for i in range(size))


def main(dsn: str) -> None:
    with connect(dsn) as db:
        _fill(db)
        db.rows(query("pages", "checkpoint"))
        facts = db.rows(query("pages", "server"))[0]
        relation = db.rows(query("pages", "relation"), table=TABLE)[0]
        for name in ("heap", "toast"):
            path = Path(facts["data_directory"]) / relation[name]
            (HERE / f"{name}.bin").write_bytes(path.read_bytes())
        attributes = [[r["name"], r["length"], r["align"]] for r in db.rows(query("pages", "attributes"), table=TABLE)]
        keys = ("block_size", "chunk_size", "max_align")
        found = {
            "form": {key: facts[key] for key in keys},
            "order": sys.byteorder,
            "toast_oid": relation["toast_oid"],
            "attributes": attributes,
            "rows": _rows(db),
        }
        (HERE / "facts.json").write_text(json.dumps(found) + "\n")
        db.script(Fragment(f"drop table {TABLE}"))


def _fill(db: PsycopgDatabase) -> None:
    db.script(Fragment(
        f"create table {TABLE} (flag boolean, gone text default 'gone', id integer not null, big bigint, a bytea"
        ", name text, half smallint, b bytea);"
        f"alter table {TABLE} set (autovacuum_enabled = off, toast.autovacuum_enabled = off);"
        f"alter table {TABLE} alter a set storage external, alter b set storage external"
    ))  # fmt: skip
    for number, _ in enumerate(SIZES):
        if number == EARLY:
            db.script(Fragment(f"alter table {TABLE} drop column gone; alter table {TABLE} add late bytea"))
        _insert(db, number)
    db.script(Fragment(f"begin; insert into {TABLE} select * from {TABLE}; rollback"))
    db.rows(Fragment(f"delete from {TABLE} where id = any(%(ids)s)"), ids=list(DELETED))
    db.rows(Fragment(f"update {TABLE} set half = 77 where id = %(id)s"), id=UPDATED)
    db.script(Fragment(f"vacuum {TABLE}"))
    db.rows(Fragment(f"delete from {TABLE} where id = %(id)s"), id=len(SIZES) - 1)
    db.script(Fragment(f"select count(*) from {TABLE}"))


def _insert(db: PsycopgDatabase, number: int) -> None:
    a, b = (
        None if size is None else content(number, column, size) for column, size in zip(("a", "bb"), SIZES[number])
    )
    db.rows(
        Fragment(
            f"insert into {TABLE} (flag, id, big, a, name, half, b)"
            " values (%(flag)s::boolean, %(id)s, %(id)s, %(a)s::bytea, %(name)s, %(id)s, %(b)s::bytea)"
        ),
        flag=None if number % 3 == 0 else True, id=number, a=a, name="n" * (number * 20), b=b,
    )  # fmt: skip


def _rows(db: PsycopgDatabase) -> object:
    sql = (
        "select id, (ctid::text::point)[0]::int as block, (ctid::text::point)[1]::int as item"
        f", xmin::text::bigint as xmin from {TABLE} order by id"
    )
    return db.rows(Fragment(sql))


if __name__ == "__main__":
    main(sys.argv[1])
