"""What this machine and its interpreter have and lack, one item each with its remedy; asks no database.

Imports nothing heavy: torch starts threads and CUDA, so versions are read from package metadata.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Iterator, Optional, Tuple

from cerebro_db import __version__
from cerebro_db.environment import available_bytes, cores, gpus, interpreter

#: Below these a run is likely to fail; a training session takes about 400 MB with torch loaded [bytes].
LEAST_MEMORY = 1 << 30
LEAST_DISK = 1 << 30

#: Import name and distribution names of what training needs, and of what a coordinator needs beside it.
TRAINING = (
    ("torch", ("torch",)),
    ("numpy", ("numpy",)),
    ("safetensors", ("safetensors",)),
)
COORDINATING = (*TRAINING, ("psycopg2", ("psycopg2-binary", "psycopg2")))
Packages = Tuple[Tuple[str, Tuple[str, ...]], ...]


@dataclass(frozen=True)
class Item:
    """One fact about the server; `remedy` is empty when nothing is to do."""

    item: str
    value: str
    ok: bool = True
    remedy: str = ""


def machine() -> Iterator[Item]:
    """Name, processors and free memory."""
    yield Item("host", platform.node())
    yield Item("cpus", str(cores()))
    free = available_bytes()
    remedy = "free memory, or train with fewer segments or a smaller cache_mb"
    yield _least("free memory", free, LEAST_MEMORY, remedy)


def disk() -> Iterator[Item]:
    """Free space where a backend works, which is the data directory: a plain role may not ask for its name."""
    free = shutil.disk_usage(os.getcwd()).free
    yield _least("free disk", free, LEAST_DISK, "free space on the disk of the data directory")


def graphics() -> Iterator[Item]:
    present = gpus()
    cpu_build = "+cpu" in (_version(("torch",)) or "")
    remedy = "torch is a CPU build; install a CUDA build to use the GPUs" if present and cpu_build else ""
    yield Item("gpus", ", ".join(present) or "none", True, remedy)


def package() -> Item:
    """This package: its version and where it is."""
    return Item("cerebro_db", f"{__version__} in {_here()}")


def python(packages: Packages = COORDINATING) -> Iterator[Item]:
    """The interpreter and the packages, each by its version."""
    yield Item("interpreter", f"{platform.python_version()}, prefix {sys.prefix}")
    for name, distributions in packages:
        yield _package(name, distributions)


def libpython() -> Item:
    """The interpreter that plpython3u embeds must be the one that the compiled packages are for."""
    spec = importlib.util.find_spec("numpy")
    found = re.search(r"/python(3\.\d+)/", spec.origin or "") if spec else None
    packages = found.group(1) if found else interpreter()
    remedy = f"make the virtual environment with /usr/bin/python{interpreter()}"
    same = packages == interpreter()
    return Item("libpython", f"{interpreter()}, packages for {packages}", same, "" if same else remedy)


def _package(name: str, distributions: Tuple[str, ...]) -> Item:
    version = _version(distributions)
    spec = importlib.util.find_spec(name)
    if spec is None or version is None:
        return Item(name, "missing", False, f"pip install {distributions[0]} where cerebro_db is: {_here()}")
    return Item(name, f"{version} in {Path(spec.origin or '').parent.parent}")


def _here() -> Path:
    return Path(__file__).resolve().parents[1]


def _least(name: str, size: int, least: int, remedy: str) -> Item:
    enough = size >= least
    return Item(name, f"{size / (1 << 30):.1f} GiB", enough, "" if enough else remedy)


def _version(distributions: Tuple[str, ...]) -> Optional[str]:
    for name in distributions:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None
