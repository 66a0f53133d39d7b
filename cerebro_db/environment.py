"""Facts about this machine that more than one layer needs: the home folder, the interpreter."""

from __future__ import annotations

import os
import re
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import Dict, List, Optional

from cerebro_db.errors import SetupError


def home() -> Path:
    """Where the embedded server and the virtual environment live: $CEREBRO_HOME, or a default per user."""
    if os.environ.get("CEREBRO_HOME"):
        return Path(os.environ["CEREBRO_HOME"]).expanduser().absolute()
    if os.geteuid() == 0:
        return Path("/var/lib/cerebro-db")
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "cerebro-db"


def exports() -> Path:
    """Where strategy `export` writes: $CEREBRO_EXPORTS, or a folder of the home folder."""
    named = os.environ.get("CEREBRO_EXPORTS")
    return Path(named).expanduser().absolute() if named else home() / "exports"


def embedded_dsn(where: Optional[Path] = None) -> Optional[str]:
    """The DSN of the embedded server when it is up, else None."""
    folder = where or home()
    recorded = folder / "dsn"
    try:
        up = (folder / "data" / "postmaster.pid").exists()
        return recorded.read_text("utf-8").strip() if up else None
    except OSError:
        return None


def interpreter() -> str:
    """Minor version of the running interpreter, such as `3.11`."""
    return f"{sys.version_info[0]}.{sys.version_info[1]}"


def linked_python(library: Path) -> Optional[str]:
    """Minor version of the libpython that a `plpython3.so` is linked with; None when it names none."""
    found = re.search(rb"libpython(3\.\d+)", library.read_bytes())
    return found.group(1).decode() if found else None


def memory_bytes() -> int:
    """Memory that this machine, or the container it is, may use [bytes]."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            total = min(total, int(Path(limit).read_text("ascii")))
        except (OSError, ValueError):
            continue  # no such file, or "max": no limit
    return total


def available_bytes() -> int:
    """Memory that programs can still take without swapping [bytes]."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text("ascii"), re.MULTILINE)
    if found is None:
        raise OSError("/proc/meminfo has no line MemAvailable")
    return int(found.group(1)) << 10


def cores() -> int:
    """CPUs that this process may run on."""
    return len(os.sched_getaffinity(0))


def gpus() -> List[str]:
    """NVIDIA GPUs by their driver's listing, or the bare tool; never starts CUDA."""
    listed = Path("/proc/driver/nvidia/gpus")
    models = [_gpu_model(gpu / "information") for gpu in sorted(listed.iterdir())] if listed.is_dir() else []
    if not models and shutil.which("nvidia-smi"):
        return ["unknown model (nvidia-smi is present)"]
    return models


def _gpu_model(information: Path) -> str:
    found = re.search(r"^Model:\s+(.+)$", information.read_text("utf-8"), re.MULTILINE)
    return found.group(1) if found else information.parent.name


def is_embedded() -> bool:
    """Whether Python runs inside another program, such as a database backend."""
    try:
        return not os.path.samefile("/proc/self/exe", sys.executable)
    except OSError:  # no such file as sys.executable, or a system without /proc
        return os.path.exists("/proc/self/exe")


def child_interpreter() -> str:
    """An interpreter that imports what this process imports, given `child_environment`. Raises SetupError."""
    if not is_embedded():
        return sys.executable
    name = f"python{interpreter()}"
    folders = dict.fromkeys([os.path.join(sys.base_exec_prefix, "bin"), sysconfig.get_config_var("BINDIR")])
    for folder in folders:
        if folder and os.access(os.path.join(folder, name), os.X_OK):
            return os.path.join(folder, name)
    raise SetupError(
        f"no interpreter {name} in {' or '.join(filter(None, folders))}, which worker processes need: install the "
        f"package {name}, or take strategy in_rdbms, which needs none"
    )


def child_environment() -> Dict[str, str]:
    """Environment in which a child process finds the packages of this one and shares cores well."""
    folders = [os.path.abspath(folder) for folder in sys.path]
    own = {"PYTHONPATH": os.pathsep.join(dict.fromkeys(folders))}
    if sys.flags.no_user_site:
        own["PYTHONNOUSERSITE"] = "1"
    # Threads of OpenMP spin while they wait for one another, which holds up all where cores are shared.
    return {"OMP_WAIT_POLICY": "passive", **os.environ, **own}
