"""Compile and fit parameters: what is read, what is refused, and with which sentence."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cerebro_db.errors import UsageError
from cerebro_db.params import (
    METRICS,
    OPTIMIZERS,
    SCHEDULES,
    CompileParams,
    FitParams,
    higher_is_better,
    top_k,
)

JSON_ADAM = '{"optimizer": "adam", "lr": 0.001, "weight_decay": 1e-4, '
ADAM = CompileParams("adam", (("lr", 0.001), ("weight_decay", 0.0001)), "cross_entropy", "accuracy")


@pytest.mark.parametrize(
    "text",
    [
        "loss='categorical_crossentropy', optimizer='Adam(lr=0.001, weight_decay=1e-4)', metrics=['acc']",
        "loss='categorical_crossentropy', optimizer=Adam(lr=0.001, weight_decay=1e-4), metrics=['accuracy']",
        "\n loss='CrossEntropyLoss',\n metrics = ['acc'],\n optimizer='adam(weight_decay=.0001, lr=.001)' #",
        JSON_ADAM + '"loss": "cross_entropy", "metrics": ["accuracy"]}',
        '{"optimizer": "adam", "optimizer_params": {"lr": 0.001, "weight_decay": 1e-4}, '
        '"loss": "cross_entropy", "metric": "accuracy"}',
        '{"optimizer": {"name": "adam", "lr": 0.001, "weight_decay": 1e-4}, '
        '"loss": "sparse_categorical_crossentropy", "metrics": "categorical_accuracy"}',
        "{'optimizer': 'Adam', 'learning_rate': 1e-3, 'weight_decay': 1e-4, "
        "'loss': 'cross_entropy', 'metrics': ('accuracy',)}",
    ],
)
def test_every_form_means_the_same(text):
    assert CompileParams.parse(text) == ADAM


def test_canonical_names_of_losses_and_metrics():
    def parsed(loss, metric):
        given = {"optimizer": "sgd", "loss": loss, "metrics": metric}
        params = CompileParams.parse(json.dumps(given))
        return params.loss, params.metric

    assert parsed("binary_crossentropy", ["binary_accuracy"]) == ("bce_with_logits", "binary_accuracy")
    assert parsed("BCEWithLogitsLoss", []) == ("bce_with_logits", None)
    assert parsed("mean_squared_error", ["MeanAbsoluteError"]) == ("mse", "mae")
    assert parsed("L1Loss", None) == ("mae", None)
    assert parsed("SmoothL1Loss", "top_k_categorical_accuracy") == ("smooth_l1", "top_5_accuracy")
    assert parsed("HuberLoss", ["top_12_accuracy"]) == ("huber", "top_12_accuracy")


def test_flags_stay_what_they_are():
    text = "loss='mse', optimizer='SGD(lr=0.01, momentum=0.9, nesterov={})'"
    assert dict(CompileParams.parse(text.format(False)).optimizer_args)["nesterov"] is False
    assert dict(CompileParams.parse(text.format(True)).optimizer_args)["nesterov"] is True


def test_keras_arguments():
    text = "loss='mse', optimizer='{}'"
    arguments = "learning_rate=0.1, beta_1=0.8, epsilon=1e-7, global_clipnorm=2"
    adam = CompileParams.parse(text.format(f"nadam({arguments})"))
    assert adam.optimizer_args == (("lr", 0.1), ("betas", (0.8, 0.999)), ("eps", 1e-7))
    assert adam.clip_norm == 2.0
    assert CompileParams.parse(text.format("RMSprop(rho=0.8)")).optimizer_args == (("alpha", 0.8),)


def test_schedules():
    def schedule(value):
        given = {"optimizer": "sgd", "loss": "mse", "lr_schedule": value}
        return CompileParams.parse(json.dumps(given)).schedule

    assert schedule("step(step_size=2, gamma=0.5)") == ("step", (("step_size", 2), ("gamma", 0.5)))
    assert schedule({"name": "CosineAnnealingLR", "T_max": 5}) == ("cosine", (("t_max", 5),))
    assert schedule("multi_step(milestones=[2, 4])") == ("multi_step", (("milestones", (2, 4)),))
    assert schedule(None) is None


COMPILE_ERRORS = [
    (None, "compile_params is NULL"),
    ("", "compile_params has no optimizer"),
    ("loss='mse'", "compile_params has no optimizer"),
    ("optimizer='adam'", "compile_params has no loss"),
    ("optimizer='adm', loss='mse'", "unknown optimizer 'adm': did you mean 'adam'"),
    ("optimizer='lbfgs', loss='mse'", "unknown optimizer 'lbfgs'"),
    ("optimizer='adam', loss='categorical_crosentropy'", "did you mean 'categorical_crossentropy'"),
    ("optimizer='adam', loss='mse', metrics=['acuracy']", "did you mean 'accuracy'"),
    ("optimizer='adam', loss='mse', metrics=['auc']", "'auc' is not a mean over rows"),
    ("optimizer='adam', loss='mse', metrics=['top_0_accuracy']", "unknown metric 'top_0_accuracy'"),
    ("optimizer='adam', loss='mse', metrics=['mse', 'mae']", "at most one metric"),
    ("optimizer='adam', loss='mse', metrics={'a': 'mse'}", "at most one metric"),
    ("optimizer='adam', loss='mse', metrics=[3]", "metric is 3, expected a name"),
    ("optimizer='adam', loss='mse', metrics='mse', metric='mse'", "both 'metric' and 'metrics'"),
    ("optimizer='adam', loss=3", "loss is 3, expected a name"),
    ("optimizer=3, loss='mse'", "optimizer is 3, expected a name"),
    ("optimizer='adam', loss='mse', los='mse'", "did you mean 'loss'"),
    ("optimizer='adam', loss='mse', momentum=0.9", "unknown key of compile_params 'momentum'"),
    ("optimizer='adam(learning_rat=1)', loss='mse'", "did you mean 'learning_rate'"),
    ("optimizer='adam', loss='mse', loss='mae'", "key 'loss' twice"),
    ("optimizer='adam(lr=1)', lr=1, loss='mse'", "argument 'lr' twice"),
    ("optimizer='adam(lr=1, learning_rate=1)', loss='mse'", "argument 'lr' twice"),
    ("optimizer='adam(clip_norm=1)', loss='mse', clip_norm=2", "argument 'clip_norm' twice"),
    ("optimizer='rmsprop(rho=0.9, alpha=0.9)', loss='mse'", "both 'rho' and 'alpha'"),
    ("optimizer='adam(betas=[0.9, 0.99], beta_1=0.9)', loss='mse'", "both 'betas' and 'beta_1'"),
    ("optimizer='adam(lr=0.1', loss='mse'", "optimizer 'adam(lr=0.1' cannot be read"),
    ("optimizer='adam', loss='mse')", "check quotes and parentheses"),
    ("optimizer='adam'), f(loss='mse'", "unbalanced parentheses"),
    ("a=1)(b=2", "unbalanced parentheses"),
    ("optimizer='adam(0.1)', loss='mse'", "the value '0.1' without a name"),
    ("optimizer='adam(**{})', loss='mse'", "has the key None"),
    ("optimizer='torch.optim.Adam()', loss='mse'", "is no name or call"),
    ("optimizer='adam', loss='mse', metrics=[*__builtins__]", "'*__builtins__', no literal"),
    ("optimizer='adam', loss=__import__('os').getcwd()", "no literal"),
    ("optimizer='adam(lr=lr)', loss='mse'", "lr holds 'lr', no literal"),
    ("optimizer='adam(lr=-1)', loss='mse'", "lr is -1, expected a finite number > 0"),
    ("optimizer='adam(lr=0)', loss='mse'", "lr is 0, expected a finite number > 0"),
    ("optimizer='adam(lr=True)', loss='mse'", "lr is True, expected a finite number > 0"),
    ("optimizer='adam(lr=1e999)', loss='mse'", "lr is inf, expected a finite number"),
    ("optimizer='adam(lr=\"0.1\")', loss='mse'", "lr is '0.1', expected a finite number"),
    ("optimizer='adam(lr=-True)', loss='mse'", "expected a number behind the sign"),
    ("optimizer='adam(betas=[0.9])', loss='mse'", "betas has 1 values, expected 2"),
    ("optimizer='adam(betas=[0.9, 1])', loss='mse'", "betas[1] is 1, expected a finite number >= 0 and < 1"),
    ("optimizer='adam(betas=0.9)', loss='mse'", "betas is 0.9, expected a list"),
    ("optimizer='sgd(momentum=1)', loss='mse'", "momentum is 1, expected"),
    ("optimizer='sgd(nesterov=True)', loss='mse'", "nesterov=True needs momentum > 0"),
    ("optimizer='sgd(momentum=0.9, nesterov=\"False\")', loss='mse'", "without quotes"),
    ("optimizer='sgd(momentum=0.9, nesterov=1)', loss='mse'", "nesterov is 1, expected True or False"),
    ("optimizer='sgd(decay=1e-6)', loss='mse'", "lr_schedule="),
    ("optimizer='sgd(clipnorm=1)', loss='mse'", "write clip_norm="),
    ("optimizer='adam', loss='mse', loss_weights=[1]", "holds 'loss_weights', which is not supported"),
    ("optimizer='adam', loss='mse', sample_weight_mode='a'", "'sample_weight_mode', which is not supported"),
    ("optimizer='adam', loss='mse', weighted_metrics=['a']", "'weighted_metrics', which is not supported"),
    ("optimizer='adam', loss='mse', target_tensors=1", "'target_tensors', which is not supported"),
    ("optimizer='adam', loss='mse', batch_size=1", "belongs to the fit parameters"),
    ("optimizer='adam', loss='mse', lr_schedule='step'", "lacks 'step_size'"),
    ("optimizer='adam', loss='mse', lr_schedule='cosin(t_max=1)'", "did you mean 'cosine'"),
    ("optimizer='adam', loss='mse', lr_schedule={'t_max': 1}", "has no 'name'"),
    ("optimizer='adam', loss='mse', clip_norm=0", "clip_norm is 0, expected a finite number > 0"),
    ('{"optimizer": "adam", "lr": NaN, "loss": "mse"}', "holds NaN, expected finite numbers"),
    ('{"optimizer": "adam", "loss": "mse", "loss": "mse"}', "key 'loss' twice"),
    ('{"optimizer": "adam", "loss": "mse", "optimizer_params": 3}', "optimizer_params is 3"),
    ("{'optimizer': 'adam', 'loss': 'mse', 'loss': 'mae'}", "key 'loss' twice"),
    ("{'optimizer'}", "no literal"),
    ("{1: 2}", "has the key 1, expected text"),
    ("{", "cannot be read"),
    ("optimizer='adam', loss='mse', lr=" + "(" * 5000, "cannot be read"),
    ("loss='" + "x" * 1_000_001, "expected at most 1000000"),
]


@pytest.mark.parametrize(("text", "message"), COMPILE_ERRORS, ids=[message for _, message in COMPILE_ERRORS])
def test_compile_params_are_refused(text, message):
    with pytest.raises(UsageError) as caught:
        CompileParams.parse(text)
    assert message in str(caught.value)


def test_fit_params():
    assert FitParams.parse("batch_size=64, epochs=2") == FitParams(64, 2)
    assert FitParams.parse('{"batch_size": 1e3, "verbose": 0, "shuffle": true}') == FitParams(1000, 1)
    assert FitParams.parse(" ") == FitParams(32, 1)
    assert FitParams.parse(FitParams(7, 3).to_json()) == FitParams(7, 3)


FIT_ERRORS = [
    (None, "fit_params is NULL"),
    ("batch_size=0", "batch_size is 0, expected a whole number >= 1"),
    ("batch_size=2.5", "batch_size is 2.5, expected a whole number"),
    ("batch_size='64'", "batch_size is '64', expected a whole number"),
    ("epochs=0", "epochs is 0, expected a whole number >= 1"),
    ("epochs=-1", "epochs is -1"),
    ("epochs=True", "epochs is True"),
    ("batch_sise=1", "did you mean 'batch_size'"),
    ("batch_size=1, batch_size=2", "key 'batch_size' twice"),
    ("shuffle=False", "shuffle is False; expected True"),
    *[
        (f"{key}=1", f"holds {key!r}, which is not supported")
        for key in (
            "validation_split", "validation_data", "validation_freq", "steps_per_epoch", "initial_epoch",
            "sample_weight", "class_weight", "callbacks",
        )
    ],
]


@pytest.mark.parametrize(("text", "message"), FIT_ERRORS, ids=[message for _, message in FIT_ERRORS])
def test_fit_params_are_refused(text, message):
    with pytest.raises(UsageError) as caught:
        FitParams.parse(text)
    assert message in str(caught.value)


def test_direction_of_metrics():
    better = {name: higher_is_better(name) for name in sorted(set(METRICS.values()))}
    assert better == {
        "accuracy": True, "binary_accuracy": True, "mae": False, "mse": False, "top_5_accuracy": True,
    }
    assert (top_k("top_3_accuracy"), top_k("accuracy")) == (3, None)


_VALUES = {
    "lr": st.floats(1e-9, 10), "betas": st.tuples(st.floats(0, 0.99), st.floats(0, 0.99)),
    "momentum": st.floats(0, 0.99), "alpha": st.floats(0, 0.99), "rho": st.floats(0, 0.99),
    "dampening": st.floats(0, 1), "t0": st.floats(1, 1e6),
    "step_size": st.integers(1, 9), "t_max": st.integers(1, 9), "total_iters": st.integers(1, 9),
    "milestones": st.lists(st.integers(1, 9), max_size=3).map(tuple),
    "gamma": st.floats(0.01, 2), "start_factor": st.floats(0.01, 1), "power": st.floats(0.1, 3),
}


@st.composite
def compile_params(draw):
    def arguments(checks, required=()):
        names = [name for name in checks if name in required or (name != "nesterov" and draw(st.booleans()))]
        flags = {"amsgrad", "centered", "decoupled_weight_decay"}
        values = {**_VALUES, **dict.fromkeys(flags, st.booleans())}
        return tuple((name, draw(values.get(name, st.floats(0, 1)))) for name in names)

    optimizer = draw(st.sampled_from(sorted(OPTIMIZERS)))
    schedule = draw(st.none() | st.sampled_from(sorted(SCHEDULES)))
    return CompileParams(
        optimizer,
        arguments(OPTIMIZERS[optimizer]),
        draw(st.sampled_from(["cross_entropy", "bce_with_logits", "mse", "huber"])),
        draw(st.sampled_from([None, "accuracy", "top_3_accuracy", "mae"])),
        schedule and (schedule, arguments(SCHEDULES[schedule], list(SCHEDULES[schedule])[:1])),
        draw(st.none() | st.floats(0.1, 9)),
    )


@settings(max_examples=100, deadline=None)
@given(compile_params())
def test_json_round_trip(params):
    assert CompileParams.parse(params.to_json()) == params
