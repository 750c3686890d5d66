"""Views of Structs and dataclasses: fields one by one, the author's methods on the view (S4)."""

from __future__ import annotations

from functools import cached_property, lru_cache
from types import GetSetDescriptorType, MemberDescriptorType, WrapperDescriptorType
from typing import Any

from yieldstar_cli.engine.detached import detached, encode_names
from yieldstar_cli.engine.views import View, absent, child, part, whole

_field = object.__getattribute__

#: Classes of these modules are no code of the author's.
_NOT_THE_AUTHORS = frozenset({"builtins", "msgspec", "msgspec._core", "typing", "abc"})
#: How the author's objects are made, taken apart and written to is not how a view is.
_NOT_SHOWN = frozenset(
    {
        *("__new__", "__init__", "__post_init__", "__del__", "__init_subclass__"),
        *("__class__", "__class_getitem__", "__set_name__", "__slots__", "__dict__"),
        *("__getattribute__", "__getattr__", "__setattr__", "__delattr__", "__weakref__"),
        *("__copy__", "__deepcopy__", "__replace__", "__reduce__", "__reduce_ex__"),
        *("__getstate__", "__setstate__", "__getnewargs__", "__getnewargs_ex__", "__sizeof__"),
    }
)
_SLOTS = (GetSetDescriptorType, MemberDescriptorType, WrapperDescriptorType)
_ABSENT = object()


class ObjectView(View):
    """A Struct or dataclass, seen."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        value = _field(self, "_ys_value")
        kind: Any = type(value)
        names = encode_names(kind)
        assert names is not None, "only these are shown by this view"
        stored = names.stored.get(name)
        if stored is not None:
            return _of_field(self, value, name, stored)
        if name == "__class__":
            return kind
        if name == "__dict__":
            return {key: part(self, item) for key, item in whole(self).__dict__.items()}
        attribute, authors = _of_class(kind, name)
        if authors and name not in _NOT_SHOWN:
            return _bound(self, attribute, kind, name)
        if hasattr(View, name):
            return _field(self, name)
        if name.startswith("__struct_"):
            return getattr(kind, name)
        if attribute is not _ABSENT:
            return getattr(detached(whole(self)), name)
        return _undeclared(self, kind, name)


def _of_field(shown: ObjectView, value: Any, name: str, stored: str) -> Any:
    found = getattr(value, name, _ABSENT)
    if found is _ABSENT:
        absent(shown, stored)
        raise AttributeError(f"{type(value).__name__!r} object has no value for {name!r}")
    return child(shown, stored, found)


def _of_class(kind: type, name: str) -> tuple[Any, bool]:
    """What the class has under `name`, and whether its author wrote it."""
    for base in kind.__mro__:
        found = base.__dict__.get(name, _ABSENT)
        if found is not _ABSENT:
            return found, base.__module__ not in _NOT_THE_AUTHORS
    return _ABSENT, False


def _bound(shown: ObjectView, attribute: Any, kind: type, name: str) -> Any:
    if isinstance(attribute, cached_property):
        # It would be kept in the instance; a view keeps nothing.
        return attribute.func(shown)
    if isinstance(attribute, _SLOTS):
        return part(shown, getattr(whole(shown), name))
    bind = getattr(type(attribute), "__get__", None)
    return attribute if bind is None else bind(attribute, shown, kind)


def _undeclared(shown: ObjectView, kind: type, name: str) -> Any:
    """An attribute that is no field: what the author's own code makes of the fields."""
    own = getattr(_field(shown, "_ys_value"), "__dict__", {})
    if name in own:
        return part(shown, whole(shown).__dict__[name])
    fallback, authors = _of_class(kind, "__getattr__")
    if authors:
        return fallback.__get__(shown, kind)(name)
    raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}")


@lru_cache(maxsize=1024)
def view_class(kind: type) -> type[ObjectView]:
    """The view of `kind`, with the operators that its author wrote, and no others."""
    written: dict[str, Any] = {"__slots__": ()}
    for base in reversed(kind.__mro__):
        if base.__module__ in _NOT_THE_AUTHORS:
            continue
        for name, attribute in base.__dict__.items():
            if name[:2] != "__" or name[-2:] != "__" or name in _NOT_SHOWN:
                continue
            if attribute is None or (
                hasattr(attribute, "__get__") and not isinstance(attribute, _SLOTS)
            ):
                written[name] = attribute
    return type(f"{kind.__name__}View", (ObjectView,), written)
