"""Architectures: what they build, that their weights are those of plain torch, and what is refused."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys

import pytest
import torch
from torch import nn

from cerebro_db import architecture, networks
from cerebro_db.architecture import ACTIVATIONS, LAYERS, Architecture, output_count
from cerebro_db.errors import UsageError
from cerebro_db.layout import Input, Layout, Target

LABEL = Target("y", "class", "<i4", (), "label", "integer", ("a", "b", "c"), 3)
TWO = Target("y", "class", "<i4", (), "label", "boolean", ("f", "t"), 2)
VALUE = Target("y", "value", "<f4", (), "price", "real")
VECTOR = Target("y", "vector", "<f4", (4,), "pose", "real[]")
NUMERIC = Input("x", "numeric", "<f4", (3,), ("a", "b", "c"), mean=(1.0, 2.0, 3.0), deviation=(2.0, 0.0, 4.0))
CODES = Input("c", "categorical", "<i4", (2,), ("d", "e"), vocabulary=(("p", "q"), ("r",)))


def image(*shape):
    return Input("x", "array", "|u1", shape, ("x",))


def layout(*inputs, target=LABEL):
    return Layout(inputs, target)


def parse(**keys):
    return Architecture.parse(json.dumps(keys))


def sequential(*layers, **keys):
    return parse(model="sequential", layers=list(layers), **keys)


def build(arch, lay, loss="cross_entropy", **more):
    torch.manual_seed(1)
    return architecture.build(arch, lay, loss, **more)


def same_weights(module, *plain):
    weights = [tensor for part in plain for tensor in part.state_dict().values()]
    ours = list(module.state_dict().values())
    return len(ours) == len(weights) and all(map(torch.equal, ours, weights))


def test_mlp_has_the_weights_of_plain_torch():
    module = build(parse(model="mlp", hidden=[5], dropout=0.5), layout(image(2, 2), NUMERIC))
    torch.manual_seed(1)
    plain = nn.Sequential(nn.Linear(7, 5), nn.ReLU(), nn.Dropout(0.5), nn.Linear(5, 3))
    assert same_weights(module, plain)
    inputs = torch.rand(6, 2, 2), torch.rand(6, 3)
    expected = plain.train(False)(torch.cat([inputs[0].flatten(1), inputs[1]], 1))
    assert module.training
    assert torch.equal(module.train(False)(*inputs), expected)


def test_cnn_has_the_weights_of_plain_torch():
    module = build(parse(model="cnn", channels=[2, 4], hidden=6, input_shape=[1, 8, 8]), layout(image(64)))
    torch.manual_seed(1)
    plain = nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(16, 6), nn.ReLU(), nn.Linear(6, 3),
    )  # fmt: skip
    rows = torch.rand(5, 64)
    assert same_weights(module, plain)
    assert torch.equal(module(rows), plain(rows.reshape(5, 1, 8, 8)))


@pytest.mark.parametrize("kernel", [1, 2, 3, 5])
def test_cnn_takes_plain_images_and_any_kernel(kernel):
    module = build(parse(model="cnn", channels=[2, 2], kernel=kernel, hidden=4), layout(image(9, 10)))
    assert module(torch.rand(2, 9, 10)).shape == (2, 3)


def test_channels_last_is_the_same_image():
    options = {"model": "cnn", "channels": [2], "hidden": 4}
    first = build(parse(**options), layout(image(3, 6, 6)))
    last = build(parse(**options, channels_last=True), layout(image(6, 6, 3)))
    rows = torch.rand(2, 3, 6, 6)
    assert torch.equal(first(rows), last(rows.movedim(1, -1)))


@pytest.mark.parametrize("shape", [(9, 10), (1, 9, 10), (3, 9, 10)])
@pytest.mark.parametrize("model", ["cnn", "resnet"])
def test_images_lie_pixel_by_pixel_in_front_of_every_convolution(model, shape):
    module = build(parse(model=model, channels=[2, 4]), layout(image(*shape)))
    seen = []
    for part in module.modules():
        if isinstance(part, nn.Conv2d):
            part.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    module(torch.rand(2, *shape))
    assert len(seen) == (2 if model == "cnn" else 6)
    for values in seen:
        _, channels, height, width = values.shape
        assert values.stride() == (channels * height * width, 1, channels * width, channels)


@pytest.mark.parametrize("activation", networks.ACTIVATIONS)
@pytest.mark.parametrize("shape", [(1, 9, 10), (3, 9, 10)])
def test_cnn_trains_as_plain_torch_with_pooling_last(activation, shape):
    options = {"model": "cnn", "channels": [4, 5], "hidden": 6, "activation": activation}
    module = build(parse(**options), layout(image(*shape)))
    act = networks.ACTIVATIONS[activation]
    torch.manual_seed(1)
    plain = nn.Sequential(
        nn.Conv2d(shape[0], 4, 3, padding=1), act(), nn.MaxPool2d(2),
        nn.Conv2d(4, 5, 3, padding=1), act(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(20, 6), act(), nn.Linear(6, 3),
    )  # fmt: skip
    rows = torch.rand(5, *shape)
    for each in (module, plain):
        each(rows).square().sum().backward()
    assert same_weights(module, plain)
    for ours, theirs in zip(module.parameters(), plain.parameters()):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-5)


def test_resnet_halves_the_image_at_each_later_stage():
    module = build(parse(model="resnet", channels=[4, 8], blocks=2), layout(image(3, 8, 8)))
    residuals = [part for part in module.modules() if isinstance(part, networks.Residual)]
    shapes, values = [], module.body[:3](torch.rand(2, 3, 8, 8))
    for part in residuals:
        values = part(values)
        shapes.append(tuple(values.shape[1:]))
    assert shapes == [(4, 8, 8), (4, 8, 8), (8, 4, 4), (8, 4, 4)]
    assert module(torch.rand(2, 3, 8, 8)).shape == (2, 3)


def test_tabular_standardises_and_embeds():
    module = build(parse(model="tabular", hidden=[4], embedding=2), layout(NUMERIC, CODES))
    numbers = torch.tensor([[1.0, 2.5, 7.0]])
    codes = torch.tensor([[2, 0]], dtype=torch.int32)
    standard = torch.tensor([[0.0, 0.5, 1.0]])  # deviation 0 counts as 1
    first, second = (part.weight for part in module.embeddings)
    joined = torch.cat([standard, first[2:3], second[0:1]], 1)
    assert torch.equal(module(numbers, codes), module.body(joined))
    assert (first.shape, second.shape) == ((3, 2), (2, 2))
    assert not any(name.startswith(("mean", "deviation")) for name, _ in module.named_parameters())


@pytest.mark.parametrize("inputs", [(NUMERIC,), (CODES,), (CODES, NUMERIC, image(2, 2))])
def test_tabular_takes_any_mix_and_one_row(inputs):
    module = build(parse(model="tabular"), layout(*inputs))
    types = {"categorical": torch.int64}
    row = [torch.zeros((1, *item.shape), dtype=types.get(item.kind, torch.float32)) for item in inputs]
    assert module(*row).shape == (1, 3)


def test_embedding_rule():
    assert [networks.embedding_size(codes) for codes in (2, 3, 17, 106, 10**6)] == [2, 3, 8, 22, 600]


def test_sequential_in_both_forms_is_plain_torch():
    arch = sequential(
        ["Linear", 4, 8, {"bias": False}], {"layer": "GELU"}, ["LazyLinear", 3], input_shape=[4]
    )
    module = build(arch, layout(image(2, 2)))
    torch.manual_seed(1)
    first, last = nn.Linear(4, 8, bias=False), nn.LazyLinear(3)
    last(torch.zeros(1, 8))
    assert same_weights(module, first, last)
    assert module.training


def test_sequential_convolutions():
    arch = sequential(
        ["Unflatten", 1, [1, 6, 6]], ["Conv2d", 1, 4, [3, 3], 1, "same"], ["BatchNorm2d", 4], ["ReLU"],
        {"layer": "MaxPool2d", "kernel_size": 2, "ceil_mode": True}, ["AdaptiveAvgPool2d", [2, 2]],
        ["Flatten"], ["LayerNorm", 16], ["LazyLinear", 3],
    )  # fmt: skip
    assert build(arch, layout(image(36)))(torch.rand(2, 36)).shape == (2, 3)


def test_building_is_reproducible_and_checking_leaves_the_generator_alone():
    arch, lay = sequential(["Dropout", 0.5], ["LazyLinear", 3]), layout(image(4))
    assert same_weights(build(arch, lay), build(arch, lay))
    torch.manual_seed(7)
    before = torch.random.get_rng_state()
    architecture.check(arch, lay, "cross_entropy")
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize(
    ("target", "loss", "count"),
    [
        (LABEL, "cross_entropy", 3), (TWO, "cross_entropy", 2), (TWO, "bce_with_logits", 1),
        (VALUE, "mse", 1), (VECTOR, "mse", 4), (VECTOR, "bce_with_logits", 4),
    ],
)  # fmt: skip
def test_outputs_come_from_the_target(target, loss, count):
    assert output_count(target, loss) == count
    lay = layout(NUMERIC, target=target)
    assert build(parse(model="mlp"), lay, loss)(torch.zeros(2, 3)).shape == (2, count)
    architecture.check(parse(model="tabular"), lay, loss)


def test_one_output_may_lose_its_dimension():
    arch = sequential(["Linear", 3, 1], ["Flatten", 0])
    architecture.check(arch, layout(NUMERIC, target=VALUE), "mse")


def test_allowed_factory():
    def make(num_classes, width):
        return nn.Sequential(nn.Linear(3, width), nn.Linear(width, num_classes))

    arch = parse(factory="house.models:make", params={"width": 5})
    module = build(arch, layout(NUMERIC), allowed={"house.models:make": make})
    assert module(torch.zeros(2, 3)).shape == (2, 3)
    assert module.body[0].out_features == 5
    architecture.check(arch, layout(NUMERIC), "cross_entropy", {"house.models:make": make})


def test_factory_that_reads_its_own_numbers_cannot_be_weighed_but_builds():
    def make(num_classes):
        return nn.Sequential(nn.Dropout(torch.linspace(0, 0.5, 2)[1].item()), nn.Linear(3, num_classes))

    module = build(parse(factory="a:b"), layout(NUMERIC), allowed={"a:b": make})
    assert module.body[0].p == 0.5


PARSE_ERRORS = [
    (None, "model_arch is NULL"),
    ("{", "is not valid JSON"),
    ("[1]", "is not a JSON object"),
    ('{"a": 1}', "expected 'model' (one of mlp, cnn, resnet, tabular, sequential) or 'factory'"),
    ('{"class_name": "Sequential", "config": {}}', "as of a Keras model"),
    ('{"model": "mpl"}', "unknown model 'mpl': did you mean 'mlp'"),
    ('{"model": 3}', "unknown model 3"),
    ('{"model": "mlp", "hiden": [1]}', "unknown argument of model mlp 'hiden': did you mean 'hidden'"),
    ('{"model": "mlp", "model": "cnn"}', "key 'model' twice"),
    ('{"model": "mlp", "hidden": [0]}', "hidden[0] is 0, expected a whole number >= 1"),
    ('{"model": "mlp", "hidden": 3}', "hidden is 3, expected a list"),
    ('{"model": "mlp", "dropout": 1}', "dropout is 1, expected a finite number >= 0 and < 1"),
    ('{"model": "mlp", "dropout": NaN}', "holds NaN"),
    ('{"model": "mlp", "activation": "rellu"}', "did you mean 'relu'"),
    ('{"model": "resnet", "blocks": 1000000000}', ">= 1 and <= 100"),
    ('{"model": "tabular", "embedding": "big"}', "embedding is 'big', expected a whole number"),
    ('{"model": "sequential"}', "model sequential lacks 'layers'"),
    ('{"model": "sequential", "layers": []}', "expected a list of at least one layer"),
    ('{"model": "sequential", "layers": [3]}', "layer 0 is 3, expected"),
    ('{"model": "sequential", "layers": [["Linea", 1, 2]]}', "did you mean 'Linear'"),
    ('{"model": "sequential", "layers": [["Transformer"]]}', "torch.nn layer (layer 0) 'Transformer'"),
    ('{"model": "sequential", "layers": [["Linear", 1]]}', "layer 0 (Linear) lacks 'out_features'"),
    ('{"model": "sequential", "layers": [["ReLU", 1]]}', "has 1 values in order, expected at most 0"),
    ('{"model": "sequential", "layers": [["Linear", 1, 2, {"in_features": 1}]]}', "'in_features' twice"),
    ('{"model": "sequential", "layers": [["Linear", 1, 2, {"biass": true}]]}', "did you mean 'bias'"),
    ('{"model": "sequential", "layers": [["Linear", 1, 2, {"device": "cuda"}]]}', "unknown argument"),
    ('{"model": "sequential", "layers": [["Linear", 1, true]]}', "out_features is True, expected"),
    ('{"model": "sequential", "layers": [["Linear", 1, 2, 3]]}', "bias is 3, expected True or False"),
    ('{"model": "sequential", "layers": [["Linear", {"a": {"b": 1}}]]}', "unknown argument"),
    ('{"factory": "os.system"}', "expected 'package.module:function'"),
    ('{"factory": "os:system", "args": ["x"]}', "unknown argument of model_arch 'args'"),
    ('{"factory": "os:system", "params": 3}', "params is 3, expected an object"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), PARSE_ERRORS, ids=[message for _, message in PARSE_ERRORS])
def test_descriptions_are_refused(text, message):
    with pytest.raises(UsageError) as caught:
        Architecture.parse(text)
    assert message in str(caught.value)


HUGE = 10**12
CHECK_ERRORS = [
    (parse(model="mlp"), layout(CODES), "d, e are categorical; use model 'tabular'"),
    (parse(model="cnn"), layout(image(784)), "has shape [784]; give input_shape"),
    (parse(model="cnn", input_shape=[1, 28, 28]), layout(image(100)), "[1, 28, 28] of the arch"),
    (parse(model="cnn", input_shape=[1, 28, 28]), layout(image(100)), "'x' has shape [100] with 100"),
    (parse(model="cnn"), layout(image(28, 28, 3)), '"channels_last": true'),
    (parse(model="cnn", channels=[2] * 5), layout(image(28, 28)), "halves the image 5 times, too often"),
    (parse(model="cnn"), layout(image(8, 8), NUMERIC), "takes one input, but the table has 2"),
    (parse(model="resnet"), layout(CODES), "model resnet takes numbers, but 'c' is categorical"),
    (sequential(["Linear", 784, 3]), layout(image(100)), "Linear 'body.0' for [rows, 100]"),
    (sequential(["Linear", 784, 3]), layout(image(28, 28)), "cannot take the inputs x [rows, 28, 28]"),
    (sequential(["Linear", 100, 8], ["Linear", 9, 3]), layout(image(100)), "Linear 'body.1' for [rows, 8]"),
    (sequential(["Linear", 4, 5]), layout(image(4)), "gives [rows, 5] for inputs x [rows, 4]"),
    (sequential(["Linear", 4, 5]), layout(image(4)), "class target 'label' needs [rows, 3]"),
    (sequential(["Linear", 4, 3]), layout(image(4, 4)), "gives [rows, 4, 3]"),
    (sequential(["Linear", 4, 3], ["Flatten", 0]), layout(image(4)), "gives [rows]"),
    (sequential(["Linear", 4, 3], ["Softmax", 1], ["Identity"]), layout(image(4)), "last layer is Softmax"),
    (sequential(["Linear", -4, 3]), layout(image(4)), "layer 0 (Linear) cannot be built"),
    (sequential(["Linear", "4", 3]), layout(image(4)), "layer 0 (Linear) cannot be built"),
    (sequential(["Linear", 4.5, 3]), layout(image(4)), "layer 0 (Linear) cannot be built"),
    (sequential(["Conv2d", 4, 3, 3, 1, 0, 1, 3]), layout(image(4, 9, 9)), "layer 0 (Conv2d) cannot be"),
    (parse(model="mlp", hidden=[HUGE]), layout(image(4)), "use smaller layers"),
    (parse(model="mlp", hidden=[10**30]), layout(image(4)), "cannot be built"),
    (sequential(["Linear", 4, HUGE], ["Linear", HUGE, 3]), layout(image(4)), "8,000,000,000,003 parameters"),
    (sequential(["LazyLinear", HUGE], ["LazyLinear", 3]), layout(image(4)), "use smaller layers"),
    (sequential(["AdaptiveAvgPool1d", HUGE], ["Linear", HUGE, 3]), layout(image(4)), "use smaller"),
    (parse(factory="os:system", params={"command": "true"}), layout(image(4)), "'os:system' is not on the list"),
    (parse(factory="torchvision.models:nothing"), layout(image(3, 8, 8)), "torchvision"),
]  # fmt: skip


@pytest.mark.parametrize(("arch", "lay", "message"), CHECK_ERRORS, ids=[case[2] for case in CHECK_ERRORS])
def test_unfit_models_are_refused(arch, lay, message):
    with pytest.raises(UsageError) as caught:
        architecture.check(arch, lay, "cross_entropy")
    assert message in str(caught.value)


def test_sigmoid_before_bce_is_refused():
    arch = sequential(["Linear", 4, 1], ["Sigmoid"])
    with pytest.raises(UsageError, match="last layer is Sigmoid, but loss bce_with_logits takes logits"):
        architecture.check(arch, layout(image(4), target=TWO), "bce_with_logits")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda num_classes: "model", "the factory gives a str"),
        (lambda width: nn.Identity(), "missing 1 required positional argument: 'width'"),
        (lambda num_classes: Pair(), "gives a tuple, expected one tensor"),
    ],
)
def test_factories_that_misbehave(make, message):
    with pytest.raises(UsageError) as caught:
        architecture.check(parse(factory="a:b"), layout(NUMERIC), "cross_entropy", {"a:b": make})
    assert message in str(caught.value)


class Pair(nn.Module):
    def forward(self, values):
        return values, values


@pytest.mark.parametrize("name", sorted(LAYERS))
def test_layer_arguments_are_those_of_torch(name):
    signature = inspect.signature(getattr(nn, name).__init__).parameters.values()
    known = [parameter for parameter in signature if parameter.name not in ("self", "args", "kwargs")]
    ordered, _, keyword = LAYERS[name].partition("*")
    for word, parameter in zip(ordered.split(), known):
        assert word.rstrip("!") == parameter.name
        if parameter.default is inspect.Parameter.empty:
            assert word.endswith("!")
    assert set(keyword.split()) <= {parameter.name for parameter in known}
    listed = ordered.replace("!", "").split() + keyword.split()
    # Newer versions of torch give some norms a bias flag; `affine` does for all of them.
    unlisted = {item.name for item in known} - set(listed)
    assert unlisted <= {"device", "dtype", "inplace", "return_indices", "bias"}


def test_activations_are_those_of_the_networks():
    assert tuple(networks.ACTIVATIONS) == ACTIVATIONS


def test_parsing_loads_no_torch():
    code = (
        "import sys; from cerebro_db.architecture import Architecture; "
        "Architecture.parse('{\"model\": \"mlp\"}'); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
