"""madlib_mop_evaluate on a real server."""

from __future__ import annotations

import psycopg2
import pytest
import torch

from cerebro_db import prediction
from tests.fitted import IMAGES, LABELS, fit, mlp_outputs, read, rows

CROSS = {"loss": "cross_entropy", "optimizer": "adam", "metrics": ["accuracy"]}
CALL = "select madlib_mop_evaluate(%(model)s, %(test)s, %(out)s, mst_key := %(key)s::integer)"


@pytest.fixture(scope="module")
def pg(pg_module):
    """Images, a fit of two configs over them, and packed test rows."""
    pg_module.rows(IMAGES, labels=LABELS)
    compiles = [{**CROSS, "lr": 0.01}, {**CROSS, "lr": 0.0001}]
    fit(pg_module, "out", ["images", "label", "img"], {"model": "mlp", "hidden": [8]}, compiles)
    rows(pg_module, "create table tested as select * from images where id <= 150")
    rows(pg_module, "select validation_preprocessor_dl('tested', 'tested_packed', 'label', 'img', 'out_packed')")
    return pg_module


@pytest.fixture
def undone(pg):
    """The shared database; what the test does is rolled back."""
    with pg.connection.cursor() as cursor:
        cursor.execute("begin")
        yield pg
        cursor.execute("rollback")


def evaluated(pg, key=None, **changes):
    given = {"model": "out", "test": "tested_packed", "out": "ev", "key": key, **changes}
    rows(pg, CALL, **given)
    (row,) = read(pg, "ev")
    return row


def expected(pg, key):
    found = rows(pg, "select img, label from tested order by id")
    x = torch.stack([torch.frombuffer(bytearray(row["img"]), dtype=torch.uint8) for row in found]).float() / 255
    codes = torch.tensor([sorted(LABELS).index(row["label"]) for row in found])
    outputs = mlp_outputs(pg, "out", key, x)
    loss = torch.nn.functional.cross_entropy(outputs, codes).item()
    return loss, outputs.argmax(1).eq(codes).double().mean().item()


@pytest.mark.parametrize("key", [1, 2])
def test_loss_and_metric_are_those_of_a_plain_forward(undone, key):
    row = evaluated(undone, key)
    loss, accuracy = expected(undone, key)
    assert list(row) == ["loss", "metric", "metrics_type", "loss_type", "mst_key", "rows"]
    assert row["loss"] == pytest.approx(loss, abs=1e-6)
    assert row["metric"] == pytest.approx(accuracy, abs=1e-9)
    assert (row["metrics_type"], row["loss_type"]) == (["accuracy"], "cross_entropy")
    assert (row["mst_key"], row["rows"]) == (key, 150)


def test_no_key_takes_the_best_by_the_runs_ranking(undone):
    rows(undone, "update out_info set training_metrics_final = mst_key, training_loss_final = mst_key")
    assert evaluated(undone)["mst_key"] == 2
    rows(undone, "drop table ev")
    rows(undone, "update out_info set metrics_type = '{}'")
    row = evaluated(undone)
    assert (row["mst_key"], row["metric"], row["metrics_type"]) == (1, None, [])


def test_training_table_and_a_client_give_the_same(undone):
    row = evaluated(undone, 1, test="out_packed")
    request = prediction.EvaluateRequest("out", "out_packed", "ev2", mst_key=1)
    tally = prediction.evaluate(undone, request, lambda: None)
    assert (row["rows"], tally.rows) == (400, 400)
    assert tally.loss == pytest.approx(row["loss"], abs=1e-6)
    assert read(undone, "ev2")[0]["metric"] == row["metric"]


BAD = [
    ({"model": "nowhere"}, "model_table nowhere does not exist"),
    ({"model": None}, "model_table is None"),
    ({"model": "images"}, "public.images has no column mst_key, model_weights, model_arch"),
    ({"key": 0}, "mst_key 0 is not in public.out; it has 1, 2"),
    ({"key": 3}, "mst_key 3 is not in"),
    ({"test": "nowhere"}, "test_table nowhere does not exist"),
    ({"test": "tested"}, "test_table public.tested is not packed; pack it by validation_preprocessor_dl"),
    ({"test": "other_packed"}, "packed differently from the rows that public.out was trained on"),
    ({"out": "images"}, "output_table public.images already exists"),
    ({"out": None}, "output_table is None"),
]


@pytest.mark.parametrize(("changes", "message"), BAD)
def test_bad_arguments(undone, changes, message):
    if changes.get("test") == "other_packed":
        rows(undone, "create table other as select id, img, id %% 3 as label from images")
        rows(undone, "select training_preprocessor_dl('other', 'other_packed', 'label', 'img', null, 255)")
    with pytest.raises(psycopg2.Error) as caught:
        evaluated(undone, **changes)
    assert message in str(caught.value)


BROKEN = [
    ("drop table out_info", "table public.out_info does not exist"),
    ("drop table out_summary", "table public.out_summary does not exist"),
    ("delete from out_summary", "public.out_summary has 0 rows"),
    ("delete from out", "model_table public.out has no rows"),
    ("alter table out drop column model_arch", "public.out has no column model_arch"),
    ("alter table out_info drop column loss_type", "public.out_info has no column loss_type"),
    ("update out set model_weights = null", "no config of public.out has a metric to choose by"),
]


@pytest.mark.parametrize(("damage", "message"), BROKEN)
def test_damaged_outputs(undone, damage, message):
    rows(undone, damage)
    with pytest.raises(psycopg2.Error) as caught:
        evaluated(undone)
    assert message in str(caught.value)


def test_gpus_are_refused(undone):
    with pytest.raises(psycopg2.Error) as caught:
        rows(undone, "select madlib_mop_evaluate('out', 'tested_packed', 'ev', true)")
    assert "use_gpus := false" in str(caught.value)
    assert caught.value.pgcode == "58000"
