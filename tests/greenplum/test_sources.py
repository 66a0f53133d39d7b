"""Sources on Greenplum: packed whole, trained on whole, and packed the same again where rows have places."""

from __future__ import annotations

from typing import Dict, List, Tuple

import psycopg2
import pytest

from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.database import one
from cerebro_db.packing import fingerprint
from cerebro_db.sqltext import Fragment, TableName
from tests.decoding import decode
from tests.preprocessing import run, train_by_python
from tests.runs import ADAM, MLP, fit, make_selection

ROWS = "select i as id, i % 3 as y, array[i % 7, i]::float4[] as x from generate_series(1, {}) i"
HEAP = "with (appendonly=false)"
#: What makes the source `src_<name>`, and how many rows it has.
SOURCES: Dict[str, Tuple[List[str], int]] = {
    "heap": ([f"create table src_heap {HEAP} as {ROWS.format(500)} distributed by (id)"], 500),
    "random": ([f"create table src_random {HEAP} as {ROWS.format(500)} distributed randomly"], 500),
    "one_segment": ([f"create table src_one_segment {HEAP} as select s.*, 1 as k from ({ROWS.format(500)}) s"
                     " distributed by (k)"], 500),
    "few": ([f"create table src_few {HEAP} as {ROWS.format(2)} distributed by (id)"], 2),
    "append_only": (["create table src_append_only with (appendonly=true) as"
                     f" {ROWS.format(500)} distributed by (id)"], 500),
    "column": (["create table src_column with (appendonly=true, orientation=column, compresstype=zlib) as"
                f" {ROWS.format(500)} distributed by (id)"], 500),
    "partitioned": ([f"create table src_partitioned (id int, y int, x float4[]) {HEAP} distributed by (id)"
                     " partition by range (id) (start (0) end (200), start (200) end (1000))",
                     f"insert into src_partitioned {ROWS.format(500)}"], 500),
    "mixed": ([f"create table src_mixed (id int, y int, x float4[]) {HEAP} distributed by (id)"
               " partition by range (id) (start (0) end (200), start (200) end (1000) with (appendonly=true))",
                     f"insert into src_mixed {ROWS.format(500)}"], 500),
    "nested": (["create table src_nested (id int, y int, x float4[]) with (appendonly=false) distributed by (id)"
                " partition by list (y) subpartition by range (id)"
                " subpartition template (start (0) end (1000) every (250))"
                " (partition a values (0), partition b values (1, 2))",
                f"insert into src_nested {ROWS.format(500)}"], 500),
    "materialized": ([f"create materialized view src_materialized as {ROWS.format(500)} distributed by (id)"], 500),
    "replicated": ([f"create table src_replicated {HEAP} as {ROWS.format(500)} distributed replicated"], 500),
    "view": ([f"create table under {HEAP} as {ROWS.format(600)} distributed by (id)",
              "create view src_view as select id, y, x from under where id <= 500"], 500),
    "gathered": ([f"create table below {HEAP} as {ROWS.format(600)} distributed by (id)",
                  "create view src_gathered as select id, y, x from below order by id limit 500"], 500),
    "generated": ([f"create view src_generated as {ROWS.format(500)}"], 500),
    "external": (["create external web table src_external (id int, y int, x float4[]) execute"
                  " E'for i in $(seq 1 500); do echo \"$i|$((i % 3))|{$((i % 7)),$i}\"; done' on master format 'text'"
                  " (delimiter '|')"], 500),
}  # fmt: skip
#: Those whose rows lie nowhere of their own.
PLACELESS = {"replicated", "view", "gathered", "generated", "external"}


@pytest.fixture(scope="module")
def gp(gp_server: str, pg_module: PsycopgDatabase) -> PsycopgDatabase:
    for statements, _ in SOURCES.values():
        run(pg_module, *statements)
    make_selection(pg_module, "s", {1: (MLP, ADAM, "batch_size=100")})
    return pg_module


@pytest.mark.parametrize("name", list(SOURCES))
def test_every_row_is_packed_once(gp: PsycopgDatabase, name: str) -> None:
    rows = SOURCES[name][1]
    train_by_python(gp, f"src_{name}", f"p_{name}", "y", "id, x", segments=3)
    got = decode(gp, f"p_{name}")
    ids = got.column("id").astype(int)
    assert sorted(ids) == list(range(1, rows + 1))
    assert (got.inputs["x"][:, 1] == ids).all()
    assert (got.target == ids % 3 - (rows == 2)).all()
    sizes = [got.segments.count(segment) for segment in set(got.segments)]
    assert len(sizes) == min(3, rows)
    assert max(got.buffers) - min(got.buffers) <= 1
    if rows > 2:
        assert list(ids) != sorted(ids)


@pytest.mark.parametrize("name", list(SOURCES))
def test_packed_again_it_is_the_same_or_a_notice_says_so(
    gp: PsycopgDatabase, pg_module_dsn: str, name: str
) -> None:
    packed = []
    told: List[str] = []
    for copy in ("a", "b"):
        with connect(pg_module_dsn, on_notice=told.append) as session:
            train_by_python(session, f"src_{name}", f"{copy}_{name}", "y", "id, x", buffer_size=20, segments=2, seed=7)
        packed.append(gp.rows(Fragment(f"select * from {copy}_{name} order by buffer_id")))
    warned = [line for line in told if "lie in no place of their own" in line]
    assert (len(warned), f"src_{name} lie in" in "".join(warned)) == ((2, True) if name in PLACELESS else (0, False))
    if name not in PLACELESS:
        assert packed[0] == packed[1]


@pytest.mark.parametrize("name", [name for name in SOURCES if name != "few"])
def test_a_run_trains_on_every_row_once_in_an_epoch(gp: PsycopgDatabase, name: str) -> None:
    columns = {"dependent_varname": "y", "independent_varname": "id, x", "segments": 3}
    result = fit(gp, f"src_{name}", f"out_{name}", "s", 1, **columns)
    sql = Fragment("select sum(rows)::int as rows from cerebro.hop where run_id = %(run_id)s")
    trained = one(gp, sql, run_id=result["run_id"])
    assert (result["status"], trained["rows"]) == ("finished", SOURCES[name][1])


def test_validation_rows_of_every_source(gp: PsycopgDatabase) -> None:
    run(gp, "select training_preprocessor_dl('src_heap', 'learned', 'y', 'id, x')")
    for name, (_, rows) in SOURCES.items():
        run(gp, f"select validation_preprocessor_dl('src_{name}', 'v_{name}', 'y', 'id, x', 'learned')")
        assert sorted(decode(gp, f"v_{name}").column("id").astype(int)) == list(range(1, rows + 1))


def test_rows_that_are_everywhere_are_not_trained_on(gp: PsycopgDatabase) -> None:
    run(gp, "select training_preprocessor_dl('src_heap', 'taught', 'y', 'id, x')")
    run(gp, "select validation_preprocessor_dl('src_heap', 'checked', 'y', 'id, x', 'taught')")
    with pytest.raises(psycopg2.Error, match="source_table public.checked is packed to validate on"):
        fit(gp, "checked", "never", "s", 1)


# -- whether a source changed ----------------------------------------------------------------------

CHANGES = (
    "update {} set y = y where id = 3",
    "delete from {} where id = 4",
    "insert into {} select * from {} where id = 5",
    "truncate {}; insert into {} select * from src_heap",
)


@pytest.mark.parametrize("name", ["heap", "append_only", "column", "partitioned", "nested", "one_segment"])
def test_every_change_changes_the_fingerprint(gp: PsycopgDatabase, name: str) -> None:
    table = TableName("public", f"src_{name}")
    columns = "id, y, x" + ", 1" * (name == "one_segment")
    seen = {fingerprint(gp, table)}
    assert fingerprint(gp, table) in seen - {None}
    run(gp, "create temporary table was as select id, y, x from src_heap distributed randomly")
    with gp.connection.cursor() as cursor:
        for change in CHANGES:
            cursor.execute("begin")
            cursor.execute(change.replace("* from src_heap", f"{columns} from was").replace("{}", table.name))
            cursor.execute("commit")
            seen.add(fingerprint(gp, table))
    run(gp, "drop table was")
    assert len(seen) == 1 + len(CHANGES)


@pytest.mark.parametrize("name", sorted(PLACELESS | {"mixed"}))
def test_rows_whose_versions_cannot_be_told_have_no_fingerprint(gp: PsycopgDatabase, name: str) -> None:
    assert fingerprint(gp, TableName("public", f"src_{name}")) is None
