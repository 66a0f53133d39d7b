"""What stored weights hold, read from their safetensors header alone: no tensor is loaded.

A safetensors blob is a little-endian u64 header length, a JSON header name -> {dtype, shape, data_offsets},
and the data (the format's own description; the reading of tensors is left to its library).
"""

from __future__ import annotations

import json
import struct
from typing import Dict, List, Mapping, Sequence

from cerebro_db.errors import UsageError

Shapes = Dict[str, List[int]]


def shapes(blob: bytes, what: str) -> Shapes:
    """Tensor name -> shape; UsageError when the bytes are no safetensors blob."""
    try:
        (length,) = struct.unpack_from("<Q", blob)
        header = json.loads(blob[8 : 8 + length])
        return {name: list(entry["shape"]) for name, entry in header.items() if name != "__metadata__"}
    except (struct.error, ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(
            f"{what} are {len(blob)} bytes that are no safetensors, which weights must be; save them by "
            "safetensors.torch.save(module.state_dict())"
        ) from None


def require_fit(given: Mapping[str, Sequence[int]], wanted: Mapping[str, Sequence[int]], what: str) -> None:
    """UsageError unless both have the same tensors of the same shapes; names the first that differ."""
    odd = sorted(set(given) ^ set(wanted))
    if odd:
        where = "the weights lack" if odd[0] in wanted else "the architecture lacks"
        raise UsageError(f"{what} do not fit the architecture: {where} {odd[0]!r}; load weights of this very model")
    for name, shape in wanted.items():
        if list(given[name]) != list(shape):
            raise UsageError(
                f"{what} do not fit the architecture: {name!r} has shape {list(given[name])}, expected {list(shape)}"
            )
