"""Code runs for an architecture only when an administrator has put it on the list."""

from __future__ import annotations

from typing import Callable

import psycopg2
import pytest

from cerebro_db.client import PsycopgDatabase
from tests import runs
from tests.conftest import Role
from tests.runs import sql

#: A factory that every server has, since it is torch's own.
FACTORY = "torch.nn.modules.linear:Linear"
ARCH = {"factory": FACTORY, "params": {"in_features": 16, "out_features": 3}}


@pytest.fixture
def images(pg: PsycopgDatabase) -> PsycopgDatabase:
    runs.make_images(pg, "images", 40)
    runs.pack(pg, "images", "packed", segments=2)
    runs.make_selection(pg, "one", {1: (ARCH, runs.ADAM, "batch_size=8")})
    return pg


def test_a_factory_trains_and_predicts_once_it_is_on_the_list(images: PsycopgDatabase) -> None:
    with pytest.raises(psycopg2.Error, match="factory 'torch.nn.modules.linear:Linear' is not on the list"):
        runs.fit(images, "packed", "out", "one", 1)
    images.rows(sql("select register_factory(%(factory)s)"), factory=FACTORY)
    images.rows(sql("select register_factory(%(factory)s)"), factory=FACTORY)  # again changes nothing
    assert runs.fit(images, "packed", "out", "one", 1)["status"] == "finished"
    images.rows(sql("select madlib_mop_predict('out', 'images', 'id', 'img', 'predicted', 'response')"))
    counted = images.rows(sql("select count(*) as n, count(class_value) as known from predicted"))
    assert counted == [{"n": 40, "known": 40}]
    images.rows(sql("select unregister_factory(%(factory)s)"), factory=FACTORY)
    with pytest.raises(psycopg2.Error, match="is not on the list"):
        images.rows(sql("select madlib_mop_evaluate('out', 'packed', 'evaluated')"))


def test_a_listed_factory_that_is_not_installed_is_named_with_the_remedy(images: PsycopgDatabase) -> None:
    images.script(sql("update one_arch set model_arch = '{\"factory\": \"no_such_package.models:make\"}'"))
    images.rows(sql("select register_factory('no_such_package.models:make')"))
    with pytest.raises(psycopg2.Error, match="cannot be loaded here.*install its package"):
        runs.fit(images, "packed", "out", "one", 1)
    assert images.rows(sql("select count(*) as n from cerebro.run")) == [{"n": 0}]


@pytest.mark.parametrize("name", [None, "", "os.system", "os:system; drop table x", "a:b:c", "../x:y"])
def test_names_that_are_no_factory_are_refused(pg: PsycopgDatabase, name: object) -> None:
    with pytest.raises(psycopg2.errors.InvalidParameterValue, match="not of the form package.module:function"):
        pg.rows(sql("select register_factory(%(name)s)"), name=name)


def test_only_an_administrator_extends_the_list(pg: PsycopgDatabase, role: Callable[..., Role]) -> None:
    user = role("analyst")()
    for statement in ("select register_factory('os:system')", "select unregister_factory('os:system')"):
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            user.rows(sql(statement))
    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
        user.rows(sql("insert into cerebro_private.factory values ('os:system', 'x')"))
    assert pg.rows(sql("select count(*) as n from cerebro_private.factory")) == [{"n": 0}]
