"""Which classes or numbers of a model's outputs are written, without a database."""

from __future__ import annotations

import pytest
import torch

from cerebro_db import answers
from cerebro_db.answers import PredType
from cerebro_db.errors import UsageError
from cerebro_db.layout import Target

COLORS = Target("color", "class", ">i4", (), "color", "text", classes=('r"\\', "g", None), outputs=4, base="text")
WON = Target("won", "class", ">i4", (), "won", "boolean", classes=("false", "true"), outputs=2, base="bool")
TAGS = Target("tags", "vector", "<f4", (2,), "tags", "real[]", outputs=2, base="float4")


def rows(target, loss, pred_type, outputs):
    return answers.form(target, loss, PredType.parse(pred_type)).rows(torch.tensor(outputs))


@pytest.mark.parametrize(("text", "kind", "number"), [
    (None, "prob", 0), (" PROB ", "prob", 0), ("response", "response", 0), ("1", "top", 1), ("12", "top", 12),
    ("0.0", "above", 0.0), (".25", "above", 0.25), ("1e-3", "above", 0.001), ("0.999", "above", 0.999),
])  # fmt: skip
def test_pred_type(text, kind, number):
    assert PredType.parse(text) == PredType(kind, number)


@pytest.mark.parametrize("text", ["0", "-1", "1.0", "1.5", "nan", "inf", "", "top", "1e5", "0x1", "1 2", "٣x"])
def test_pred_type_that_is_none(text):
    with pytest.raises(UsageError, match="pred_type is"):
        PredType.parse(text)


def test_labels_are_quoted_and_classes_without_one_are_null():
    found = rows(COLORS, "cross_entropy", "prob", [[1.0, 2.0, 3.0, 4.0]])
    assert found["labels"] == '{NULL,NULL,"g","r\\"\\\\"}'
    assert (found["places"], found["ranks"]) == ("{1,1,1,1}", "{1,2,3,4}")


def test_probabilities_keep_every_bit_of_a_float32():
    outputs = [[0.1, -0.2, 3.0, 7.0], [0.0, 0.0, 0.0, 0.0]]
    found = rows(COLORS, "cross_entropy", "prob", outputs)
    sent = [int(text) / 2**62 for text in found["probs"].strip("{}").split(",")]
    truth = torch.tensor(outputs).softmax(1).sort(1, descending=True).values.double()
    assert sent == truth.flatten().tolist()


def test_nan_is_marked_and_never_hidden():
    nan = float("nan")
    assert rows(COLORS, "cross_entropy", "response", [[nan] * 4])["probs"] == "{-1}"
    assert rows(COLORS, "cross_entropy", "0.5", [[nan] * 4])["probs"] == "{-1,-1,-1,-1}"


@pytest.mark.parametrize(
    ("logit", "label"), [(2.0, '{"true"}'), (-2.0, '{"false"}'), (0.0, '{"false"}'), (1e-12, '{"true"}')]
)
def test_one_logit_decides_as_the_metric_does(logit, label):
    assert rows(WON, "bce_with_logits", "response", [[logit]])["labels"] == label
    assert rows(WON, "bce_with_logits", "response", [logit])["labels"] == label


def test_independent_labels_are_probabilities_or_decisions():
    assert rows(TAGS, "bce_with_logits", "prob", [[0.0, 100.0]])["values"] == "{0.5,1.0}"
    found = rows(TAGS, "bce_with_logits", "response", [[-1.0, 3.0], [2.0, 0.0]])
    assert found == {"values": "{0.0,1.0,1.0,0.0}", "places": "{1,1,2,2}", "components": "{1,2,1,2}"}


def test_classes_of_numbers_are_refused():
    with pytest.raises(UsageError, match="predicts numbers of 'tags', not classes"):
        rows(TAGS, "mse", "2", [[0.0, 1.0]])
