"""Grids and random search: counts, order, reproducibility, and what is refused."""

from __future__ import annotations

import json
from random import Random

import pytest

from cerebro_db.errors import UsageError
from cerebro_db.params import CompileParams, FitParams
from cerebro_db.space import MAX_CONFIGS, Space, fresh, grid_search, meaning, random_search

OPTIMIZERS = [
    {"optimizer": ["Adam"], "lr": [0.001, 0.01]},
    {"optimizer": ["SGD"], "lr": [0.1], "momentum": [0.0, 0.9]},
]
COMPILE = {"loss": ["categorical_crossentropy"], "metrics": ["accuracy"], "optimizer_params_list": OPTIMIZERS}
FIT = {"batch_size": [64, 256], "epochs": [1]}


def parse(compile_grid=COMPILE, fit_grid=FIT, random=False):
    return Space.parse(json.dumps(compile_grid), str(fit_grid), random)


def sampled(lr, **more):
    optimizer = {"optimizer": ["adam"], "lr": lr, **more}
    return {"loss": ["mse"], "optimizer_params_list": [optimizer]}


def test_a_grid_is_every_point_in_order():
    triples = grid_search(parse(), [3, 1], set())
    assert parse().size() == 8
    assert len(triples) == 16
    assert [model_id for model_id, *_ in triples] == [3] * 8 + [1] * 8
    text = "loss='categorical_crossentropy', metrics=['accuracy'], optimizer='Adam(lr=0.001)'"
    assert triples[0] == (3, text, "batch_size=64, epochs=1")
    assert triples[1][1:] == (triples[0][1], "batch_size=256, epochs=1")
    last = CompileParams.parse(triples[-1][1])
    assert (last.optimizer, last.optimizer_args) == ("sgd", (("lr", 0.1), ("momentum", 0.9)))


def test_madlib_and_json_grids_are_the_same():
    madlib = """
        {'loss': ['categorical_crossentropy'], 'metrics': ['accuracy'],
         'optimizer_params_list': [{'optimizer': ['Adam'], 'lr': [0.001, 0.01]},
                                   {'optimizer': ['SGD'], 'lr': [0.1], 'momentum': [0.0, 0.9]}]}"""
    assert list(Space.parse(madlib, json.dumps(FIT), False).grid()) == list(parse().grid())


def test_equal_points_are_kept_once():
    losses, metrics = ["cross_entropy", "categorical_crossentropy"], ["acc", ["accuracy"], []]
    grid = {**COMPILE, "loss": losses, "metrics": metrics}
    assert parse(grid).size() == 48
    assert len(grid_search(parse(grid), [1], set())) == 16


def test_known_configs_are_left_out():
    first = grid_search(parse(), [1], set())
    taken = {meaning(triple) for triple in first}
    more = grid_search(parse(fit_grid={"batch_size": [64, 128], "epochs": [1]}), [1], taken)
    assert [FitParams.parse(fit).batch_size for _, _, fit in more] == [128] * 4


def test_schedules_and_clipping_are_axes_too():
    grid = {**sampled([0.1]), "lr_schedule": ["cosine(t_max=3)", None], "clip_norm": [None, 1.0]}
    points = compiled(grid_search(parse(grid), [1], set()))
    found = {(params.schedule is None, params.clip_norm) for params in points}
    assert found == {(False, None), (False, 1.0), (True, None), (True, 1.0)}


def compiled(triples):
    return [CompileParams.parse(text) for _, text, _ in triples]


def draw(space, count, seed, model_ids=(1, 2)):
    return random_search(space, model_ids, count, Random(seed), set())


@pytest.mark.parametrize("seed", [0, 1])
def test_a_seed_draws_the_same_again(seed):
    space = parse(sampled([0.001, 0.1, "log"]), random=True)
    assert draw(space, 5, seed) == draw(space, 5, seed)
    assert draw(space, 5, seed) != draw(space, 5, seed + 1)


def test_zero_is_a_seed_with_its_own_draws():
    rng = Random(0)
    choices = [rng.choice([0]) for _ in ("model", "optimizer", "name")]
    triple = draw(parse(sampled([0.001, 0.1, "log"]), random=True), 1, 0, [1])[0]
    assert choices == [0, 0, 0]
    assert dict(compiled([triple])[0].optimizer_args)["lr"] == pytest.approx(0.001 * 100 ** rng.random())


@pytest.mark.parametrize(
    ("shape", "low", "high", "middle"),
    [("linear", 0.2, 0.4, 0.3), ("log", 0.0001, 1.0, 0.01), ("log_near_one", 0.9, 0.9999, 1 - 0.1**2.5)],
)
def test_distributions_stay_inside_and_have_their_median(shape, low, high, middle):
    key = "lr" if shape == "log" else "momentum"
    optimizer = {"optimizer": ["sgd"], key: [low, high, shape]}
    space = parse({"loss": ["mse"], "optimizer_params_list": [optimizer]}, random=True)
    values = [dict(params.optimizer_args)[key] for params in compiled(draw(space, 400, 3))]
    assert all(low <= value <= high for value in values)
    assert 160 < sum(value < middle for value in values) < 240


def test_whole_numbers_stay_whole():
    space = parse(sampled([0.1]), {"batch_size": [8, 64, "linear"], "epochs": [1, 3, "linear"]}, random=True)
    fits = [FitParams.parse(text) for _, _, text in draw(space, 50, 1)]
    assert {fit.epochs for fit in fits} == {1, 2, 3}
    assert all(8 <= fit.batch_size <= 64 for fit in fits)


def test_equal_draws_are_drawn_again_until_the_space_is_used_up():
    space = parse(sampled([0.1, 0.2]), random=True)
    triples = draw(space, 8, 5)
    assert len({meaning(triple) for triple in triples}) == 8


def test_a_space_that_is_too_small():
    with pytest.raises(UsageError, match="num_configs is 9, but the grids hold only 8 configs"):
        draw(parse(sampled([0.1, 0.2]), random=True), 9, 5)
    with pytest.raises(UsageError, match="num_configs is 3, but only 2 new configs were found"):
        draw(parse(sampled([0.1, 0.1]), {"batch_size": [64, 32]}, random=True), 3, 5, [1])


def test_fresh_keeps_the_first_spelling():
    triples = [(1, "loss='mse', optimizer='adam'", ""), (1, "optimizer=adam, loss='MSE'", "epochs=1")]
    assert fresh(triples, set()) == triples[:1]


def changed(**keys):
    return {**COMPILE, **keys}


def listed(**keys):
    return changed(optimizer_params_list=[{"optimizer": ["adam"], **keys}])


ERRORS = [
    (listed(lr=[0.1, 1, "log"]), FIT, False, "lr is the distribution [0.1, 1, 'log'], which has no grid"),
    (COMPILE, {"epochs": [1, 2, "linear"]}, False, "epochs is the distribution"),
    (listed(lr=[0.1, 1, "logg"]), FIT, True, "did you mean 'log'"),
    (listed(lr=[0.1, "log"]), FIT, True, "expected three values [low, high, 'log']"),
    (listed(lr=[0.1, 1, 2, "log"]), FIT, True, "expected three values"),
    (listed(lr=[1, 0.1, "log"]), FIT, True, "expected low < high"),
    (listed(lr=[1, 1, "linear"]), FIT, True, "expected low < high"),
    (listed(lr=[0, 1, "log"]), FIT, True, "expected low > 0 for 'log'"),
    (listed(betas=[0.1, 1, "log_near_one"]), FIT, True, "expected high < 1 for 'log_near_one'"),
    (listed(lr=["a", 1, "log"]), FIT, True, "is 'a', expected a finite number"),
    (listed(lr=[True, 3, "linear"]), FIT, True, "is True, expected a finite number"),
    (listed(lr=[-1, 1, "linear"]), FIT, True, "lr is -1.0, expected a finite number > 0"),
    (COMPILE, {"batch_size": [0, 64, "linear"]}, True, "batch_size is 0, expected a whole number >= 1"),
    (listed(lr=[0.1, -1]), FIT, True, "lr is -1, expected a finite number > 0"),
    (listed(lr=[0.1, -1]), FIT, False, "lr is -1, expected a finite number > 0"),
    (listed(learning_rat=[0.1]), FIT, False, "did you mean 'learning_rate'"),
    (listed(lr=[]), FIT, False, "lr is [], expected a list of at least one value"),
    (listed(lr=0.1), FIT, False, "lr is 0.1, expected a list"),
    (changed(loss=["mse", "mss"]), FIT, True, "unknown loss 'mss': did you mean 'mse'"),
    (changed(loss="mse"), FIT, False, "compile_params_grid: loss is 'mse', expected a list"),
    (changed(lr=[0.1]), FIT, False, "those of an optimizer stand in optimizer_params_list"),
    (changed(optimizer=["adam"]), FIT, False, "unknown key of compile_params_grid"),
    (changed(optimizer_params_list=[{}]), FIT, False, "optimizer_params_list entry 1 is {}, expected a dict"),
    (changed(optimizer_params_list=[{"lr": [1]}]), FIT, False, "with the key 'optimizer'"),
    (changed(optimizer_params_list=["adam"]), FIT, False, "entry 1 is 'adam', expected a dict"),
    (changed(optimizer_params_list=[]), FIT, False, "optimizer_params_list is [], expected a list"),
    (changed(optimizer_params_list=[{"optimizer": ["adam(lr=1)"]}]), FIT, False, "is no plain name"),
    ({"loss": ["mse"]}, FIT, False, "compile_params_grid has no optimizer_params_list"),
    (COMPILE, {"batch_sise": [1]}, False, "did you mean 'batch_size'"),
    (COMPILE, {"batch_size": 64}, False, "batch_size is 64, expected a list"),
    (COMPILE, {"batch_size": [64, 0]}, True, "batch_size is 0, expected a whole number"),
]


@pytest.mark.parametrize(
    ("compile_grid", "fit_grid", "random", "message"), ERRORS, ids=[case[3] for case in ERRORS]
)
def test_spaces_are_refused(compile_grid, fit_grid, random, message):
    with pytest.raises(UsageError) as caught:
        parse(compile_grid, fit_grid, random)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "compile_params_grid is NULL"),
        ("{'loss': ['mse'], 'loss': ['mae']}", "key 'loss' twice"),
        ("{'loss': [mse]}", "holds 'mse', no literal"),
        ("{'loss': open('/etc/passwd')}", "no literal"),
        ("['loss']", "without a name, expected key=value"),
    ],
)
def test_texts_that_are_no_grid(text, message):
    with pytest.raises(UsageError) as caught:
        Space.parse(text, str(FIT), False)
    assert message in str(caught.value)


def test_absurd_numbers_of_configs():
    many = {"batch_size": list(range(1, 1001)), "epochs": list(range(1, 1001))}
    with pytest.raises(UsageError, match="this makes 4,000,000 configs, expected at most 100,000"):
        grid_search(parse(fit_grid=many), [1], set())
    with pytest.raises(UsageError, match="expected at most 100,000"):
        draw(parse(sampled([0.1, 0.2, "log"]), random=True), MAX_CONFIGS + 1, 0)
