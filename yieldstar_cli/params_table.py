"""Declared params for people and programs: as a table, in one line, as JSON Schema (spec K4)."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from yieldstar_cli import codec


class NoParams(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What a workflow without arguments takes: nothing."""


@dataclass(frozen=True, slots=True)
class ParamField:
    """One parameter, for people."""

    name: str
    type_text: str
    #: The default as text; "required" where there is none.
    default_text: str
    doc: str

    @property
    def required(self) -> bool:
        """Whether it has to be given."""
        return self.default_text == "required"


def table(description: str) -> list[ParamField]:
    """The parameters in their order, for display."""
    node = json.loads(description)
    return [
        ParamField(
            name=field["as"],
            type_text=field["shown"] if "shown" in field else type_text(field["type"]),
            default_text=_default_text(field),
            doc=field["doc"],
        )
        for field in node.get("fields", ())
    ]


def _default_text(field: dict[str, Any]) -> str:
    if "default" in field:
        return value_text(codec.decode(field["default"]))
    return str(field.get("default_shown", "required"))


def value_text(value: object) -> str:
    """A value in one short line: JSON where JSON has a word for it."""
    if isinstance(value, set | frozenset):
        value = sorted(value, key=str)
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        try:
            text = str(value)
        except (ValueError, RecursionError):
            text = f"a very large {type(value).__name__}"
    return text if len(text) <= 60 else text[:59] + "…"


def type_text(node: dict[str, Any]) -> str:
    """A type as an author would write it, enums and literals as their values."""
    kind: str = node["k"]
    if kind in ("list", "set", "frozenset"):
        return f"{kind}[{type_text(node['item'])}]"
    if kind == "vartuple":
        return f"tuple[{type_text(node['item'])}, ...]"
    if kind == "tuple":
        return f"tuple[{', '.join(type_text(item) for item in node['items'])}]"
    if kind == "dict":
        return f"dict[{type_text(node['key'])}, {type_text(node['item'])}]"
    if kind == "union":
        return " | ".join(type_text(member) for member in node["types"])
    if kind == "literal":
        return " | ".join(value_text(value) for value in node["values"])
    if kind == "enum":
        return " | ".join(value_text(value) for _, value in node["members"])
    if kind == "struct":
        return str(node["name"])
    return {"none": "null", "decimal": "Decimal", "uuid": "UUID", "path": "Path"}.get(kind, kind)


def schema(type_: Any) -> str:
    """The JSON Schema of `type_` as text; `{}`, which allows everything, where there is none."""
    try:
        found = msgspec.json.schema(NoParams if type_ is None else type_, schema_hook=_path_schema)
    except (TypeError, ValueError, NameError, AttributeError, NotImplementedError, RecursionError):
        return "{}"
    return json.dumps(found)


def _path_schema(kind: type) -> dict[str, Any]:
    if issubclass(kind, Path):
        return {"type": "string", "format": "path"}
    raise TypeError(f"{kind.__name__} has no JSON Schema")


def field_docs(kind: type) -> dict[str, str]:
    """The texts that stand below the fields of a class, as far as its source can be read."""
    docs: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        except (OSError, TypeError, SyntaxError, ValueError, IndexError):
            continue
        body = getattr(tree.body[0], "body", []) if tree.body else []
        for field, text in pairwise(body):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(text, ast.Expr)
                and isinstance(text.value, ast.Constant)
                and isinstance(text.value.value, str)
            ):
                docs[field.target.id] = inspect.cleandoc(text.value.value)
    return docs
