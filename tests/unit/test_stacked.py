"""Configs trained as one against the same configs trained one by one."""

from __future__ import annotations

import gc
import json
import weakref
from typing import Any, Dict, List, Sequence, Tuple

import pytest
import torch
from torch import Tensor, nn

from cerebro_db import architecture, objective
from cerebro_db.batches import Batch
from cerebro_db.layout import Input, Layout, Target
from cerebro_db.learners import Alone, Objective, Stack
from cerebro_db.params import CompileParams
from cerebro_db.stacked import UnstackableError
from cerebro_db.state import Trainee
from cerebro_db.train import Tally, evaluate, train_hop

NUMBERS = Input("x", "numeric", ">f4", (6,), tuple("abcdef"), mean=(0.5,) * 6, deviation=(2.0,) * 5 + (0.0,))
WORDS = Input("c", "categorical", ">i4", (2,), ("u", "v"), vocabulary=(("p", "q"), ("r", "s", "t")))
VECTOR = Input("img", "array", "|u1", (2, 3), ("img",))
CLASSES = Target("y", "class", ">i4", (), "y", "text", ("n", "m", "o"), 3)
VALUE = Target("y", "value", ">f4", (), "y", "real")
TWO = Target("y", "vector", ">f4", (2,), "y", "real[]", outputs=2)

ARCHITECTURES: Dict[str, Tuple[Dict[str, Any], Tuple[Input, ...]]] = {
    "mlp": ({"model": "mlp", "hidden": [8, 5], "activation": "tanh"}, (NUMBERS,)),
    "mlp of two inputs": ({"model": "mlp", "hidden": [8], "dropout": 0.3}, (NUMBERS, VECTOR)),
    "tabular": ({"model": "tabular", "hidden": [7], "activation": "gelu"}, (NUMBERS, WORDS)),
    "sequential": (
        {"model": "sequential", "layers": [
            ["Flatten"], ["Linear", 6, 8, {"bias": False}], ["BatchNorm1d", 8], ["LeakyReLU", 0.2], ["Dropout", 0.25],
            ["Linear", 8, 6, {"bias": False}], ["LayerNorm", 6], ["SiLU"], ["Linear", 6, 3],
        ]}, (VECTOR,)),
    "linear over the last axis": (
        {"model": "sequential", "layers": [
            ["Linear", 3, 4], ["ReLU"], ["LayerNorm", [2, 4]], ["Flatten"], ["Linear", 8, 3],
        ]}, (VECTOR,)),
}  # fmt: skip
OPTIMIZERS = (
    ("Adam(lr=0.01)", "Adam(lr=0.001, weight_decay=0.1)", "Adam(lr=0.01, beta_1=0.8, epsilon=0.0001)"),
    ("AdamW(lr=0.01)", "AdamW(lr=0.003, weight_decay=0.2)", "AdamW(lr=0.01)"),
    ("SGD(lr=0.1)", "SGD(lr=0.01, weight_decay=0.1)", "SGD(lr=0.05)"),
    ("SGD(lr=0.1, momentum=0.9)", "SGD(lr=0.05, momentum=0.5, nesterov=True)", "SGD(lr=0.02, momentum=0.9)"),
)


@pytest.fixture(autouse=True)
def _one_thread():
    """Tiny products gain nothing by threads, which wait for each other on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def nothing() -> None:
    pass


def made(
    arch: Dict[str, Any], inputs: Tuple[Input, ...], compile_params: str, seed: int, target: Target = CLASSES
) -> Trainee:
    torch.manual_seed(seed)
    compiled = CompileParams.parse(compile_params)
    layout = Layout(inputs, target)
    module = architecture.build(architecture.Architecture.parse(json.dumps(arch)), layout, compiled.loss)
    optimizer = objective.optimizer(compiled, module.parameters())
    return Trainee(module, optimizer, objective.schedule(compiled, optimizer))


def goal(compile_params: str) -> Objective:
    compiled = CompileParams.parse(compile_params)
    return Objective.named(compiled.loss, compiled.metric, compiled.clip_norm)


def batches(inputs: Sequence[Input], target: Target = CLASSES, count: int = 4, rows: int = 9) -> List[Any]:
    generator = torch.Generator().manual_seed(3)
    found = []
    for number in range(count):
        size = rows if number < count - 1 else 2  # the last one is short
        given = tuple(
            torch.randint(0, min(each.cardinalities), (size, *each.shape), generator=generator)
            if each.kind == "categorical" else torch.randn(size, *each.shape, generator=generator)
            for each in inputs
        )  # fmt: skip
        if target.kind == "class":
            found.append((given, torch.randint(0, 3, (size,), generator=generator)))
        else:
            found.append((given, torch.randn(size, *target.shape, generator=generator)))
    return found


def compiled_of(optimizers: Sequence[str], loss: str = "cross_entropy", metric: str = "accuracy") -> List[str]:
    return [f"optimizer='{each}', loss='{loss}', metrics=['{metric}']" for each in optimizers]


def near(value: torch.Tensor, other: torch.Tensor, tolerance: float) -> bool:
    """Whether tensors agree, by the largest of their values."""
    value, other = torch.as_tensor(value).double(), torch.as_tensor(other).double()
    return bool((value - other).abs().max() <= tolerance * max(1.0, float(value.abs().max())))


def both(
    arch: Dict[str, Any], inputs: Tuple[Input, ...], compiled: List[str], data: List[Any], target: Target = CLASSES
) -> Tuple[Any, ...]:
    """Trained one by one, and as one: (trainees, tallies) of each, with the random numbers each ends with."""
    alone = [made(arch, inputs, each, seed, target) for seed, each in enumerate(compiled)]
    tallies, ends = [], []
    for seed, (trainee, each) in enumerate(zip(alone, compiled)):
        torch.manual_seed(100 + seed)
        tallies += train_hop(Alone(trainee, goal(each)), data, nothing)
        ends.append(torch.get_rng_state())
    together = [made(arch, inputs, each, seed, target) for seed, each in enumerate(compiled)]
    states = [torch.Generator().manual_seed(100 + seed).get_state() for seed in range(len(compiled))]
    stack = stacked(together, compiled, states)
    counted, rng_states = trained(stack, data)
    return alone, tallies, ends, together, counted, rng_states, stack


def stacked(trainees: Sequence[Trainee], compiled: Sequence[CompileParams], rng_states: Sequence[Tensor]) -> Stack:
    stack = Stack(len(trainees), trainees[0], goal(compiled[0]))
    for trainee, each, rng_state in zip(trainees, compiled, rng_states):
        stack.add(trainee, goal(each), rng_state)
    return stack


def trained(stack: Stack, data: Sequence[Batch]) -> Tuple[List[Tally], List[Tensor]]:
    """A hop, after which the trainees are what the stack has made of them; with the random numbers of each."""
    tallies, rng_states = train_hop(stack, data, nothing), []
    for number in range(stack.width):
        stack.give_back(number)
        rng_states.append(torch.get_rng_state())
    return tallies, rng_states


def assert_close(left: Trainee, right: Trainee, tolerance: float = 1e-6) -> None:
    """Weights, buffers and optimizers agree, as large as they are on the whole."""
    for name, value in left.module.state_dict().items():
        assert near(value, right.module.state_dict()[name], tolerance), name
    mine, theirs = left.optimizer.state_dict()["state"], right.optimizer.state_dict()["state"]
    assert mine.keys() == theirs.keys()
    for parameter, entries in mine.items():
        assert entries.keys() == theirs[parameter].keys()
        for key, value in entries.items():
            assert near(value, theirs[parameter][key], tolerance), key
    assert (left.steps, left.rows) == (right.steps, right.rows)


@pytest.mark.parametrize("optimizers", OPTIMIZERS, ids=lambda names: names[-1].split("(")[0] + str(len(names[0])))
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_one_step_equals_that_of_each_alone(name, optimizers):
    arch, inputs = ARCHITECTURES[name]
    one = batches(inputs, count=2)[:1]
    alone, _, ends, together, _, rng_states, _ = both(arch, inputs, compiled_of(optimizers), one)
    for left, right, end, rng_state in zip(alone, together, ends, rng_states):
        assert_close(left, right)
        assert torch.equal(end, rng_state)


@pytest.mark.parametrize("optimizers", OPTIMIZERS, ids=lambda names: names[-1].split("(")[0] + str(len(names[0])))
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_pass_counts_what_each_alone_counts(name, optimizers):
    arch, inputs = ARCHITECTURES[name]
    data = batches(inputs)
    alone, tallies, ends, together, counted, _, stack = both(arch, inputs, compiled_of(optimizers), data)
    for left, right, mine, theirs in zip(alone, together, tallies, counted):
        assert_close(left, right, 1e-4)
        assert (mine.rows, mine.diverged) == (theirs.rows, theirs.diverged) == (29, False)
        assert theirs.loss == pytest.approx(mine.loss, rel=1e-4)
        assert theirs.metric == mine.metric
    checked = [evaluate(Alone(each, goal(c)), data, nothing)[0] for each, c in zip(alone, compiled_of(optimizers))]
    for mine, theirs in zip(checked, evaluate(stack, data, nothing)):
        assert theirs.loss == pytest.approx(mine.loss, rel=1e-4)
        assert (theirs.rows, theirs.metric) == (mine.rows, mine.metric)


@pytest.mark.parametrize(
    ("loss", "metric", "target"), [("mse", "mae", VALUE), ("huber", "mse", TWO), ("mae", "mae", TWO)]
)
def test_losses_of_values_and_vectors(loss, metric, target):
    arch, inputs = ARCHITECTURES["mlp"]
    compiled = compiled_of(OPTIMIZERS[0], loss, metric)
    alone, tallies, _, together, counted, _, _ = both(arch, inputs, compiled, batches(inputs, target), target)
    for left, right, mine, theirs in zip(alone, together, tallies, counted):
        assert_close(left, right, 1e-4)
        assert theirs.loss == pytest.approx(mine.loss, rel=1e-4)
        assert theirs.metric == pytest.approx(mine.metric, rel=1e-4)


def test_each_config_is_clipped_by_its_own_norm():
    arch, inputs = ARCHITECTURES["mlp"]
    compiled = compiled_of(("SGD(lr=1.0, clip_norm=0.001)", "SGD(lr=1.0)", "SGD(lr=1.0, clip_norm=0.1)"))
    first = [made(arch, inputs, each, seed) for seed, each in enumerate(compiled)]
    alone, _, _, together, _, _, _ = both(arch, inputs, compiled, batches(inputs, count=2)[:1])
    for left, right in zip(alone, together):
        assert_close(left, right)
    moved = [
        torch.cat([(a - b).flatten() for a, b in zip(now.module.parameters(), then.module.parameters())]).norm().item()
        for now, then in zip(together, first)
    ]
    assert moved[0] == pytest.approx(1e-3, rel=1e-3)
    assert moved[1] > moved[2] == pytest.approx(0.1, rel=1e-3)


def test_one_that_diverges_ends_alone():
    arch, inputs = ARCHITECTURES["mlp"]
    compiled = compiled_of(("SGD(lr=0.1)", "SGD(lr=1e38)", "SGD(lr=0.2)"))
    alone, tallies, _, together, counted, _, _ = both(arch, inputs, compiled, batches(inputs))
    assert [tally.diverged for tally in counted] == [False, True, False]
    assert counted[1].rows == tallies[1].rows < counted[0].rows == 29
    assert counted[1].metric <= 1.0
    assert_close(alone[0], together[0], 1e-5)
    assert_close(alone[2], together[2], 1e-5)


def test_the_time_of_a_pass_is_shared():
    arch, inputs = ARCHITECTURES["mlp"]
    *_, counted, _, _ = both(arch, inputs, compiled_of(OPTIMIZERS[0]), batches(inputs))
    assert len({(tally.seconds, tally.data_seconds) for tally in counted}) == 1


@pytest.mark.parametrize(("arch", "inputs", "optimizers", "reason"), [
    ({"model": "cnn", "input_shape": [1, 2, 3], "channels": [2]}, (VECTOR,), OPTIMIZERS[0], "Image"),
    (ARCHITECTURES["mlp"][0], (NUMBERS,), ("RMSprop()", "RMSprop()"), "RMSprop"),
    (ARCHITECTURES["mlp"][0], (NUMBERS,), ("SGD(momentum=0.9)", "SGD()"), "momentum"),
    (ARCHITECTURES["mlp"][0], (NUMBERS,), ("Adam(amsgrad=True)", "Adam(amsgrad=True)"), "amsgrad"),
])  # fmt: skip
def test_what_cannot_be_stacked_says_so(arch, inputs, optimizers, reason):
    compiled = compiled_of(optimizers)
    trainees = [made(arch, inputs, each, seed) for seed, each in enumerate(compiled)]
    with pytest.raises(UnstackableError, match=reason):
        stacked(trainees, compiled, [torch.get_rng_state()] * len(compiled))


def test_modules_of_other_shapes_are_not_stacked():
    trainees = [
        made({"model": "mlp", "hidden": [width]}, (NUMBERS,), compiled_of(("Adam()",))[0], 1) for width in (3, 4)
    ]
    with pytest.raises(UnstackableError, match="other parameters"):
        stacked(trainees, compiled_of(("Adam()",)) * 2, [torch.get_rng_state()] * 2)


def test_constants_that_differ_are_not_shared():
    other = Input("x", "numeric", ">f4", (6,), tuple("abcdef"), mean=(0.0,) * 6, deviation=(1.0,) * 6)
    arch = {"model": "tabular", "hidden": [3]}
    trainees = [made(arch, (each,), compiled_of(("Adam()",))[0], 1) for each in (NUMBERS, other)]
    with pytest.raises(UnstackableError, match="mean_0"):
        stacked(trainees, compiled_of(("Adam()",)) * 2, [torch.get_rng_state()] * 2)


def test_weights_and_moments_are_in_memory_once():
    """In the trainees, or in the stack."""
    arch, inputs = ARCHITECTURES["mlp"]
    compiled = compiled_of(OPTIMIZERS[0])
    trainees = [made(arch, inputs, each, seed) for seed, each in enumerate(compiled)]
    shapes = [value.shape for value in trainees[0].module.parameters()]
    stack = stacked(trainees, compiled, [torch.get_rng_state()] * len(trainees))
    assert [value.numel() for each in trainees for value in each.module.parameters()] == [0] * 3 * len(shapes)
    train_hop(stack, batches(inputs), nothing)
    stack.give_back(1)
    assert [value.shape for value in trainees[1].module.parameters()] == shapes
    assert [len(each.optimizer.state) for each in trainees] == [0, len(shapes), 0]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_stack_goes_with_its_last_reference(name):
    """Not when the garbage collector comes by, which counts objects and not bytes."""
    arch, inputs = ARCHITECTURES[name]
    compiled = compiled_of(OPTIMIZERS[0])
    *_, stack = both(arch, inputs, compiled, batches(inputs))
    gone = weakref.ref(stack._leaves[0])
    gc.disable()
    try:
        del stack, _
        assert gone() is None
    finally:
        gc.enable()


def test_a_second_hop_goes_on_from_the_first():
    """State leaves a stack and enters the next one, also with a config less."""
    arch, inputs = ARCHITECTURES["sequential"]
    compiled, data = compiled_of(OPTIMIZERS[0]), batches(inputs)
    alone, _, ends, together, _, rng_states, _ = both(arch, inputs, compiled, data)
    for trainee, each, end in list(zip(alone, compiled, ends))[1:]:
        torch.set_rng_state(end)
        train_hop(Alone(trainee, goal(each)), data, nothing)
    trained(stacked(together[1:], compiled[1:], rng_states[1:]), data)
    for left, right in zip(alone[1:], together[1:]):
        assert_close(left, right, 1e-3)
    assert isinstance(together[1].module, nn.Module)
