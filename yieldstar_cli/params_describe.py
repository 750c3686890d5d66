"""What params a workflow declares, as data that needs no module of the author's (spec K4).

A description is JSON text: the type as nested nodes `{"k": kind, ...}`, Structs and dataclasses
with their fields, enums with their members. `rebuild` makes an equivalent type of it, which
checks and encodes alike. What has no such description (code of the author's that runs when a
value is made, types unknown here) is `opaque`: then the module has to be loaded.
"""

from __future__ import annotations

import ast
import copy
import inspect
import json
import textwrap
from dataclasses import dataclass
from enum import Enum, Flag
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import inspect as shape

from yieldstar_cli import codec
from yieldstar_cli.errors import UnserializableValue


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


class _Opaque(Exception):
    """Why a type has no description."""


#: Kinds that need no more than their name and limits.
_SIMPLE: dict[type, str] = {
    shape.AnyType: "any",
    shape.NoneType: "none",
    shape.BoolType: "bool",
    shape.IntType: "int",
    shape.FloatType: "float",
    shape.StrType: "str",
    shape.BytesType: "bytes",
    shape.DateTimeType: "datetime",
    shape.DateType: "date",
    shape.TimeType: "time",
    shape.TimeDeltaType: "timedelta",
    shape.DecimalType: "decimal",
    shape.UUIDType: "uuid",
}
_ONE_ITEM: dict[type, str] = {
    shape.ListType: "list",
    shape.SetType: "set",
    shape.FrozenSetType: "frozenset",
    shape.VarTupleType: "vartuple",
}
_LIMITS = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern", "tz")
_CONFIG = ("tag", "tag_field", "array_like", "forbid_unknown_fields")


def describe(type_: Any) -> str:
    """JSON text that describes the params type `type_`; None is a workflow without params.

    Never fails: what cannot be described says so (`opaque`). Source: spec K4.
    """
    try:
        node = _Describer().node(type_info(NoParams if type_ is None else type_))
    except (_Opaque, TypeError, ValueError, NameError, AttributeError) as error:
        return json.dumps({"k": "opaque", "why": str(error), "fields": _fields_of(type_)})
    return json.dumps(node)


def opaque(description: str) -> bool:
    """Whether the author's module has to be loaded to check such params."""
    return bool(json.loads(description)["k"] == "opaque")


def type_info(type_: Any) -> Any:
    """msgspec's view of `type_`, wrappers taken off. Raises TypeError for what it cannot do."""
    return bare(shape.type_info(type_))


def bare(info: Any) -> Any:
    """`info` without its wrapper of documentation."""
    while isinstance(info, shape.Metadata):
        info = info.type
    return info


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


# --- describing ------------------------------------------------------------------------------


class _Describer:
    """One walk over a type; knows which Structs it is inside of."""

    def __init__(self) -> None:
        self.inside: list[Any] = []

    def node(self, info: Any) -> dict[str, Any]:
        """The node of `info`. Raises _Opaque."""
        info = bare(info)
        kind = type(info)
        if kind in _SIMPLE:
            return {"k": _SIMPLE[kind], **_limits(info)}
        if kind in _ONE_ITEM:
            return {"k": _ONE_ITEM[kind], "item": self.node(info.item_type), **_limits(info)}
        if isinstance(info, shape.TupleType):
            return {"k": "tuple", "items": [self.node(item) for item in info.item_types]}
        if isinstance(info, shape.DictType):
            pair = {"key": self.node(info.key_type), "item": self.node(info.value_type)}
            return {"k": "dict", **pair, **_limits(info)}
        if isinstance(info, shape.UnionType):
            return {"k": "union", "types": [self.node(member) for member in info.types]}
        if isinstance(info, shape.LiteralType):
            return {"k": "literal", "values": list(info.values)}
        if isinstance(info, shape.CustomType) and info.cls is Path:
            return {"k": "path"}
        if isinstance(info, shape.EnumType):
            return _enum_node(info.cls)
        if isinstance(info, shape.StructType | shape.DataclassType):
            return self.record(info)
        raise _Opaque(f"{getattr(info, 'cls', kind).__name__} can only be checked by its module")

    def record(self, info: Any) -> dict[str, Any]:
        """The node of a Struct or dataclass. Raises _Opaque."""
        if any(info is outer for outer in self.inside):
            raise _Opaque(f"{info.cls.__name__} refers to itself")
        if hasattr(info.cls, "__post_init__"):
            raise _Opaque(f"{info.cls.__name__} has a __post_init__")
        self.inside.append(info)
        docs = field_docs(info.cls)
        fields = [
            {
                "name": field.name,
                "as": field.encode_name,
                "type": self.node(field.type),
                "doc": docs.get(field.name, ""),
                **_default(info.cls, field),
            }
            for field in info.fields
        ]
        self.inside.pop()
        config = {name: getattr(info, name) for name in _CONFIG if getattr(info, name, None)}
        return {"k": "struct", "name": info.cls.__name__, "fields": fields, "config": config}


def _limits(info: Any) -> dict[str, Any]:
    found = {name: getattr(info, name, None) for name in _LIMITS}
    limits = {name: limit for name, limit in found.items() if limit is not None}
    return {"limits": limits} if limits else {}


def _enum_node(kind: type[Enum]) -> dict[str, Any]:
    custom = "_missing_" in {name for base in kind.__mro__[:-1] for name in _own(base)}
    if custom or issubclass(kind, Flag):
        raise _Opaque(f"{kind.__name__} makes members of its own")
    base = "str" if issubclass(kind, str) else "int" if issubclass(kind, int) else ""
    members = [[name, member.value] for name, member in kind.__members__.items()]
    return {"k": "enum", "name": kind.__name__, "base": base, "members": members}


def _own(base: type) -> tuple[str, ...]:
    return () if base.__module__ == "enum" else tuple(vars(base))


def _default(kind: type, field: shape.Field) -> dict[str, Any]:
    value: Any = field.default
    if field.default_factory is not msgspec.NODEFAULT:
        factory: Any = field.default_factory
        if isinstance(factory, partial) and factory.func is copy.deepcopy:
            value = factory.args[0]
        elif factory in (list, dict, set):
            value = factory()
        else:
            raise _Opaque(f"the default of {kind.__name__}.{field.name} is made by a function")
    if value is msgspec.NODEFAULT:
        return {}
    if isinstance(value, Enum):
        return {"default": codec.encode(value.value)}
    if isinstance(value, msgspec.Struct):
        raise _Opaque(f"the default of {kind.__name__}.{field.name} is an object")
    try:
        return {"default": codec.encode(value)}
    except UnserializableValue as error:
        raise _Opaque(f"the default of {kind.__name__}.{field.name}: {error.reason}") from None


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


def _fields_of(type_: Any) -> list[dict[str, Any]]:
    """Name, type and default of an opaque type's fields, only for showing them."""
    try:
        info = type_info(type_)
        docs = field_docs(info.cls)
        return [
            {
                "name": field.name,
                "as": field.encode_name,
                "doc": docs.get(field.name, ""),
                "shown": _shown_type(field.type),
                **({} if field.required else {"default_shown": "…"}),
            }
            for field in info.fields
        ]
    except (TypeError, ValueError, NameError, AttributeError):
        return []


def _shown_type(info: Any) -> str:
    try:
        return type_text(_Describer().node(info))
    except _Opaque:
        return str(getattr(getattr(bare(info), "cls", None), "__name__", "…"))


# --- rebuilding ------------------------------------------------------------------------------


def rebuild(description: str) -> Any:
    """A type equivalent to the one described: it accepts, refuses and encodes the same.

    Dataclasses come back as Structs. Raises ValueError for an opaque description.
    """
    node = json.loads(description)
    if node["k"] == "opaque":
        raise ValueError(f"the params can only be checked by their module: {node['why']}")
    return _built(node)


_TYPES: dict[str, str] = {
    "datetime": "datetime",
    "date": "datetime",
    "time": "datetime",
    "timedelta": "datetime",
}


def _built(node: dict[str, Any]) -> Any:
    kind = node["k"]
    made = _built_bare(kind, node)
    if "limits" in node:
        from typing import Annotated

        return Annotated[made, msgspec.Meta(**node["limits"])]
    return made


def _built_bare(kind: str, node: dict[str, Any]) -> Any:
    import datetime
    from decimal import Decimal
    from typing import Literal, Union
    from uuid import UUID

    if kind in _TYPES:
        return getattr(datetime, kind)
    simple: dict[str, Any] = {
        "any": Any,
        "none": None,
        "bool": bool,
        "int": int,
        "float": float,
        "str": str,
        "bytes": bytes,
        "decimal": Decimal,
        "uuid": UUID,
        "path": Path,
    }
    if kind in simple:
        return simple[kind]
    if kind in ("list", "set", "frozenset"):
        item: Any = _built(node["item"])
        return {"list": list, "set": set, "frozenset": frozenset}[kind][item]  # type: ignore[index]
    if kind == "vartuple":
        return cast(Any, tuple)[_built(node["item"]), ...]
    if kind == "tuple":
        return cast(Any, tuple)[tuple(_built(item) for item in node["items"])]
    if kind == "dict":
        return cast(Any, dict)[_built(node["key"]), _built(node["item"])]
    if kind == "union":
        return Union[tuple(_built(member) for member in node["types"])]  # noqa: UP007
    if kind == "literal":
        return cast(Any, Literal)[tuple(node["values"])]
    if kind == "enum":
        return _built_enum(node)
    return _built_struct(node)


def _built_enum(node: dict[str, Any]) -> Any:
    members = [(name, value) for name, value in node["members"]]
    mixin = {"str": str, "int": int}.get(node["base"])
    if mixin is None:
        return cast(Any, Enum)(node["name"], members)
    return cast(Any, Enum)(node["name"], members, type=mixin)


def _built_struct(node: dict[str, Any]) -> Any:
    fields = []
    for field in node["fields"]:
        type_ = _built(field["type"])
        settings: dict[str, Any] = {"name": field["as"]}
        if "default" in field:
            default = codec.decode(field["default"], type_)
            if isinstance(default, list | dict | set):
                settings["default_factory"] = partial(copy.deepcopy, default)
            else:
                settings["default"] = default
        fields.append((field["name"], type_, msgspec.field(**settings)))
    config = node["config"]
    return msgspec.defstruct(node["name"], fields, kw_only=True, module=__name__, **config)


# --- for people ------------------------------------------------------------------------------


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
