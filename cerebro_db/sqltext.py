"""SQL text that cannot be built from unquoted strings.

Queries live in `.sql` files under `sql/queries/`, each behind a `-- name --` line and a
sentence. `{part}` stands for a quoted name or another fragment, `%(value)s` for a bound
value. `fill` takes only `Fragment`s, and a `Fragment` comes only from `ident`, `TableName`,
`query` or `fill`, so a user's text never becomes SQL.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Dict, Iterable, List, Optional, Tuple

from cerebro_db.errors import UsageError

_PART = re.compile(r"\{(\w+)\}")
_HEADER = re.compile(r"^-- (\w+) --\s*$", re.MULTILINE)
_SENTENCE = re.compile(r"\A(?:--[^\n]*(?:\n|\Z)|\s)*")
_NAME = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^\W\d][\w$]*))\s*')


class Fragment(str):
    """SQL text made only of quoted names and text from our own files."""


def ident(name: str) -> Fragment:
    """A name, always quoted, as SQL reads it; a percent sign is doubled, as in all our SQL text."""
    if "\0" in name:
        raise UsageError(f"name {name!r} contains a zero byte, which no SQL name may")
    return Fragment('"' + name.replace('"', '""').replace("%", "%%") + '"')


def fill(template: Fragment, **parts: Fragment) -> Fragment:
    """Put fragments into the `{part}` places of a template; every place must be filled."""
    for name, part in parts.items():
        if not isinstance(part, Fragment):
            raise TypeError(f"part {name!r} is {type(part).__name__}, expected Fragment")
    return Fragment(_PART.sub(lambda match: parts[match.group(1)], template))


def join(separator: str, fragments: Iterable[Fragment]) -> Fragment:
    """Fragments joined by a separator such as `, ` or ` and `."""
    return Fragment(separator.join(fragments))


def row_columns(row: str, names: Iterable[str]) -> Fragment:
    """Columns of a row of a query by their names: `p."a", p."b"`."""
    return join(", ", (Fragment(f"{ident(row)}.{ident(name)}") for name in names))


@dataclass(frozen=True)
class TableName:
    """A table as a user names it; `schema` is None when the search path decides."""

    schema: Optional[str]
    name: str

    @classmethod
    def parse(cls, text: Optional[str], what: str = "table") -> TableName:
        """Read `t`, `s.t` or `"S"."T"` as SQL would: unquoted names fold to lower case."""
        parts = split_names(text, what, separator=".")
        if len(parts) > 2:
            raise UsageError(f"{what} name {text!r} has {len(parts)} parts, expected table or schema.table")
        return cls(parts[0] if len(parts) == 2 else None, parts[-1])

    def sql(self) -> Fragment:
        """The quoted name, with its schema when it has one."""
        return join(".", [ident(part) for part in (self.schema, self.name) if part is not None])

    def suffixed(self, suffix: str) -> TableName:
        """The sibling table of a fixed suffix, such as `_summary`."""
        return TableName(self.schema, self.name + suffix)

    def __str__(self) -> str:
        return ".".join(_shown(part) for part in (self.schema, self.name) if part is not None)


def split_names(text: Optional[str], what: str, separator: str = ",") -> List[str]:
    """Split a list of SQL names (`a, "B", c`) into the names as the catalog holds them."""
    if text is None or not text.strip() or text.strip().lower() == "null":
        raise UsageError(f"{what} is {text!r}, expected a name; pass it as text, for example 'my_table'")
    names, position = [], 0
    while True:
        match = _NAME.match(text, position)
        if not match:
            raise UsageError(
                f"{what} {text!r} is not a valid SQL name at {text[position : position + 20]!r}; "
                "quote names that hold blanks, dots or start with a digit"
            )
        quoted, plain = match.groups()
        names.append(quoted.replace('""', '"') if quoted is not None else plain.lower())
        position = match.end()
        if position == len(text):
            return names
        if text[position] != separator:
            raise UsageError(f"{what} {text!r} has {text[position]!r} where {separator!r} was expected")
        position += 1


def _shown(name: str) -> str:
    plain = re.fullmatch(r"[a-z_][a-z0-9_$]*", name)
    return name if plain else '"' + name.replace('"', '""') + '"'


def root() -> Path:
    """The folder that holds `sql/` and `udfs/`: beside the package, or inside the wheel."""
    package = Path(__file__).resolve().parent
    inside = package / "_sql"
    return inside if inside.is_dir() else package.parent


@cache
def _queries(folder: str, file: str) -> Dict[str, Fragment]:
    pieces = _HEADER.split((root() / "sql" / folder / f"{file}.sql").read_text("utf-8"))
    bodies = (_SENTENCE.sub("", body).strip().rstrip(";") for body in pieces[2::2])
    return dict(zip(pieces[1::2], map(Fragment, bodies)))


def query(file: str, name: str, **parts: Fragment) -> Fragment:
    """The query `name` of `sql/queries/<file>.sql`, its `{part}` places filled."""
    return fill(_queries("queries", file)[name], **parts)


def dialect(engine: str, name: str, **parts: Fragment) -> Fragment:
    """The query or piece `name` of `sql/dialect/<engine>.sql`, its `{part}` places filled."""
    return fill(_queries("dialect", engine)[name], **parts)


def numbered(sql: str) -> Tuple[str, List[str]]:
    """Turn `%(name)s` into `$1..$n`; gives the text and the value names in order."""
    names: List[str] = []

    def place(match: re.Match[str]) -> str:
        if match.group(0) == "%%":
            return "%"
        if match.group(1) not in names:
            names.append(match.group(1))
        return f"${names.index(match.group(1)) + 1}"

    return re.sub(r"%\((\w+)\)s|%%", place, sql), names
