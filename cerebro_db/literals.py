"""Text that users write -> plain values: MADlib strings, JSON and Python literals, never evaluated.

    loss='mse', optimizer='Adam(lr=0.001)'      key=value pairs
    {"loss": "mse", "lr": 0.001}                a JSON object
    {'lr': [0.001, 0.1, 'log']}                 a Python dict of literals

Only strings, numbers, True, False, None, lists, tuples (read as lists) and dicts are values.
"""

from __future__ import annotations

import ast
import json
from typing import Any, Dict, Iterable, List, Mapping, NoReturn, Optional, Tuple

from cerebro_db.errors import UsageError

#: Keys whose value may be an unquoted name or call, as MADlib's users write `optimizer=SGD(lr=0.1)`.
_CALLS = ("optimizer", "lr_schedule")
#: Longer text is no parameter string; the limit bounds what the parser does in a backend.
_MAX_CHARACTERS = 1_000_000
#: What Python's and JSON's parsers raise for text that is malformed, or nested too deep.
_MALFORMED = (SyntaxError, ValueError, RecursionError, MemoryError)


def mapping(text: Optional[str], what: str) -> Dict[str, Any]:
    """`key=value` pairs, a JSON object or a Python dict, as a dict; every key at most once."""
    checked = _present(text, what)
    if not checked.lstrip().startswith("{"):
        return _keywords(_expression(f"f({checked}\n)", checked, what), checked, what)
    try:
        value = _json(checked, what)
    except _MALFORMED:  # then it must be Python
        value = _literal(_expression(checked.strip(), checked, what), what)
    if not isinstance(value, dict):
        raise UsageError(f"{what} {_short(checked)} is no dict, expected key=value pairs or a dict")
    return value


def json_object(text: Optional[str], what: str) -> Dict[str, Any]:
    """A JSON object as a dict; every key at most once, no NaN."""
    checked = _present(text, what)
    try:
        value = _json(checked, what)
    except _MALFORMED as error:
        raise UsageError(f"{what} {_short(checked)} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise UsageError(f"{what} {_short(checked)} is not a JSON object, expected {{...}}")
    return value


def call(text: str, what: str) -> Tuple[str, Dict[str, Any]]:
    """`name` or `name(key=value, ...)` as the name and its arguments."""
    node = _expression(_present(text, what).strip(), text, what)
    if isinstance(node, ast.Name):
        return node.id, {}
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
        raise UsageError(f"{what} {_short(text)} is no name or call, expected for example 'adam(lr=0.001)'")
    return node.func.id, _keywords(node, text, what)


def _present(text: Optional[str], what: str) -> str:
    if text is None:
        raise UsageError(f"{what} is NULL, expected text such as key=value, or a JSON object")
    if not isinstance(text, str):
        raise UsageError(f"{what} is {text!r}, expected text")
    if len(text) > _MAX_CHARACTERS:
        raise UsageError(f"{what} has {len(text)} characters, expected at most {_MAX_CHARACTERS}")
    return text


def _json(text: str, what: str) -> Any:
    def unique(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
        return _unique(pairs, what)

    def constant(name: str) -> NoReturn:
        raise UsageError(f"{what} {_short(text)} holds {name}, expected finite numbers")

    return json.loads(text, object_pairs_hook=unique, parse_constant=constant)


def _unique(pairs: Iterable[Tuple[Any, Any]], what: str) -> Dict[str, Any]:
    found: Dict[str, Any] = {}
    for key, value in pairs:
        if not isinstance(key, str):
            raise UsageError(f"{what} has the key {key!r}, expected text")
        if key in found:
            raise UsageError(f"{what} has the key {key!r} twice; keep one of them")
        found[key] = value
    return found


def _expression(source: str, text: str, what: str) -> ast.expr:
    try:
        return ast.parse(source, mode="eval").body
    except _MALFORMED as error:
        reason = getattr(error, "msg", None) or str(error) or type(error).__name__
        raise UsageError(
            f"{what} {_short(text)} cannot be read ({reason}), expected key=value pairs or a JSON object; "
            "check quotes and parentheses"
        ) from error


def _keywords(node: ast.expr, text: str, what: str) -> Dict[str, Any]:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
        raise UsageError(f"{what} {_short(text)} has unbalanced parentheses, expected key=value pairs")
    if node.args:
        shown = _short(ast.unparse(node.args[0]))
        raise UsageError(f"{what} {_short(text)} has the value {shown} without a name, expected key=value")
    return _unique(((word.arg, _value(word, what)) for word in node.keywords), what)


def _value(word: ast.keyword, what: str) -> Any:
    if word.arg in _CALLS and isinstance(word.value, (ast.Name, ast.Call)):
        return ast.unparse(word.value)
    return _literal(word.value, f"{what}: {word.arg}")


def _literal(node: Optional[ast.expr], what: str) -> Any:
    if isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, (str, int, float))):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        return _signed(node, what)
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_literal(item, what) for item in node.elts]
    if isinstance(node, ast.Dict):
        keys = [_literal(key, what) for key in node.keys]
        return _unique(zip(keys, [_literal(value, what) for value in node.values]), what)
    shown = "**" if node is None else _short(ast.unparse(node))
    raise UsageError(f"{what} holds {shown}, no literal; expected a number, text in quotes or a list")


def _signed(node: ast.UnaryOp, what: str) -> Any:
    value = _literal(node.operand, what)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UsageError(f"{what} holds {_short(ast.unparse(node))}, expected a number behind the sign")
    return -value if isinstance(node.op, ast.USub) else value


def _short(text: str) -> str:
    return repr(text if len(text) <= 200 else text[:200] + "...")


def assignments(values: Mapping[str, Any]) -> str:
    """Plain values as `key=value` pairs, which `mapping` reads back."""
    return ", ".join(f"{key}={value!r}" for key, value in values.items())
