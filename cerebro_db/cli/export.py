"""The command export: a packed table as one file for other tools."""

from __future__ import annotations

import importlib
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Iterator, Optional

import numpy as np
import typer

from cerebro_db.cli.output import Dsn, Json, notice, print_json
from cerebro_db.client import connect
from cerebro_db.errors import ExistsError, SetupError, unknown
from cerebro_db.layout import Layout
from cerebro_db.packed import Packed, read_packed

#: What is read and not yet written [bytes].
AHEAD_BYTES = 16_000_000
FORMATS = (".arrow", ".parquet")


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command()(export)


def export(
    table: Annotated[str, typer.Argument(help="Packed table.")],
    file: Annotated[Path, typer.Argument(help=f"File to make; its end says the format: {' or '.join(FORMATS)}.")],
    segment: Annotated[Optional[int], typer.Option(help="One segment; default: all rows.")] = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Write the rows of a packed table to an Arrow (Feather) or Parquet file, shuffled as they are stored."""
    if file.suffix not in FORMATS:
        raise unknown("format of a file", file.suffix, FORMATS)
    arrow = _arrow()
    if file.exists():
        raise ExistsError(f"file {str(file)!r} exists; remove it or name another")
    with connect(dsn, on_notice=notice) as database:
        packed = read_packed(database, table, "table")
        schema = _schema(arrow, packed.layout)
        buffers = _buffers(database, partial(connect, dsn), packed, segment)
        rows = _write(arrow, file, schema, (_batch(arrow, schema, packed.layout, buffer) for buffer in buffers))
    if json:
        print_json({"file": file, "rows": rows})
    else:
        typer.echo(f"{rows:,} rows of {packed.table} are in {file}")


def _arrow() -> Any:
    try:
        importlib.import_module("pyarrow.parquet")
        return importlib.import_module("pyarrow")
    except ImportError as error:
        raise SetupError(f"{error}; install it by: pip install 'cerebro-db[arrow]'") from None


def _buffers(database: Any, connected: Any, packed: Packed, segment: Optional[int]) -> Iterator[Any]:
    from cerebro_db.copy_source import CopySource  # torch comes with it

    columns = packed.layout.names
    keys = {each.segment_id: each.dist_key for each in packed.segments}
    if segment is not None and segment not in keys:
        raise unknown("segment with rows", str(segment), map(str, keys))
    key = None if segment is None else keys[segment]
    source = CopySource(database, connected, columns, packed.table, key, AHEAD_BYTES)
    try:
        yield from source.read(None)
    finally:
        source.close()


def _schema(arrow: Any, layout: Layout) -> Any:
    """A column per input and for the label; tensors keep their shape, labels their texts."""
    kinds = []
    for column in layout.columns:
        kind = arrow.from_numpy_dtype(np.dtype(column.dtype).newbyteorder("="))
        if column.shape:
            kind = arrow.fixed_shape_tensor(kind, column.shape)
        elif column is layout.target and layout.target.classes:
            kind = arrow.dictionary(arrow.int32(), arrow.string())
        kinds.append(arrow.field(column.column, kind))
    return arrow.schema(kinds, metadata={"cerebro.layout": layout.to_json()})


def _batch(arrow: Any, schema: Any, layout: Layout, buffer: Any) -> Any:
    columns = []
    for field, column in zip(schema, layout.columns):
        data = np.frombuffer(buffer[column.column], column.dtype)
        data = data.astype(data.dtype.newbyteorder("="), copy=False).reshape((-1, *column.shape))
        if column.shape:
            columns.append(arrow.FixedShapeTensorArray.from_numpy_ndarray(np.ascontiguousarray(data)).cast(field.type))
        elif arrow.types.is_dictionary(field.type):
            texts = arrow.array(list(layout.target.classes), arrow.string())
            columns.append(arrow.DictionaryArray.from_arrays(arrow.array(data), texts))
        else:
            columns.append(arrow.array(data))
    return arrow.record_batch(columns, schema=schema)


def _write(arrow: Any, file: Path, schema: Any, batches: Iterator[Any]) -> int:
    """Under another name until it is whole; gives the rows."""
    partial_file = file.with_name(file.name + ".partial")
    opened = arrow.parquet.ParquetWriter if file.suffix == ".parquet" else arrow.ipc.new_file
    rows = 0
    try:
        with opened(str(partial_file), schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
                rows += batch.num_rows
        partial_file.rename(file)
    except OSError as error:
        raise SetupError(
            f"file {str(file)!r} cannot be written: {error.strerror or error}; name another place"
        ) from error
    finally:
        partial_file.unlink(missing_ok=True)
    return rows
