"""Dataclasses for a process of one hot command: made and compared alike, and nothing beyond.

Whoever imports this first gives all nouns of the process this form (`nouns.py`). What Python's
refuse (a missing argument, a change of a frozen one) is not refused here: the checkers of types and
every other process of ours do that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class _Made:
    """A default that is made anew for each object."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def field(*, default_factory: Callable[[], Any] | None = None, **words: Any) -> Any:
    """As Python's; of the other words only `default` means anything here."""
    return words.get("default") if default_factory is None else _Made(default_factory)


def dataclass(**words: bool) -> Callable[[type[T]], type[T]]:
    """As Python's, with the class itself in place of one made anew."""

    def light(kind: type[T]) -> type[T]:
        names = tuple(kind.__annotations__)
        own = {name: kind.__dict__[name] for name in names if name in kind.__dict__}
        made = [(name, default.make) for name, default in own.items() if isinstance(default, _Made)]

        def __init__(self: T, *values: Any, **named: Any) -> None:  # noqa: N807
            fields = self.__dict__
            # In each object, as Python's: a function in a class would become a method.
            fields.update(own)
            for name, make in made:
                fields[name] = make()
            fields.update(zip(names, values, strict=False))
            fields.update(named)

        def values_of(self: T) -> tuple[Any, ...]:
            return tuple(getattr(self, name) for name in names)

        def __eq__(self: T, other: object) -> bool:  # noqa: N807
            return type(other) is type(self) and values_of(self) == values_of(other)

        def __hash__(self: T) -> int:  # noqa: N807
            return hash(values_of(self))

        methods = {"__init__": __init__, "__eq__": __eq__, "__hash__": __hash__}
        for name, method in methods.items():
            setattr(kind, name, method)
        kind.__match_args__ = names  # type: ignore[attr-defined, misc]
        return kind

    return light


def replace(noun: T, **changes: Any) -> T:
    """A copy of `noun` with `changes`."""
    copy = object.__new__(type(noun))
    copy.__dict__.update(noun.__dict__)
    copy.__dict__.update(changes)
    return copy
