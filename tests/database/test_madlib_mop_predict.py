"""madlib_mop_predict on a real server."""

from __future__ import annotations

import threading

import psycopg2
import pytest
import torch

from cerebro_db import prediction
from cerebro_db.client import connect, make_dsn
from cerebro_db.engines import on_greenplum
from cerebro_db.errors import DataError
from cerebro_db.sqltext import Fragment
from tests.fitted import IMAGES, LABELS, PEOPLE, fit, mlp_outputs, read, rows
from tests.processes import threads, working, works_on
from tests.support import wait_until

CROSS = {"loss": "cross_entropy", "optimizer": "adam", "lr": 0.01, "metrics": ["accuracy"]}
MLP = {"model": "mlp", "hidden": [8]}
SQUARES = {"loss": "mse", "optimizer": "adam", "lr": 0.01, "metrics": ["mae"]}
CALL = (
    "select madlib_mop_predict(%(model)s, %(test)s, %(id)s, %(features)s, %(out)s, %(type)s, false"
    ", %(key)s::integer)"
)


@pytest.fixture(scope="module")
def pg(pg_module):
    """Fits over images (class), and over people: a boolean label with imputing, a number, an array."""
    pg_module.rows(IMAGES, labels=LABELS)
    rows(pg_module, "create table tested as select * from images where id <= 150")
    rows(pg_module, PEOPLE)
    fit(pg_module, "out", ["images", "label", "img"], MLP, [CROSS])
    logits = {**CROSS, "loss": "bce_with_logits"}
    fit(pg_module, "won", ["people", "won", "age, town"], {"model": "tabular"}, [logits], nulls="impute")
    fit(pg_module, "worth", ["people", "worth", "grid[2,2]"], MLP, [SQUARES])
    fit(pg_module, "pair", ["people", "pair", "worth, grid"], MLP, [SQUARES])
    fit(pg_module, "big", ["people", "big", "worth"], MLP, [CROSS])
    return pg_module


@pytest.fixture
def undone(pg):
    """The shared database; what the test does is rolled back."""
    with pg.connection.cursor() as cursor:
        cursor.execute("begin")
        yield pg
        cursor.execute("rollback")


def call(pg, **changes):
    given = {
        "model": "out", "test": "tested", "id": "id", "features": "img", "out": "made", "type": "prob",
        "key": None, **changes,
    }  # fmt: skip
    rows(pg, CALL, **given)
    return read(pg, given["out"])


def refused(pg, message, **changes):
    with pytest.raises(psycopg2.Error) as caught:
        call(pg, **changes)
    assert message in str(caught.value)
    return caught.value.pgcode


def expected(pg):
    """id -> probabilities of the sorted labels."""
    found = rows(pg, "select id, img from tested")
    x = torch.stack([torch.frombuffer(bytearray(row["img"]), dtype=torch.uint8) for row in found]).float() / 255
    probs = mlp_outputs(pg, "out", 1, x).softmax(1)
    return {row["id"]: dict(zip(sorted(LABELS), line.tolist())) for row, line in zip(found, probs)}


# -- classes ---------------------------------------------------------------------------------------


def test_prob_gives_every_class_ranked(undone):
    made, truth = call(undone), expected(undone)
    assert list(made[0]) == ["id", "class_name", "class_value", "prob", "rank"]
    assert len(made) == 150 * 3
    assert {row["class_name"] for row in made} == {"label"}
    for row in made:
        assert row["prob"] == pytest.approx(truth[row["id"]][row["class_value"]], abs=1e-6)
    for key, probs in truth.items():
        ranked = sorted((row["rank"], row["class_value"]) for row in made if row["id"] == key)
        assert ranked == list(enumerate(sorted(probs, key=lambda label: -probs[label]), 1))


def test_response_is_the_best_class_and_agrees_with_evaluate(undone):
    made, truth = call(undone, type="response"), expected(undone)
    assert list(made[0]) == ["id", "class_name", "class_value", "prob"]
    assert {row["id"]: row["class_value"] for row in made} == {
        key: max(probs, key=lambda label: probs[label]) for key, probs in truth.items()
    }
    rows(undone, "select validation_preprocessor_dl('tested', 'tested_packed', 'label', 'img', 'out_packed')")
    rows(undone, "select madlib_mop_evaluate('out', 'tested_packed', 'ev')")
    right = rows(undone, "select avg((class_value = label)::int)::float8 as x from made join tested using (id)")
    assert right[0]["x"] == pytest.approx(read(undone, "ev")[0]["metric"], abs=1e-6)


@pytest.mark.parametrize(("asked", "each"), [("1", 1), ("2", 2), ("3", 3), ("9", 3)])
def test_top_k(undone, asked, each):
    made = call(undone, type=asked)
    assert len(made) == 150 * each
    truth = expected(undone)
    for row in made:
        larger = sum(prob > row["prob"] + 1e-6 for prob in truth[row["id"]].values())
        assert larger < row["rank"] <= each


@pytest.mark.parametrize(("asked", "least"), [("0.0", 0.0), ("0.35", 0.35), (".5", 0.5), ("1e-3", 0.001)])
def test_probability_above(undone, asked, least):
    made = call(undone, type=asked)
    truth = [prob for probs in expected(undone).values() for prob in probs.values()]
    assert len(made) == sum(prob > least for prob in truth)
    assert all(row["prob"] > least for row in made)


def test_pred_type_as_a_number(undone):
    for number, count in (("2", 300), ("0.0", 450)):
        rows(undone, f"select madlib_mop_predict('out', 'tested', 'id', 'img', 'made', {number})")
        assert len(read(undone, "made")) == count
        rows(undone, "drop table made")


@pytest.mark.parametrize("asked", ["0", "-1", "1.0", "2.0", "-0.5", "NaN", "inf", "best", "", "1e3", "1;2"])
def test_pred_type_that_is_none(undone, asked):
    assert refused(undone, f"pred_type is {asked!r}", type=asked) == "22023"


def test_imputed_rows_unseen_words_and_boolean_labels(undone):
    rows(undone, "insert into people (id, age, town) values ('new', null, 'nowhere'), ('old', null, null)")
    made = call(undone, model="won", test="people", features=None, type="response")
    assert len(made) == 202
    assert {row["class_value"] for row in made} <= {"true", "false"}
    by_id = {row["id"]: row for row in made}
    assert by_id["new"]["prob"] == by_id["old"]["prob"]
    assert all(row["prob"] >= 0.5 for row in made)


def test_bigint_labels_keep_all_digits(undone):
    made = call(undone, model="big", test="people", features="worth", type="prob")
    assert {row["class_value"] for row in made} == {"9007199254740990", "9007199254740991"}


# -- numbers ---------------------------------------------------------------------------------------


def test_value_of_a_regression(undone):
    made = call(undone, model="worth", test="people", features="grid[2,2]")
    x = torch.tensor([row["grid"] for row in read(undone, "people")]).float().flatten(1) / 255
    truth = mlp_outputs(undone, "worth", 1, x).flatten().tolist()
    assert list(made[0]) == ["id", "class_name", "prediction"]
    by_id = {row["id"]: row["prediction"] for row in made}
    for row, value in zip(read(undone, "people"), truth):
        assert by_id[row["id"]] == pytest.approx(value, rel=1e-4, abs=1e-5)
    assert refused(undone, "predicts numbers of 'worth', not classes", model="worth", type="2") == "22023"


def test_components_of_an_array(undone):
    made = call(undone, model="pair", test="people", features=None, type="response")
    assert list(made[0]) == ["id", "class_name", "component", "prediction"]
    found = read(undone, "people")
    numbers = torch.tensor([[row["worth"]] for row in found]).float()
    grids = torch.tensor([row["grid"] for row in found]).float().flatten(1) / 255
    truth = mlp_outputs(undone, "pair", 1, torch.cat([numbers, grids], 1))
    by_key = {(row["id"], row["component"]): row["prediction"] for row in made}
    assert len(by_key) == 400
    for row, values in zip(found, truth.tolist()):
        for place, value in enumerate(values, 1):
            assert by_key[row["id"], place] == pytest.approx(value, rel=1e-4, abs=1e-5)


# -- ids and sources -------------------------------------------------------------------------------


IDS = [
    ("id", "bigint"),
    ("('2020-01-01'::timestamptz + id * interval '1.000001 s')", "timestamp with time zone"),
    ("(id / 3.0::float8)", "double precision"),
    ("('a\"{},\\' || id)::varchar(20)", "character varying(20)"),
    ("array[id, id + 1]", "bigint[]"),
    ("case when id % 2 = 0 then id::numeric(12,3) end", "numeric(12,3)"),
]


@pytest.mark.parametrize("source", ["table", "view"])
@pytest.mark.parametrize(("expression", "sql_type"), IDS)
def test_ids_of_any_type_come_back_as_they_are(undone, source, expression, sql_type):
    rows(undone, f"create {source} other as select cast({expression} as {sql_type}) as \"The Id\", img as \"Pixel\""
                 " from tested".replace("%", "%%"))
    made = call(undone, test="other", id='"The Id"', features='"Pixel"', type="response")
    assert len(made) == 150
    key = "\"The Id\"::text, prob"
    call(undone, out="plain", type="response")
    differ = f"select {key} from made except all select ({expression})::{sql_type}::text, p.prob from plain p"
    same = rows(undone, f"select count(*) as n from ({differ}) x".replace("%", "%%"))
    kind = rows(undone, "select format_type(atttypid, atttypmod) as t from pg_attribute"
                        " where attrelid = 'made'::regclass and attnum = 1")
    assert (same[0]["n"], kind[0]["t"]) == (0, sql_type)


def test_duplicate_ids_are_rows_of_their_own(undone):
    rows(undone, "create table twice as select 7 as id, img from tested where id < 4")
    made = call(undone, test="twice")
    assert sorted(row["rank"] for row in made) == [1, 1, 1, 2, 2, 2, 3, 3, 3]


def test_many_blocks_by_pages_and_by_count(undone, monkeypatch):
    monkeypatch.setattr("cerebro_db.raw_rows.BLOCK_BYTES", 0)
    monkeypatch.setattr("cerebro_db.raw_rows.LEAST_ROWS", 7)
    rows(undone, "create view seen as select * from tested")
    truth = expected(undone)
    for test in ("tested", "seen"):
        request = prediction.PredictRequest("out", test, "id", None, test + "_made", "response")
        assert prediction.predict(undone, request, lambda: None) == 150
        made = {row["id"]: row["prob"] for row in read(undone, test + "_made")}
        assert made == pytest.approx({key: max(probs.values()) for key, probs in truth.items()}, abs=1e-6)


def test_no_rows_give_an_empty_table(undone):
    for source in ("table", "view"):
        rows(undone, f"create {source} empty_{source} as select * from tested where false")
        assert call(undone, test=f"empty_{source}", out=f"made_{source}") == []


def test_arrays_of_another_type_or_flat(undone):
    rows(undone, "create table flat as select id, array[300.0, -1, 2, 3]::numeric[] as g from people limit 9")
    made = call(undone, model="worth", test="flat", features="g")
    x = torch.tensor([[300.0, -1, 2, 3]]) / 255
    value = mlp_outputs(undone, "worth", 1, x).item()
    assert [row["prediction"] for row in made] == pytest.approx([value] * 9, rel=1e-4)


# -- bad rows and arguments ------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["table", "view"])
def test_bad_images_are_counted(undone, source):
    rows(undone, "create table sick as select id, case when id = 3 then null when id < 6 then '\\x00' else img end"
                 " as img from tested")
    if source == "view":
        rows(undone, "create view sick_view as select * from sick")
    name = "sick" if source == "table" else "sick_view"
    message = "of 150 rows, 'img' has 1 NULL, 4 of another size"
    assert refused(undone, message, test=name) == "22000"


BAD_GRIDS = [
    ("null", "1 NULL"),
    ("'{1,2,3}'", "1 of another size"),
    ("'{1,2,3,null}'", "1 with NaN"),
    ("'{1,2,3,NaN}'", "1 with NaN"),
    ("'{1,2,3,1e39}'", "1 with NaN"),
]


@pytest.mark.parametrize(("value", "message"), BAD_GRIDS)
def test_bad_arrays_are_counted(undone, value, message):
    rows(undone, f"create table sick as select 1 as id, {value}::float8[] as grid"
                 " union all select 2, '{1,2,3,4}'")
    refused(undone, f"of 2 rows, 'grid' has {message}", model="worth", test="sick", features="grid")


@pytest.mark.parametrize(("value", "message"), [
    ("null", "1 NULL"), ("'NaN'", "1 with NaN"), ("'-Infinity'", "1 with NaN"), ("1e300", "1 with NaN"),
])
def test_bad_numbers_are_counted(undone, value, message):
    rows(undone, f"create table sick as select 1 as id, {value}::float8 as worth union all select 2, 1e-300")
    refused(undone, f"of 2 rows, 'worth' has {message}", model="big", test="sick", features="worth")
    rows(undone, "rollback")
    rows(undone, "begin")
    if value != "1e300":
        rows(undone, f"create table sick as select 1 as id, {value}::float4 as worth union all select 2, 1")
        refused(undone, f"of 2 rows, 'worth' has {message}", model="big", test="sick", features="worth")


def test_arrays_in_another_order_are_refused(undone):
    changed = "replace(layout::text, '\"shape\": [2, 2]', '\"shape\": [4, 1]')"
    rows(undone, f"update worth_summary set layout = {changed}::json")
    refused(undone, "has the shape [2, 2], but the training column 'grid' has [4, 1]",
            model="worth", test="people", features="grid")


BAD = [
    ({"model": "nowhere"}, "model_table nowhere does not exist"),
    ({"key": 0}, "mst_key 0 is not in public.out; it has 1"),
    ({"test": "nowhere"}, "test_table nowhere does not exist"),
    ({"test": "out_packed"}, "test_table public.out_packed is packed"),
    ({"id": "nr"}, "id_col 'nr' does not exist in table public.tested"),
    ({"id": None}, "id_col is None"),
    ({"id": "id, label"}, "names 2 columns, expected one"),
    ({"features": "pixel"}, "feature column 'pixel' does not exist in table public.tested"),
    ({"features": "img, label"}, "names 2 columns, but the training table was packed with 1"),
    ({"features": "label"}, "the training column 'img' in its place is array"),
    ({"features": "img[4,5]"}, "states the shape [4, 5] for column 'img'"),
    ({"test": "people", "features": None}, "feature column 'img' does not exist"),
    ({"out": "images"}, "output_table public.images already exists"),
    ({"out": "no.such"}, "schema 'no'"),
]


@pytest.mark.parametrize(("changes", "message"), BAD)
def test_bad_arguments(undone, changes, message):
    refused(undone, message, **changes)


def test_an_id_with_the_name_of_an_output_column(undone):
    rows(undone, "create table named as select id as prob, img from tested")
    refused(undone, "id_col 'prob' bears the name of a column", test="named", id="prob")


# -- rights, interrupts, clients -------------------------------------------------------------------


def test_nothing_is_left_behind_and_settings_come_back(undone):
    shown = "select name, setting from pg_settings where name in ('enable_nestloop', 'jit', 'optimizer') order by 1"
    before = rows(undone, shown)
    call(undone)
    assert rows(undone, shown) == before


def test_a_client_gets_the_same(undone):
    call(undone)
    request = prediction.PredictRequest("out", "tested", "id", "img", "theirs")
    assert prediction.predict(undone, request, lambda: None) == 150
    ours = rows(undone, "select id, class_value, rank, prob from made order by id, rank")
    theirs = rows(undone, "select id, class_value, rank, prob from theirs order by id, rank")
    assert len(ours) == len(theirs) == 450
    assert max(abs(a["prob"] - b["prob"]) for a, b in zip(ours, theirs)) < 1e-6
    assert [row["class_value"] for row in ours] == [row["class_value"] for row in theirs]
    rows(undone, "create table sick as select 1 as id, null::bytea as img")
    with pytest.raises(DataError, match="has 1 NULL"):
        prediction.predict(undone, prediction.PredictRequest("out", "sick", "id", None, "x"), lambda: None)


@pytest.mark.parametrize("source", ["table", "view"])
def test_cancel_ends_it_with_57014_and_leaves_nothing(pg, pg_module_dsn, source):
    many = 3000 if source == "table" else 1000000
    rows(pg, f"create {source} long_{source} as select t.id, t.img from tested t, generate_series(1, {many}) g")
    caught = []
    with connect(pg_module_dsn) as victim:
        rows(victim, "select madlib_mop_predict('out', 'tested', 'id', 'img', 'warm', 'response')")
        rows(victim, "drop table warm")
        pid = victim.connection.info.backend_pid

        def predict():
            try:
                call(victim, test=f"long_{source}")
            except psycopg2.Error as error:
                caught.append((error.pgcode, str(error)))

        number = rows(victim, "select current_setting('gp_session_id') as n")[0]["n"] if on_greenplum(victim) else None
        thread = threading.Thread(target=predict)
        thread.start()
        wait_until(lambda: works_on(pg, number, "predict_row") if number else _creates(pg, pid), 60, "it predicts")
        rows(pg, "select pg_cancel_backend(%(pid)s::integer)", pid=pid)
        thread.join(10)
        assert [code for code, _ in caught] == ["57014"], caught
        assert rows(victim, "select count(*) as n from pg_class where relname = 'made'") == [{"n": 0}]


def _creates(pg, pid):
    locks = "select count(*) as n from pg_locks where pid = %(pid)s and mode = 'AccessExclusiveLock'"
    return rows(pg, locks, pid=pid)[0]["n"] > 0


def test_threads_born_in_the_server_block_all_signals(pg_module_dsn, pg):
    with connect(pg_module_dsn) as session:
        rows(session, "begin")
        call(session)
        found = [blocked for pid in working(session) for tid, blocked in threads(pid).items() if tid != pid]
        assert found
        for blocked in found:
            assert blocked >= {2, 10, 14, 15}
        rows(session, "rollback")


def test_rights_are_the_callers(pg, pg_module_dsn, role):
    rows(pg, "create table secret as select * from tested")
    relation = "relation" if on_greenplum(pg) else "table"  # by the words of version 9.4
    alice, stranger = role("alice"), role("stranger", member=False)
    name = pg.connection.info.dbname
    for suffix in ("", "_info", "_summary"):
        pg.script(Fragment(f"grant select on out{suffix} to {alice.name}, {stranger.name}"))
    pg.script(Fragment(f"grant create on schema public to {alice.name}, {stranger.name}"))
    for who, message in ((alice, f"{relation} secret"), (stranger, "schema cerebro")):
        with connect(make_dsn(who.dsn, dbname=name)) as session:
            with pytest.raises(psycopg2.errors.InsufficientPrivilege) as caught:
                rows(session, "select cerebro.madlib_mop_predict('out', 'secret', 'id', 'img', 'made', mst_key := 1)")
            assert message in str(caught.value)
    for who in (alice, stranger):
        pg.script(Fragment(f"drop owned by {who.name} cascade"))
