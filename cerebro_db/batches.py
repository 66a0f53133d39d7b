"""From packed buffers to training batches, in an order that every strategy shares.

Order of an epoch on a segment: the segment's buffers are permuted, consecutive ones form windows of
about `window_mb`, and rows are permuted inside each window. A batch may span buffers and windows; the
last short batch is used. The permutations depend on (seed, epoch, segment) only, so all configs see a
segment in the same order in the same epoch, and cached and streamed rows come out the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Iterable, Iterator, List, Mapping, Optional, Protocol, Sequence, Tuple, Union

import numpy as np
import torch
from torch import Tensor

from cerebro_db.layout import Input, Layout, Target

#: One batch: a tensor per input ([rows, *shape]), and the target.
Batch = Tuple[Tuple[Tensor, ...], Tensor]
#: A buffer as stored: column name -> bytes, for every input and the target.
Buffer = Mapping[str, Union[bytes, memoryview]]
#: Positions of the buffers of a window, and a permutation of its rows.
Window = Tuple[List[int], np.ndarray]


class Source(Protocol):
    """One segment's buffers. Used from one thread; the bytes belong to the caller."""

    @property
    def rows(self) -> Sequence[int]:
        """Rows of each buffer, in order of buffer_id."""

    def read(self, numbers: Optional[Sequence[int]]) -> Iterator[Buffer]:
        """Buffers of these positions in that order; None means all, in order of buffer_id."""


@dataclass
class Columns:
    """Decoded rows in their stored types: one tensor per input, and the target."""

    inputs: Tuple[Tensor, ...]
    target: Tensor

    @property
    def rows(self) -> int:
        return int(self.target.shape[0])

    def take(self, index: Tensor) -> Columns:
        """The rows of an int64 index, in its order."""
        return Columns(
            tuple(x.index_select(0, index) for x in self.inputs), self.target.index_select(0, index)
        )


def window_plan(
    buffer_rows: Sequence[int], key: Tuple[int, int, int], window_rows: int
) -> List[Window]:
    """Windows of an epoch: ([buffer positions], permutation of the window's rows).

    `key` is (seed, epoch, segment). NumPy promises that RandomState's stream never changes, which
    it does not for its newer generators, so a run resumed after an upgrade goes on with the same order.
    """
    rng = np.random.RandomState(list(key))
    windows: List[List[int]] = []
    room = 0
    for position in rng.permutation(len(buffer_rows)):
        if not windows or buffer_rows[position] > room:
            windows.append([])
            room = window_rows
        windows[-1].append(int(position))
        room -= buffer_rows[position]
    return [(window, rng.permutation(sum(buffer_rows[b] for b in window))) for window in windows]


class SegmentRows:
    """A segment's rows as batches: decoded once and kept when they fit, else read in windows.

    They come from the source when they are needed; or, where a source cannot be read, what comes by itself
    is put together by `gathering` and given to `keep`, or window by window to `Windows`.
    """

    def __init__(self, source: Source, layout: Layout, cache_bytes: int, window_bytes: int) -> None:
        self._source = source
        self._decode = Decoder(layout)
        self._fits = sum(source.rows) * self._decode.row_bytes <= cache_bytes
        self._window_rows = max(1, window_bytes // max(1, self._decode.row_bytes))
        self._cached: Optional[Columns] = None

    @property
    def rows(self) -> int:
        return sum(self._source.rows)

    @property
    def fits(self) -> bool:
        """Whether the rows are kept."""
        return self._fits

    @property
    def cached_bytes(self) -> int:
        """Memory that the kept rows take [bytes]."""
        return self.rows * self._decode.row_bytes if self._fits else 0

    def warm(self) -> None:
        """Read and decode now what will be kept."""
        if self._fits and self._cached is None:
            numbers = range(len(self._source.rows))
            self.keep(self.gathering(numbers).filled(self._source.read(None)))

    def gathering(self, numbers: Sequence[int]) -> Gathering:
        """What puts together the buffers of these positions, in that order."""
        return Gathering(self._decode, [self._source.rows[number] for number in numbers])

    def keep(self, columns: Columns) -> None:
        """Keep all the rows, in order of buffer_id."""
        self._cached = columns

    def plan(self, key: Tuple[int, int, int]) -> List[Window]:
        """The windows of the epoch `key` = (seed, epoch, segment)."""
        return window_plan(self._source.rows, key, self._window_rows)

    def epoch(self, key: Tuple[int, int, int], batch_rows: int) -> Iterator[Batch]:
        """All rows once in the order of `key` = (seed, epoch, segment)."""
        return self._batches(self.plan(key), batch_rows)

    def in_order(self, batch_rows: int) -> Iterator[Batch]:
        """All rows once as stored, for evaluation."""
        return self._batches([([number], np.arange(rows)) for number, rows in enumerate(self._source.rows)], batch_rows)

    def windows(self, batch_rows: int) -> Windows:
        """What makes the batches of an epoch of windows that come one after the other."""
        return Windows(self._decode, batch_rows)

    def _batches(self, plan: Sequence[Window], batch_rows: int) -> Iterator[Batch]:
        self.warm()
        if self._cached:
            return map(self._decode.batch, self._from_cache(plan, batch_rows))
        return self._from_source(plan, batch_rows)

    def _from_cache(self, plan: Sequence[Window], batch_rows: int) -> Iterator[Columns]:
        assert self._cached is not None
        starts = np.concatenate([[0], np.cumsum(self._source.rows)])
        rows = [np.arange(starts[b], starts[b + 1]) for b in range(len(self._source.rows))]
        index = [np.concatenate([rows[b] for b in window])[order] for window, order in plan]
        if not index:
            return
        whole = torch.from_numpy(np.concatenate(index))
        for start in range(0, len(whole), batch_rows):
            yield self._cached.take(whole[start : start + batch_rows])

    def _from_source(self, plan: Sequence[Window], batch_rows: int) -> Iterator[Batch]:
        windows = self.windows(batch_rows)
        # One read for all windows, so that a source can be ahead of the training.
        buffers = self._source.read([b for window, _ in plan for b in window])
        for window, order in plan:
            yield from windows.batches(self.gathering(window).filled(islice(buffers, len(window))), order)
        yield from windows.rest()


class Windows:
    """The batches of an epoch whose windows come one after the other; rows left over wait for the next window."""

    def __init__(self, decode: Decoder, batch_rows: int) -> None:
        self._decode = decode
        self._batch_rows = batch_rows
        self._left: Optional[Columns] = None

    def batches(self, columns: Columns, order: np.ndarray) -> Iterator[Batch]:
        """The whole batches up to the end of this window."""
        columns = columns.take(torch.from_numpy(order))
        columns = columns if self._left is None else _joined(self._left, columns)
        whole = columns.rows - columns.rows % self._batch_rows
        for start in range(0, whole, self._batch_rows):
            yield self._decode.batch(_slice(columns, start, start + self._batch_rows))
        self._left = _slice(columns, whole, columns.rows) if whole < columns.rows else None

    def rest(self) -> Iterator[Batch]:
        """The last, short batch, if there is one."""
        if self._left is not None:
            yield self._decode.batch(self._left)


class Gathering:
    """Decoded rows put together of buffers that may come in any order, without a second copy."""

    def __init__(self, decode: Decoder, sizes: Sequence[int]) -> None:
        self._decode = decode
        self._starts = [0, *accumulate(sizes)]
        self._missing = len(sizes)
        self._arrays = decode.room(self._starts[-1])

    @property
    def complete(self) -> bool:
        return not self._missing

    def put(self, place: int, buffer: Buffer) -> None:
        """Decode the buffer of this place; each place once."""
        if self.complete:
            raise ValueError("there are more buffers than at first: the packed table changed during the run")
        self._decode.into([array[self._starts[place] : self._starts[place + 1]] for array in self._arrays], buffer)
        self._missing -= 1

    def filled(self, buffers: Iterable[Buffer]) -> Columns:
        """All of them, from buffers that come in order."""
        for place, buffer in enumerate(buffers):
            self.put(place, buffer)
        return self.columns()

    def columns(self) -> Columns:
        if self._missing:
            raise ValueError(f"{self._missing} buffers are gone: the packed table changed during the run")
        tensors = [torch.from_numpy(array) for array in self._arrays]
        return Columns(tuple(tensors[:-1]), tensors[-1])


class Decoder:
    """Bytes of buffers to tensors in stored types, and those to what a module and a loss take."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._columns: Tuple[Tuple[str, np.dtype, Tuple[int, ...]], ...] = tuple(
            (column.column, np.dtype(column.dtype), column.shape) for column in layout.columns
        )
        #: Bytes of one row, inputs and target.
        self.row_bytes = layout.row_bytes

    def room(self, rows: int) -> List[np.ndarray]:
        """Empty arrays for so many rows, one per column."""
        return [np.empty((rows, *shape), dtype.newbyteorder("=")) for _, dtype, shape in self._columns]

    def into(self, arrays: Sequence[np.ndarray], buffer: Buffer) -> None:
        """Decode a buffer into its part of such arrays."""
        for array, (column, dtype, shape) in zip(arrays, self._columns):
            piece = np.frombuffer(buffer[column], dtype).reshape((-1, *shape))
            if len(piece) != len(array):
                raise ValueError(
                    f"a buffer holds {len(piece)} rows, expected {len(array)}: the packed table changed during the run"
                )
            array[:] = piece

    def batch(self, columns: Columns) -> Batch:
        """Stored types to float32 inputs and int64 codes; array inputs divided by the constant."""
        inputs = tuple(self.input(x, spec) for x, spec in zip(columns.inputs, self._layout.inputs))
        return inputs, as_target(columns.target, self._layout.target)

    def input(self, x: Tensor, spec: Input) -> Tensor:
        if spec.kind == "categorical":
            return x.to(torch.int64)
        x = x.to(torch.float32)
        constant = self._layout.normalizing_const
        # In place: the rows of a batch are a copy of its own.
        return x if spec.kind != "array" or constant == 1.0 else x.div_(constant)


def as_target(y: Tensor, target: Target) -> Tensor:
    """Class codes as int64 [rows]; values as float32 [rows], vectors as float32 [rows, n]."""
    return y.to(torch.int64) if target.kind == "class" else y.to(torch.float32)


def _slice(columns: Columns, start: int, stop: int) -> Columns:
    # A copy of its own, as aligned as a row selection: some kernels round by alignment.
    return Columns(tuple(x[start:stop].clone() for x in columns.inputs), columns.target[start:stop].clone())


def _joined(first: Columns, second: Columns) -> Columns:
    inputs = tuple(torch.cat(pair) for pair in zip(first.inputs, second.inputs))
    return Columns(inputs, torch.cat([first.target, second.target]))
