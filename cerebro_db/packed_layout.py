"""The layout of a packed table: learned from the rows of a training table, required of others."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import List, Optional, Tuple

from cerebro_db.columns import CATEGORICAL, NUMERIC, Column, Selection, check_shape, listed
from cerebro_db.database import Database, one
from cerebro_db.datacheck import Facts, Source
from cerebro_db.encoding import array_of
from cerebro_db.errors import DataError, UsageError
from cerebro_db.layout import Input, Layout, Target
from cerebro_db.pack_request import PackRequest
from cerebro_db.sqltext import Fragment

#: Most classes of a label; more are a number or an identifier.
MOST_CLASSES = 10_000
#: Most distinct values of a categorical feature; more are an identifier.
MOST_WORDS = 100_000
#: Unseen labels that an error lists.
_SHOWN_LABELS = 10
_COLLATED = ("text", "varchar", "bpchar")


def training_layout(database: Database, source: Source, facts: Facts, request: PackRequest) -> Layout:
    """Learn vocabularies, classes, means and dtypes; raises UsageError or DataError for unfit labels."""
    selection = source.selection
    inputs = [
        *_numeric(selection, facts),
        *_categorical(database, source),
        *(_tensor(database, source, facts, column) for column in selection.tensors),
    ]
    numeric = [facts.mean[column.name] for column in selection.of("numeric")]
    return Layout(
        inputs=tuple(inputs),
        target=_target(database, source, facts, request.outputs),
        normalizing_const=float(request.normalizing_const),
        nulls=source.nulls,
        imputed=tuple(numeric) if source.nulls == "impute" else (),
        features=tuple(column.name for column in selection.features),
    )


def require_kinds(layout: Layout, selection: Selection) -> None:
    """Check a selection of another table against a layout, by position; raises UsageError."""
    require_feature_kinds(layout, selection.features)
    _require_label(layout.target, selection.label)


def require_feature_kinds(layout: Layout, features: Tuple[Column, ...]) -> None:
    """Check the feature columns of another table against a layout, by position; raises UsageError."""
    if len(features) != len(layout.features):
        raise UsageError(
            f"independent_varname names {len(features)} columns, but the training table was packed "
            f"with {len(layout.features)}: {listed(list(layout.features))}"
        )
    by_source = {name: item for item in layout.inputs for name in item.sources}
    for column, name in zip(features, layout.features):
        kind = "array" if column.kind == "bytea" else column.kind
        if kind != by_source[name].kind:
            raise UsageError(
                f"column {column.name!r} has type {column.sql_type}, but the training column {name!r} "
                f"in its place is {by_source[name].kind}"
            )


def validation_layout(database: Database, source: Source, facts: Facts, layout: Layout) -> Layout:
    """The training layout with the dtypes of another table's arrays; raises for other shapes or labels."""
    columns = dict(zip(layout.features, source.selection.features))
    _require_labels(database, source, facts, layout.target)
    inputs = tuple(
        replace(item, dtype=_required_dtype(database, source, facts, item, columns[item.sources[0]]))
        for item in layout.inputs
    )
    return replace(layout, inputs=inputs)


def widened(layout: Layout, item: Input, column: Column) -> Layout:
    """The layout with the next wider dtype of an integer array."""
    wide = replace(item, dtype=">i2" if column.base == "int2" else ">f4")
    return replace(layout, inputs=tuple(wide if each == item else each for each in layout.inputs))


def _numeric(selection: Selection, facts: Facts) -> List[Input]:
    columns = selection.of("numeric")
    if not columns:
        return []
    sources = tuple(column.name for column in columns)
    mean = tuple(facts.mean[name] for name in sources)
    deviation = tuple(facts.deviation[name] for name in sources)
    return [Input(NUMERIC, "numeric", ">f4", (len(columns),), sources, mean=mean, deviation=deviation)]


def _categorical(database: Database, source: Source) -> List[Input]:
    columns = source.selection.of("categorical")
    if not columns:
        return []
    vocabulary = tuple(_words(database, source, column) for column in columns)
    sources = tuple(column.name for column in columns)
    return [Input(CATEGORICAL, "categorical", ">i4", (len(columns),), sources, vocabulary=vocabulary)]


def _words(database: Database, source: Source, column: Column) -> Tuple[str, ...]:
    found = database.rows(source.query("words", column=column.sql()), most=MOST_WORDS + 1)
    if len(found) > MOST_WORDS:
        raise DataError(
            f"column {column.name!r} has more than {MOST_WORDS} distinct values, so it names rows rather "
            "than categories; leave it out, or group its values in a view"
        )
    return tuple(row["word"] for row in found)


def _tensor(database: Database, source: Source, facts: Facts, column: Column) -> Input:
    dims = facts.dims[column.name]
    shape = check_shape(column, prod(dims), dims)
    return Input(column.name, "array", _dtype(database, source, facts, column), shape, (column.name,))


def _dtype(database: Database, source: Source, facts: Facts, column: Column) -> str:
    """The narrowest dtype that some rows fit; packing verifies the others."""
    if column.kind == "bytea":
        return "|u1"
    if not column.base.startswith("int"):
        return ">f4"
    parts = {"column": column.sql(), "number": source.number(database)}
    seen = one(database, source.dialect(database, "some_elements", **parts), rows=facts.rows, shuffle_seed=0)
    if seen["smallest"] is not None and seen["smallest"] >= 0 and seen["largest"] <= 255:
        return "|u1"
    return ">i2" if column.base == "int2" else ">f4"


def _target(database: Database, source: Source, facts: Facts, outputs: Optional[int]) -> Target:
    label = source.selection.label
    target = Target(label.name, "value", ">f4", (), label.name, label.sql_type, base=label.base)
    if label.is_array:
        (width,) = facts.dims[label.name]
        _check_width(label, width, outputs)
        return replace(target, kind="vector", dtype=">f4", shape=(width,), outputs=width)
    if label.is_real and outputs is None:
        return target
    classes = _classes(database, source, outputs)
    return replace(target, kind="class", dtype=">i4", classes=classes, outputs=outputs or len(classes))


def _check_width(label: Column, width: int, outputs: Optional[int]) -> None:
    if outputs not in (None, width):
        raise UsageError(
            f"num_classes is {outputs}, but label {label.name!r} is an array of {width} numbers, "
            "which is the number of outputs already; leave num_classes out"
        )


def _classes(database: Database, source: Source, outputs: Optional[int]) -> Tuple[str, ...]:
    label = source.selection.label
    collation = Fragment('collate "C"' if label.base in _COLLATED else "")
    found = database.rows(
        source.query("labels", label=label.sql(), collation=collation), most=MOST_CLASSES + 1
    )
    if len(found) > MOST_CLASSES:
        remedy = f"cast it for regression: {label.name}::float8" if label.is_integer else "is it the label?"
        raise DataError(f"label {label.name!r} has more than {MOST_CLASSES} distinct classes; {remedy}")
    if len(found) < 2:
        raise DataError(
            f"label {label.name!r} of table {source.table} has one class only ({found[0]['label']!r}); "
            "a classifier needs at least 2"
        )
    if outputs is not None and outputs < len(found):
        raise UsageError(
            f"num_classes is {outputs}, but label {label.name!r} has {len(found)} distinct classes; "
            f"give {len(found)} or more, or leave it out"
        )
    return tuple(row["label"] for row in found)


def _family(base: str) -> str:
    """Types whose labels compare with each other."""
    families = {"number": ("int2", "int4", "int8"), "text": ("text", "varchar", "bpchar", "name")}
    return next((family for family, members in families.items() if base in members), base)


def _require_label(target: Target, label: Column) -> None:
    fits = {
        "vector": label.is_array,
        "value": label.is_integer or label.is_real,
        "class": not label.is_array and _family(label.base) == _family(target.base),
    }
    if not fits[target.kind]:
        raise UsageError(
            f"label column {label.name!r} has type {label.sql_type}, but the training label "
            f"{target.source!r} has type {target.sql_type}"
        )


def _require_labels(database: Database, source: Source, facts: Facts, target: Target) -> None:
    label = source.selection.label
    if target.kind == "vector" and facts.dims[label.name] != target.shape:
        raise DataError(
            f"label {label.name!r} has arrays of {facts.dims[label.name][0]} numbers, "
            f"but the training label {target.source!r} has {target.shape[0]}"
        )
    if target.kind != "class":
        return
    cast = array_of(label)
    unseen = database.rows(
        source.query("unseen_labels", label=label.sql(), cast=cast),
        classes=list(target.classes), most=_SHOWN_LABELS + 1,
    )
    if unseen:
        shown = ", ".join(repr(row["label"]) for row in unseen[:_SHOWN_LABELS])
        more = " and more" if len(unseen) > _SHOWN_LABELS else ""
        raise DataError(
            f"label {label.name!r} of table {source.table} has values that the training rows lack: "
            f"{shown}{more}; remove these rows, or pack the training table with rows of every class"
        )


def _required_dtype(database: Database, source: Source, facts: Facts, item: Input, column: Column) -> str:
    if item.kind != "array":
        return item.dtype
    dims = facts.dims[column.name]
    shape = check_shape(column, prod(dims), dims)
    flat = column.shape is None and len(dims) == 1 and dims[0] == prod(item.shape)
    if shape != item.shape and not flat:
        raise DataError(
            f"column {column.name!r} of table {source.table} has the shape {list(shape)}, but the training "
            f"column {item.sources[0]!r} has {list(item.shape)}"
        )
    return _dtype(database, source, facts, column)
