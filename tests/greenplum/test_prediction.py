"""Evaluate and predict on Greenplum: in the processes of the segments, whatever the planner and the source."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List

import psycopg2
import pytest

from cerebro_db import prediction, segment_models
from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.sqltext import Fragment
from tests.explaining import Explaining
from tests.fitted import IMAGES, LABELS, fit, read, rows

CROSS = {"loss": "cross_entropy", "optimizer": "adam", "lr": 0.01, "metrics": ["accuracy"]}
HEAP = "with (appendonly=false)"


@pytest.fixture(scope="module")
def gp(gp_server: str, pg_module: PsycopgDatabase) -> PsycopgDatabase:
    """400 images, a model of them, and tables packed to train and to validate."""
    pg_module.rows(IMAGES, labels=LABELS)
    fit(pg_module, "out", ["images", "label", "img"], {"model": "mlp", "hidden": [8]}, [CROSS], segments=3)
    rows(pg_module, "select validation_preprocessor_dl('images', 'tested', 'label', 'img', 'out_packed', 10)")
    return pg_module


@pytest.fixture
def undone(gp: PsycopgDatabase) -> Iterator[PsycopgDatabase]:
    """The shared database; what the test does is rolled back."""
    with gp.connection.cursor() as cursor:
        cursor.execute("begin")
        yield gp
        cursor.execute("rollback")


def request(table: str, output: str = "made", wanted: str = "response") -> prediction.PredictRequest:
    return prediction.PredictRequest("out", table, "id", "img", output, wanted)


def answers(database: PsycopgDatabase, table: str) -> Dict[int, Any]:
    return {row["id"]: (row["class_value"], row["prob"]) for row in read(database, table)}


def idle() -> None:
    pass


@pytest.fixture
def truth(undone: PsycopgDatabase) -> Dict[int, Any]:
    """The answers for all images, worked out in this process."""
    prediction.predict(undone, request("images", "truth"), idle)
    return answers(undone, "truth")


def same(found: Dict[int, Any], truth: Dict[int, Any]) -> bool:
    return found.keys() == truth.keys() and all(
        found[key][0] == truth[key][0] and abs(found[key][1] - truth[key][1]) < 1e-6 for key in truth
    )


# -- plans -----------------------------------------------------------------------------------------


def test_only_answers_move(undone: PsycopgDatabase, truth: Dict[int, Any]) -> None:
    session = Explaining(undone, "insert into")
    assert prediction.predict(session, request("images"), idle, segment_models.predict) == 400
    plan = session.plan("predict_row")
    assert plan.count("Motion") == plan.count("Redistribute Motion") == 1
    place = next(k for k, node in enumerate(plan.nodes) if "Motion" in node)
    below = plan.nodes[place + 1 :]
    assert any("Append" in node for node in below)
    assert "Seq Scan on images" in "".join(below)
    assert same(answers(undone, "made"), truth)


@pytest.mark.parametrize("table", ["out_packed", "tested"])
def test_buffers_are_evaluated_where_they_lie(undone: PsycopgDatabase, table: str) -> None:
    session = Explaining(undone, "select")
    evaluate = prediction.EvaluateRequest("out", table, "ev")
    tally = prediction.evaluate(session, evaluate, idle, segment_models.evaluate)
    plan = session.plan("evaluate_buffer")
    assert plan.nodes[0].startswith("Gather Motion")
    assert plan.count("Motion") == 1
    here = prediction.evaluate(undone, prediction.EvaluateRequest("out", table, "here"), idle)
    assert (tally.rows, tally.metric) == (here.rows, here.metric) == (400, here.metric)
    assert tally.loss == pytest.approx(here.loss, abs=1e-6)


def test_copies_are_shared_out_among_the_segments(undone: PsycopgDatabase) -> None:
    sql = (
        "select g.gp_segment_id as segment, count(*) as n from gp_dist_random('pg_catalog.gp_id') g"
        " join tested p on p.buffer_id %% 3 = g.gp_segment_id group by 1 order by 1"
    )
    assert [row["n"] for row in rows(undone, sql)] == [14, 14, 14]


def test_evaluating_again_gives_the_same_bits(undone: PsycopgDatabase) -> None:
    for name in ("a", "b", "c"):
        rows(undone, "select madlib_mop_evaluate('out', 'out_packed', %(name)s)", name=name)
    assert read(undone, "a") == read(undone, "b") == read(undone, "c")


# -- planners --------------------------------------------------------------------------------------


@pytest.mark.parametrize("planner", ["on", "off"])
def test_both_planners_in_a_from_list(undone: PsycopgDatabase, truth: Dict[int, Any], planner: str) -> None:
    try:
        rows(undone, f"set local optimizer = {planner}")
    except psycopg2.Error as error:
        pytest.skip(f"this server has one planner only: {error.diag.message_primary}")
    (planned,) = rows(undone, "explain select count(*) from images group by label")[-1:]
    assert ("GPORCA" in planned["QUERY PLAN"] or "Pivotal" in planned["QUERY PLAN"]) == (planner == "on")
    rows(undone, "select * from madlib_mop_predict('out', 'images', 'id', 'img', 'made', 'response')")
    assert same(answers(undone, "made"), truth)
    rows(undone, "select * from madlib_mop_evaluate('out', 'tested', 'ev'), generate_series(1, 1)")
    assert read(undone, "ev")[0]["rows"] == 400
    joined = "select count(*) as n from made join images using (id) where class_value is not null"
    assert rows(undone, joined) == [{"n": 400}]
    assert rows(undone, "show optimizer") == [{"optimizer": planner}]


# -- sources and outputs ---------------------------------------------------------------------------

SOURCES = {
    "replicated": [f"create table src {HEAP} as select id, img from images distributed replicated"],
    "one_segment": [f"create table src {HEAP} as select id, img, 1 as k from images distributed by (k)"],
    "column": ["create table src with (appendonly=true, orientation=column) as select id, img from images"
               " distributed randomly"],
    "partitioned": [f"create table src (id bigint, img bytea) {HEAP} distributed by (id) partition by range (id)"
                    " (start (0) end (1000) every (150))", "insert into src select id, img from images"],
    "view": ["create view src as select id, img from images"],
    "gathered": ["create view src as select id, img from images order by id limit 1000"],
    "joined": ["create view src as select i.id, max(j.img::text)::bytea as img from images i join images j using (id)"
               " group by i.id"],
    "mixed": [f"create table rep {HEAP} as select id, img from images where id > 300 distributed replicated",
              "create view src as select id, img from images where id <= 300 union all select id, img from rep"],
    "generated": ["create view src as select i::bigint as id, decode(md5(i::text), 'hex') as img"
                  " from generate_series(1, 400) i"],
}  # fmt: skip


@pytest.mark.parametrize("name", list(SOURCES))
def test_every_source_is_predicted_whole(undone: PsycopgDatabase, truth: Dict[int, Any], name: str) -> None:
    for statement in SOURCES[name]:
        rows(undone, statement)
    rows(undone, "select madlib_mop_predict('out', 'src', 'id', 'img', 'made', 'response')")
    found = read(undone, "made")
    assert len(found) == 400
    assert same(answers(undone, "made"), truth)


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_fewer_rows_than_segments(undone: PsycopgDatabase, count: int) -> None:
    rows(undone, f"create table src {HEAP} as select id, img from images where id <= {count} distributed by (id)")
    rows(undone, "select madlib_mop_predict('out', 'src', 'id', 'img', 'made', 'prob')")
    assert sorted(row["id"] for row in read(undone, "made")) == sorted([*range(1, count + 1)] * 3)


def test_many_blocks(undone: PsycopgDatabase, truth: Dict[int, Any]) -> None:
    many = "select i.id + 1000 * g as id, i.img from images i, generate_series(0, 99) g"
    rows(undone, f"create table src {HEAP} as {many} distributed by (id)")
    rows(undone, "select madlib_mop_predict('out', 'src', 'id', 'img', 'made', 'response')")
    wrong = (
        "select count(*) as n, count(*) filter (where m.class_value <> t.class_value or abs(m.prob - t.prob) > 1e-6)"
        " as wrong, count(distinct m.id) as ids from made m join truth t on t.id = m.id %% 1000"
    )
    assert rows(undone, wrong) == [{"n": 40_000, "wrong": 0, "ids": 40_000}]


IDS = [("id", "h", 1), ("point(id, 0)", "h", None), ("to_json(id)", "h", None), ("id::varchar(9)", "h", 1),
       ("array[id]", "h", 1)]  # fmt: skip


@pytest.mark.parametrize(("expression", "kind", "key"), IDS)
def test_outputs_are_heaps_spread_by_the_id_where_it_has_a_hash(
    undone: PsycopgDatabase, expression: str, kind: str, key: object
) -> None:
    rows(undone, "set local gp_default_storage_options = 'appendonly=true,orientation=column'")
    rows(undone, f"create view src as select {expression} as id, img from images")
    rows(undone, "select madlib_mop_predict('out', 'src', 'id', 'img', 'made', 'response')")
    found = rows(
        undone,
        "select c.relstorage::text as kind, (d.distkey::int2[])[0]::int as key from pg_class c"
        " join gp_distribution_policy d on d.localoid = c.oid where c.oid = 'made'::regclass",
    )
    assert found == [{"kind": kind, "key": key}]
    assert rows(undone, "select count(*) as n from made") == [{"n": 400}]


def test_a_bad_row_on_one_segment_is_counted(undone: PsycopgDatabase) -> None:
    rows(undone, f"create table src {HEAP} as select id, case when id = 7 then '\\x00' else img end as img from images"
                 " distributed by (id)")
    with pytest.raises(psycopg2.Error, match="of 400 rows, 'img' has 1 of another size") as caught:
        rows(undone, "select madlib_mop_predict('out', 'src', 'id', 'img', 'made', 'response')")
    assert caught.value.pgcode == "22000"


def test_no_table_of_a_model_is_left(gp: PsycopgDatabase, pg_module_dsn: str) -> None:
    with connect(pg_module_dsn) as session:
        for number in range(2):
            rows(session, f"select madlib_mop_predict('out', 'images', 'id', 'img', 'left_{number}', 'response')")
        left: List[Any] = session.rows(Fragment("select relname from pg_class where relname ~ '^cerebro_'"))
    assert left == []
    assert same(answers(gp, "left_0"), answers(gp, "left_1"))
