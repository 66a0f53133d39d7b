"""validation_preprocessor_dl, by SQL and by Python: packed like the training table, or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cerebro_db.client import PsycopgDatabase
from cerebro_db.sqltext import Fragment
from tests.decoding import decode
from tests.preprocessing import VALIDATE, Pack, emptied, refused, run, train_by_sql

TRAINING = Fragment(
    "create table t as select i as id, i * 0.5::float8 as f, 'w' || i %% 4 as w, array[i, 1]::int4[] as x"
    ", 'c' || i %% 3 as y from generate_series(1, 60) i"
)
VALIDATION = Fragment(
    'create table v as select i as "Id", i * 2.0::float8 as g, \'w\' || i %% 6 as u, array[i * 1000,'
    ' 2]::int4[] as z'
    ", 'c' || i %% 2 as label from generate_series(1, 20) i"
)
COLUMNS = '"Id", g, u, z'


@pytest.fixture
def pg(pg_module: PsycopgDatabase) -> PsycopgDatabase:
    return emptied(pg_module)


@pytest.fixture(params=sorted(VALIDATE))
def validate(request: pytest.FixtureRequest, v: PsycopgDatabase) -> Pack:
    """`validate(source, output, y, x, training, ...)`, through each way in."""

    def call(*arguments: Any, **named: Any) -> None:
        VALIDATE[request.param](v, *arguments, **named)

    return call


@pytest.fixture
def v(pg: PsycopgDatabase) -> PsycopgDatabase:
    pg.rows(TRAINING)
    pg.rows(VALIDATION)
    train_by_sql(pg, "t", "p", "y", "id, f, w, x", normalizing_const=2.0, num_classes=[4], seed=9, segments=3)
    return pg


def test_columns_map_by_position_and_codes_are_those_of_training(v: PsycopgDatabase, validate: Pack) -> None:
    validate("v", "q", "label", COLUMNS, "p")
    training, got = decode(v, "p").layout, decode(v, "q")
    ids = got.column("id").astype(int)
    assert sorted(ids) == list(range(1, 21))
    np.testing.assert_array_equal(got.column("f"), ids * 2)
    np.testing.assert_array_equal(got.column("w"), [0 if i % 6 > 3 else i % 6 + 1 for i in ids])
    np.testing.assert_array_equal(got.inputs["x"], np.stack([ids * 1000, ids * 0 + 2], 1))
    assert got.label_texts() == [f"c{i % 2}" for i in ids]
    assert got.layout.target == training.target
    assert got.layout.normalizing_const == 2.0
    assert [item.mean for item in got.layout.inputs] == [item.mean for item in training.inputs]
    # The training arrays fit bytes, these do not.
    assert (training.inputs[2].dtype, got.layout.inputs[2].dtype) == ("|u1", ">f4")
    assert max(got.segments) == 2
    (summary,) = v.rows(Fragment("select * from q_summary"))
    assert (summary["num_classes"], summary["segments"], summary["seed"]) == ([4], 3, 9)
    assert summary["independent_varname"] == ["Id", "g", "u", "z"]
    assert summary["label_class_values"] == ["c0", "c1", "c2", None]


def test_a_star_means_the_training_columns(v: PsycopgDatabase, validate: Pack) -> None:
    run(v, "create table s as select x, w, y, f, id, now() as extra from t")
    validate("s", "q", "y", "*", "p")
    got = decode(v, "q")
    np.testing.assert_array_equal(got.column("f"), got.column("id") * 0.5)


def test_14_labels_not_seen_in_training(v: PsycopgDatabase, validate: Pack) -> None:
    run(v, "update v set label = 'new' || \"Id\" where \"Id\" < 3")
    with refused(v, "'new1', 'new2'", "label 'label' of table public.v"):
        validate("v", "q", "label", COLUMNS, "p")


def test_15_labels_of_another_type(v: PsycopgDatabase, validate: Pack) -> None:
    run(v, "alter table v alter label type int using 1")
    with refused(v, "'label' has type integer", "'y' has type text"):
        validate("v", "q", "label", COLUMNS, "p")


def test_features_of_other_types_counts_and_shapes(v: PsycopgDatabase, validate: Pack) -> None:
    with refused(v, "'u' has type text", "'f' in its place is numeric"):
        validate("v", "q", "label", '"Id", u, g, z', "p")
    with refused(v, "names 3 columns", "packed with 4: id, f, w, x"):
        validate("v", "q", "label", '"Id", g, u', "p")
    run(v, "update v set z = array[1, 2, 3]")
    with refused(v, "'z' of table public.v has the shape [3]", "'x' has [2]"):
        validate("v", "q", "label", COLUMNS, "p")


def test_16_training_table_missing_or_not_ours(v: PsycopgDatabase, validate: Pack) -> None:
    with refused(v, "training table nothing does not exist"):
        validate("v", "q", "label", COLUMNS, "nothing")
    with refused(v, "training table public.t is not packed", "run training_preprocessor_dl"):
        validate("v", "q", "label", COLUMNS, "t")
    run(v, "alter table p_summary drop column layout")
    with refused(v, "public.p_summary has no column layout", "run training_preprocessor_dl"):
        validate("v", "q", "label", COLUMNS, "p")
    run(v, "drop table p_summary")
    with refused(v, "summary public.p_summary does not exist"):
        validate("v", "q", "label", COLUMNS, "p")


def test_nulls_follow_the_training_policy(v: PsycopgDatabase, validate: Pack) -> None:
    run(v, "update v set g = null, u = null where \"Id\" = 5")
    with refused(v, "'g' has 1 NULL", "'u' has 1 NULL"):
        validate("v", "q", "label", COLUMNS, "p")
    train_by_sql(v, "t", "i", "y", "id, f, w, x", nulls="impute")
    validate("v", "q", "label", COLUMNS, "i")
    got = decode(v, "q")
    row = got.column("id") == 5
    assert got.column("f")[row] == np.float32(15.25)  # the mean of the training rows
    assert got.column("w")[row] == 0


def test_output_and_sizes(v: PsycopgDatabase, validate: Pack) -> None:
    with refused(v, "public.p and public.p_summary already exist"):
        validate("v", "p", "label", COLUMNS, "p")
    with refused(v, "buffer_size is 0"):
        validate("v", "q", "label", COLUMNS, "p", buffer_size=0)
    validate("v", "q", "label", COLUMNS, "p", buffer_size=2)
    assert max(decode(v, "q").buffers) == 2


def test_one_class_is_enough_to_validate(v: PsycopgDatabase, validate: Pack) -> None:
    run(v, "update v set label = 'c2'")
    validate("v", "q", "label", COLUMNS, "p")
    assert set(decode(v, "q").target) == {2}
