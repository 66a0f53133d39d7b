"""A layout goes through JSON unchanged and knows its sizes."""

from __future__ import annotations

from cerebro_db.layout import Input, Layout, Target

LAYOUT = Layout(
    inputs=(
        Input("numeric_features", "numeric", ">f4", (2,), ("a", "b"), mean=(0.5, 1e-300), deviation=(1.0, 2)),
        Input("categorical_features", "categorical", ">i4", (1,), ("c",), vocabulary=(("x", "ä"),)),
        Input("img", "array", "|u1", (3, 28, 28), ("img",)),
    ),
    target=Target("y", "class", ">i4", (), "y", "integer", classes=("1", "2"), outputs=5, base="int4"),
    normalizing_const=255.0,
    nulls="impute",
    imputed=(0.5, 1e-300),
    features=("img", "a", "c", "b"),
)


def test_json_round_trip() -> None:
    assert Layout.from_json(LAYOUT.to_json()) == LAYOUT


def test_a_layout_without_later_fields_is_read() -> None:
    text = LAYOUT.to_json().replace('"features": ["img", "a", "c", "b"], ', "")
    assert Layout.from_json(text).features == ()


def test_sizes() -> None:
    assert [item.row_bytes for item in LAYOUT.inputs] == [8, 4, 2352]
    assert LAYOUT.target.row_bytes == 4
    assert LAYOUT.inputs[1].cardinalities == (3,)
