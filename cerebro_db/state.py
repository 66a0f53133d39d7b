"""What hops: a config's weights, optimizer, schedule, random numbers and counters, as safetensors.

Two safetensors blobs, so that the outputs can keep weights and the rest apart in SQL alone:

    weights  every entry of module.state_dict()
    rest     "optimizer/<parameter>/<key>" tensors, "rng" uint8 (torch's CPU generator),
             "meta" uint8: JSON with the optimizer's scalars, the schedule and the counters

Nothing is pickled. A run interrupted by hops equals one that is not, bit for bit, on the CPU. For configs trained as
one this holds while the same ones stay together.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from typing import Any, Dict, Iterator, Mapping, Optional, Tuple

import torch
from safetensors.torch import load, save
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

#: A bytea value ends at 1 GB; chunks stay far below it.
CHUNK_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class Blobs:
    """A state at rest."""

    weights: bytes
    rest: bytes

    @property
    def size(self) -> int:
        """Bytes that hop."""
        return len(self.weights) + len(self.rest)

    def chunks(self) -> Iterator[Tuple[str, int, bytes]]:
        """(part, number, bytes) in the order they are stored."""
        for part, blob in (("weights", self.weights), ("rest", self.rest)):
            for number, start in enumerate(range(0, len(blob), CHUNK_BYTES)):
                yield part, number, blob[start : start + CHUNK_BYTES]


@dataclass
class Trainee:
    """A config in memory: everything that a hop changes."""

    module: nn.Module
    optimizer: Optimizer
    schedule: Optional[LRScheduler] = None
    #: Optimizer steps and rows since the start.
    steps: int = 0
    rows: int = 0

    def dump(self) -> Blobs:
        """The state as it is now, with torch's CPU random numbers."""
        return Blobs(save(_contiguous(self.module.state_dict())), save(self._rest()))

    def load(self, blobs: Blobs) -> None:
        """Put a state into this module and optimizer, and torch's CPU random numbers back."""
        load_weights(self.module, blobs.weights)
        tensors = load(blobs.rest)
        meta = json.loads(bytes(tensors.pop("meta").numpy()))
        torch.set_rng_state(tensors.pop("rng").clone())
        self.optimizer.load_state_dict(_optimizer_state(meta["optimizer"], tensors))
        if self.schedule is not None and meta["schedule"] is not None:
            self.schedule.load_state_dict(meta["schedule"])
        self.steps, self.rows = meta["steps"], meta["rows"]

    def _rest(self) -> Dict[str, Tensor]:
        state = self.optimizer.state_dict()
        tensors, scalars = _split(state["state"])
        meta = {
            "optimizer": {"groups": state["param_groups"], "scalars": scalars},
            "schedule": None if self.schedule is None else _plain(self.schedule.state_dict()),
            "steps": self.steps,
            "rows": self.rows,
        }
        text = bytearray(json.dumps(meta, sort_keys=True).encode())
        return {**tensors, "rng": torch.get_rng_state(), "meta": torch.frombuffer(text, dtype=torch.uint8)}


def load_weights(module: nn.Module, blob: bytes) -> None:
    """Put stored weights into a module; names and shapes must agree."""
    module.load_state_dict(load(blob))


def _contiguous(tensors: Mapping[str, Tensor]) -> Dict[str, Tensor]:
    """The tensors themselves, as far as they can be stored so."""
    found, seen = {}, set()
    for name, tensor in tensors.items():
        found[name] = tensor.detach().contiguous()
        place = found[name].untyped_storage().data_ptr()
        if place in seen:  # safetensors refuses tensors that share memory, as tied weights do: each is stored whole
            found[name] = found[name].clone()
        seen.add(place)
    return found


def _split(state: Dict[int, Dict[str, Any]]) -> Tuple[Dict[str, Tensor], Dict[str, Any]]:
    """An optimizer's per-parameter state as named tensors and JSON scalars."""
    tensors, scalars = {}, {}
    for parameter, entries in state.items():
        for key, value in entries.items():
            name = f"optimizer/{parameter}/{key}"
            if isinstance(value, Tensor):
                tensors[name] = value
            else:
                scalars[name] = value
    return _contiguous(tensors), scalars


def _optimizer_state(meta: Dict[str, Any], tensors: Dict[str, Tensor]) -> Dict[str, Any]:
    state: Dict[int, Dict[str, Any]] = {}
    # Copies of their own, one after the other: loaded tensors lie at any alignment.
    copies = ((name, tensors.pop(name).clone()) for name in list(tensors))
    for name, value in itertools.chain(copies, meta["scalars"].items()):
        _, parameter, key = name.split("/", 2)
        state.setdefault(int(parameter), {})[key] = value
    return {"state": state, "param_groups": meta["groups"]}


def _plain(state: Dict[str, Any]) -> Dict[str, Any]:
    """A schedule's state without what cannot be JSON; its rule is rebuilt from the config."""
    return {
        key: value for key, value in state.items() if isinstance(value, (int, float, str, list, type(None)))
    }
