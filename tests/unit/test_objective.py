"""Losses, metrics, optimizers and schedules against torch and torchmetrics."""

from __future__ import annotations

import pytest
import torch
import torchmetrics.functional as reference
from torch import nn
from torch.nn import functional

from cerebro_db import objective
from cerebro_db.architecture import output_count
from cerebro_db.errors import UsageError
from cerebro_db.layout import Target
from cerebro_db.params import LOSSES, METRICS, OPTIMIZERS, SCHEDULES, CompileParams

LABEL = Target("y", "class", "<i4", (), "label", "text", tuple("abcdef"), 6)
TWO = Target("y", "class", "<i4", (), "late", "boolean", ("f", "t"), 2)
VALUE = Target("y", "value", "<f4", (), "price", "real")
VECTOR = Target("y", "vector", "<f4", (4,), "pose", "real[]")
ROWS = 50
BCE = functional.binary_cross_entropy_with_logits


def multiclass(output, truth, classes, k=1):
    return reference.accuracy(output, truth, "multiclass", num_classes=classes, top_k=k)


def draw(target, loss):
    generator = torch.Generator().manual_seed(3)
    output = torch.randn(ROWS, output_count(target, loss), generator=generator)
    if target.kind == "class":
        return output, torch.randint(target.outputs, (ROWS,), generator=generator, dtype=torch.int32)
    return output, torch.randn(ROWS, *target.shape, generator=generator)


@pytest.mark.parametrize(
    ("metric", "target", "loss", "expected"),
    [
        ("accuracy", LABEL, "cross_entropy", lambda o, t: multiclass(o, t, 6)),
        ("accuracy", TWO, "cross_entropy", lambda o, t: multiclass(o, t, 2)),
        ("accuracy", TWO, "bce_with_logits", lambda o, t: reference.accuracy(o[:, 0], t, "binary")),
        ("binary_accuracy", TWO, "bce_with_logits", lambda o, t: reference.accuracy(o[:, 0], t, "binary")),
        (
            "binary_accuracy", VECTOR, "bce_with_logits",
            lambda o, t: reference.accuracy(o, t > 0.5, "multilabel", num_labels=4),
        ),
        ("top_3_accuracy", LABEL, "cross_entropy", lambda o, t: multiclass(o, t, 6, 3)),
        ("mae", VALUE, "mse", lambda o, t: reference.mean_absolute_error(o[:, 0], t)),
        ("mse", VALUE, "mse", lambda o, t: reference.mean_squared_error(o[:, 0], t)),
        ("mae", VECTOR, "mse", lambda o, t: reference.mean_absolute_error(o.flatten(), t.flatten())),
        ("mse", VECTOR, "mse", lambda o, t: reference.mean_squared_error(o.flatten(), t.flatten())),
    ],
)  # fmt: skip
def test_metrics_are_those_of_torchmetrics(metric, target, loss, expected):
    output, truth = draw(target, loss)
    objective.check_target(loss, metric, target)
    total = objective.metric_sum(metric)(output, truth)
    assert total.dtype in (torch.int64, torch.float64)
    assert total.item() / ROWS == pytest.approx(expected(output, truth).item(), rel=1e-6)
    parts = slice(20), slice(20, None)
    halves = [objective.metric_sum(metric)(output[part], truth[part]).item() for part in parts]
    assert sum(halves) == pytest.approx(total.item(), rel=1e-12)


@pytest.mark.parametrize(
    ("loss", "target", "expected"),
    [
        ("cross_entropy", LABEL, lambda o, t: functional.cross_entropy(o, t.long())),
        ("bce_with_logits", TWO, lambda o, t: BCE(o[:, 0], t.float())),
        ("bce_with_logits", VECTOR, BCE),
        ("mse", VALUE, lambda o, t: functional.mse_loss(o[:, 0], t)),
        ("mae", VALUE, lambda o, t: functional.l1_loss(o[:, 0], t)),
        ("huber", VECTOR, functional.huber_loss),
        ("smooth_l1", VECTOR, functional.smooth_l1_loss),
    ],
)
def test_losses_are_those_of_torch(loss, target, expected):
    output, truth = draw(target, loss)
    objective.check_target(loss, None, target)
    assert torch.equal(objective.loss_function(loss)(output, truth), expected(output, truth))


def test_one_column_meets_a_flat_target_row_by_row():
    output, truth = torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([1.0, 2.0, 3.0])
    assert objective.loss_function("mse")(output, truth).item() == 0
    assert objective.metric_sum("mae")(output, truth).item() == 0


def test_every_name_has_its_function():
    for loss in LOSSES.values():
        assert callable(objective.loss_function(loss))
    for metric in METRICS.values():
        assert callable(objective.metric_sum(metric))


EXTRA = {"sgd": "momentum=0.9, nesterov=True, weight_decay=0.01", "adam": "amsgrad=True, betas=(0.8, 0.99)"}
PLAIN = {
    "sgd": (torch.optim.SGD, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    "adam": (torch.optim.Adam, {"amsgrad": True, "betas": (0.8, 0.99)}),
    "adamw": (torch.optim.AdamW, {}), "adamax": (torch.optim.Adamax, {}), "nadam": (torch.optim.NAdam, {}),
    "radam": (torch.optim.RAdam, {}), "rmsprop": (torch.optim.RMSprop, {}),
    "adagrad": (torch.optim.Adagrad, {}), "adadelta": (torch.optim.Adadelta, {}),
    "asgd": (torch.optim.ASGD, {}),
}  # fmt: skip


def trained(make):
    """Weights after three steps."""
    torch.manual_seed(5)
    module = nn.Linear(4, 2)
    steps = make(module.parameters())
    for _ in range(3):
        steps.zero_grad()
        module(torch.ones(2, 4)).square().sum().backward()
        steps.step()
    return torch.cat([parameter.detach().flatten() for parameter in module.parameters()])


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_optimizers_are_the_plain_ones(name):
    params = CompileParams.parse(f"loss='mse', optimizer='{name}({EXTRA.get(name, '')})'")
    plain, arguments = PLAIN[name]
    ours = trained(lambda parameters: objective.optimizer(params, parameters))
    assert torch.equal(ours, trained(lambda parameters: plain(parameters, **arguments)))
    assert type(objective.optimizer(params, nn.Linear(1, 1).parameters())) is plain


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_optimizers_take_every_listed_argument(name):
    samples = {"betas": (0.9, 0.99), "t0": 10.0}
    flags = ("nesterov", "amsgrad", "centered", "decoupled_weight_decay")
    samples.update({flag: flag != "nesterov" for flag in flags})
    given = {key: samples.get(key, 0.5) for key in OPTIMIZERS[name]}
    words = ", ".join(f"{key}={value!r}" for key, value in given.items())
    made = objective.optimizer(
        CompileParams.parse(f"loss='mse', optimizer='{name}({words})'"), nn.Linear(1, 1).parameters()
    )
    assert {key: made.param_groups[0][key] for key in given if key != "initial_accumulator_value"} == {
        key: value for key, value in given.items() if key != "initial_accumulator_value"
    }


@pytest.mark.parametrize(
    ("text", "rates"),
    [
        ("step(step_size=2, gamma=0.5)", [1, 1, 0.5, 0.5]),
        ("multi_step(milestones=[1, 3], gamma=0.1)", [1, 0.1, 0.1, 0.01]),
        ("exponential(gamma=0.5)", [1, 0.5, 0.25, 0.125]),
        ("cosine(t_max=2)", [1, 0.5, 0, 0.5]),
        ("linear(total_iters=2, start_factor=0.5)", [0.5, 0.75, 1, 1]),
        ("polynomial(total_iters=2)", [1, 0.5, 0, 0]),
    ],
)
def test_schedules_step_once_per_epoch(text, rates):
    assert text.split("(")[0] in SCHEDULES
    params = CompileParams.parse(f"loss='mse', optimizer='sgd(lr=1)', lr_schedule='{text}'")
    steps = objective.optimizer(params, nn.Linear(1, 1).parameters())
    schedule = objective.schedule(params, steps)
    seen = []
    for _ in rates:
        seen.append(steps.param_groups[0]["lr"])
        steps.step()
        schedule.step()
    assert seen == pytest.approx(rates, abs=1e-12)


def test_no_schedule():
    params = CompileParams.parse("loss='mse', optimizer='sgd'")
    assert objective.schedule(params, objective.optimizer(params, nn.Linear(1, 1).parameters())) is None


@pytest.mark.parametrize(
    ("loss", "metric", "target", "message"),
    [
        ("mse", None, LABEL, "class target 'label' (text) of 6 classes; use cross_entropy"),
        ("bce_with_logits", None, LABEL, "use cross_entropy"),
        ("cross_entropy", None, VALUE, "does not fit value target 'price' (real); use mse"),
        ("cross_entropy", None, VECTOR, "does not fit vector target 'pose' (real[]) of 4 numbers"),
        ("bce_with_logits", None, VALUE, "use mse"),
        ("cross_entropy", "mae", LABEL, "metric mae does not fit"),
        ("cross_entropy", "top_6_accuracy", LABEL, "k below the number of classes"),
        ("cross_entropy", "binary_accuracy", LABEL, "metric binary_accuracy does not fit"),
        ("mse", "accuracy", VALUE, "use mae or mse"),
        ("mse", "accuracy", VECTOR, "or binary_accuracy"),
    ],
)
def test_losses_and_metrics_that_do_not_fit(loss, metric, target, message):
    with pytest.raises(UsageError) as caught:
        objective.check_target(loss, metric, target)
    assert message in str(caught.value)


def test_probabilities():
    output = torch.tensor([[0.0, 0.0], [50.0, -50.0]])
    classes = objective.probabilities("cross_entropy", output)
    assert torch.allclose(classes, torch.tensor([[0.5, 0.5], [1.0, 0.0]]), atol=1e-20)
    assert torch.equal(objective.probabilities("bce_with_logits", output), output.sigmoid())
    for logits in (torch.tensor([[0.0], [2.0]]), torch.tensor([0.0, 2.0])):
        both = objective.probabilities("bce_with_logits", logits)
        assert torch.allclose(both, torch.tensor([[0.5, 0.5], [0.1192, 0.8808]]), atol=1e-4)
    with pytest.raises(UsageError, match="use pred_type 'response'"):
        objective.probabilities("mse", output)
