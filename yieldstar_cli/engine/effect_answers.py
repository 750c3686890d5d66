"""What `lookup` says of an effect: settled, not found, or unknown (spec F1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Settled(Generic[T_co]):
    """It was done, with this result."""

    result: T_co


class NotFound:
    """It was not done, nor is it under way: it may be performed."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "not_found"


class Unknown:
    """Nobody can say yet: look again later, and do nothing until then."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "unknown"


def settled(result: T) -> Settled[T]:
    """`lookup` found that the effect was done, with this result (spec F1)."""
    return Settled(result)


not_found = NotFound()
unknown = Unknown()

#: What a `lookup` may return.
EffectAnswer = Settled[T_co] | NotFound | Unknown

__all__ = ["EffectAnswer", "NotFound", "Settled", "Unknown", "not_found", "settled", "unknown"]
