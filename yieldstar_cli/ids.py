"""Chance: execution IDs, seeds and nonces, and the chance that a workflow may draw.

The only module that reads the machine's randomness. What a workflow draws comes from its
execution's seed, so that it is the same on every replay (spec R7).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from uuid import UUID

# Crockford's alphabet without vowels' twins: IDs are typed by people.
_ALPHABET = b"0123456789abcdefghjkmnpqrstvwxyz"
_LENGTH = 8
# A byte of chance to one of the 32 characters, each as likely as the others.
_CHARACTERS = _ALPHABET * (256 // len(_ALPHABET))


class Chance(Protocol):
    """Where a component draws chance; tests and the simulator pass their own."""

    def execution_suffix(self) -> str:
        """Eight characters that tell one generated execution ID from another."""
        ...

    def seed(self) -> bytes:
        """Sixteen bytes: an execution's seed, or a nonce."""
        ...


class SystemChance:
    """The machine's randomness."""

    def execution_suffix(self) -> str:
        """Eight characters that tell one generated execution ID from another."""
        return os.urandom(_LENGTH).translate(_CHARACTERS).decode()

    def seed(self) -> bytes:
        """Sixteen random bytes."""
        return os.urandom(16)


def idempotency_key(seed: bytes, incarnation: int, step_key: str) -> str:
    """The key a step hands to the outside: the same for every attempt of that step (spec O7)."""
    return _digest(seed, "idempotency", incarnation, step_key, 0)[:16].hex()


def drawn_random(seed: bytes, incarnation: int, branch: str, count: int) -> float:
    """A float in [0, 1): the `count`th draw of this branch (spec R7)."""
    return (int.from_bytes(_digest(seed, "random", incarnation, branch, count)[:8]) >> 11) / 2**53


def drawn_uuid(seed: bytes, incarnation: int, branch: str, count: int) -> UUID:
    """A version 4 UUID: the `count`th draw of this branch (spec R7)."""
    from uuid import UUID

    return UUID(bytes=_digest(seed, "uuid", incarnation, branch, count)[:16], version=4)


def _digest(seed: bytes, purpose: str, incarnation: int, place: str, count: int) -> bytes:
    import hashlib

    text = f"{purpose}\0{incarnation}\0{place}\0{count}".encode()
    return hashlib.blake2b(text, key=seed, digest_size=32).digest()
