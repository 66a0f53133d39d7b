"""The map in ARCHITECTURE.md is the rule: modules import downwards only, and stay within their means."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import Dict, Iterator, List, Set, Tuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "cerebro_db"
FILES = sorted(PACKAGE.rglob("*.py"))

#: Modules of the client's side: newer Python, any dependency.
CLIENT = {"settings", "install", "postgres", "cluster", "datasets", "report", "api", "cli"}
#: What the server half may import beside the standard library.
SERVER_PACKAGES = {"cerebro_db", "numpy", "torch", "safetensors"}
#: Modules of the server half that speak to a server over a connection.
CONNECTED = {"client", "sessions", "loopback", "client_sessions", "strategies", "worker", "calls"}

BANNED_IMPORTS = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
BANNED_CALLS = {"eval", "exec", "print", "compile", "torch.load", "torch.save"}


def layer_map() -> Dict[str, int]:
    """Module -> its place in the table, counted from the top; names on one line count left to right."""
    lines = re.findall(r"^\| *\d+ *\|([^|]+)\|", (ROOT / "ARCHITECTURE.md").read_text("utf-8"), re.MULTILINE)
    names = [name for line in lines for name in re.findall(r"`(\w+)`", line)]
    assert len(names) == len(set(names))
    return {name: place for place, name in enumerate(names)}


def module_of(file: Path) -> str:
    """`cerebro_db/server/check.py` belongs to `server`."""
    first = file.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"), str(file))


def imports(tree: ast.AST) -> Iterator[str]:
    """Dotted names that are imported; `from cerebro_db import errors` gives `cerebro_db.errors`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in line {node.lineno}; write the full name"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from names if node.module == "cerebro_db" else [str(node.module)]


def own_imports(file: Path) -> Set[str]:
    """Modules of the map that a file imports, without its own."""
    places = layer_map()
    parts = [name.split(".") for name in imports(tree_of(file))]
    found = {part[1] for part in parts if part[0] == "cerebro_db" and len(part) > 1 and part[1] in places}
    return found - {module_of(file)}


def server_half() -> List[Path]:
    return [file for file in FILES if module_of(file) not in CLIENT]


def named(file: Path) -> str:
    return str(file.relative_to(PACKAGE))


def test_the_map_and_the_folder_hold_the_same_modules() -> None:
    assert {module_of(file) for file in FILES} - {"__init__"} == set(layer_map())


@pytest.mark.parametrize("file", FILES, ids=named)
def test_imports_go_downwards(file: Path) -> None:
    places = layer_map()
    own = places.get(module_of(file), -1)
    assert sorted(name for name in own_imports(file) if places[name] >= own) == []


@pytest.mark.parametrize("file", FILES, ids=named)
def test_only_sql_enters_the_server_folder(file: Path) -> None:
    assert "server" not in own_imports(file)


@pytest.mark.parametrize("file", server_half(), ids=named)
def test_the_server_half_is_python_3_9(file: Path) -> None:
    ast.parse(file.read_text("utf-8"), str(file), feature_version=(3, 9))


@pytest.mark.parametrize("file", server_half(), ids=named)
def test_the_server_half_needs_torch_numpy_and_safetensors_only(file: Path) -> None:
    allowed = SERVER_PACKAGES | ({"psycopg2"} if module_of(file) in CONNECTED else set())
    packages = {name.split(".")[0] for name in imports(tree_of(file))}
    assert packages - allowed - set(sys.stdlib_module_names) == set()


def banned(tree: ast.AST) -> Iterator[Tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called in BANNED_CALLS or called.endswith(".eval"):
                yield node.lineno, called
            if any(word.arg == "allow_pickle" for word in node.keywords):
                yield node.lineno, "allow_pickle"
        elif isinstance(node, ast.ExceptHandler) and is_blind(node):
            yield node.lineno, "blind except"


def is_blind(handler: ast.ExceptHandler) -> bool:
    caught = ast.unparse(handler.type) if handler.type else "BaseException"
    raises = any(isinstance(node, ast.Raise) for node in ast.walk(handler))
    return caught in ("Exception", "BaseException") and not raises


@pytest.mark.parametrize("file", FILES, ids=named)
def test_nothing_unsafe_is_called(file: Path) -> None:
    tree = tree_of(file)
    packages = {name.split(".")[0] for name in imports(tree)}
    assert packages & BANNED_IMPORTS == set()
    assert list(banned(tree)) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("eval('1')", "eval"),
        ("model.eval()", "model.eval"),
        ("torch.load(f)", "torch.load"),
        ("np.load(f, allow_pickle=True)", "allow_pickle"),
        ("try: pass\nexcept Exception: pass", "blind except"),
        ("try: pass\nexcept: pass", "blind except"),
    ],
)
def test_the_rule_itself_finds(source: str, found: str) -> None:
    assert [what for _, what in banned(ast.parse(source))] == [found]


@pytest.mark.parametrize("file", sorted((ROOT / "tests").rglob("*.py")), ids=lambda file: file.name)
def test_tests_never_sleep(file: Path) -> None:
    calls = [ast.unparse(node.func) for node in ast.walk(tree_of(file)) if isinstance(node, ast.Call)]
    assert [call for call in calls if call in ("time.sleep", "sleep")] == []
