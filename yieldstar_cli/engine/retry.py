"""How failing steps are tried again: a pure function from attempt to pause (spec O1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from yieldstar_cli import clock
from yieldstar_cli.errors import Fatal, RetryableError

Span = str | float


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When and how often a step is tried again. Source: spec O1.

    `attempts` counts every try, the first included; None is no limit. Spans are strings such as
    "2s" or seconds. The pause before try n+1 is `first * factor ** (n - 1)`, at most `max`, made
    longer by up to `jitter` of itself. `total_timeout` counts from the operation's first await.
    `only` and `never` are exception classes; `never` wins.
    """

    attempts: int | None = 3
    first: Span = "1s"
    factor: float = 2.0
    max: Span = "5m"
    jitter: float = 0.0
    total_timeout: Span | None = None
    only: tuple[type[BaseException], ...] = ()
    never: tuple[type[BaseException], ...] = ()

    def __post_init__(self) -> None:
        if self.attempts is not None and (
            isinstance(self.attempts, bool)
            or not isinstance(self.attempts, int)
            or self.attempts < 1
        ):
            raise ValueError(f"attempts must be 1 or more, or None for no limit: {self.attempts!r}")
        if not self.factor >= 1:
            raise ValueError(f"factor must be 1 or more: {self.factor!r}")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter must be between 0 and 1: {self.jitter!r}")
        for name, span in (("first", self.first), ("max", self.max)):
            if clock.span_ms(span, what=name) < 0:
                raise ValueError(f"{name} must not be negative: {span!r}")
        if (
            self.total_timeout is not None
            and clock.span_ms(self.total_timeout, what="total_timeout") <= 0
        ):
            raise ValueError(f"total_timeout must be longer than nothing: {self.total_timeout!r}")
        for name in ("only", "never"):
            object.__setattr__(self, name, _classes(getattr(self, name), name))

    def allows(self, error: BaseException) -> bool:
        """Whether this policy tries again after `error`."""
        if isinstance(error, (Fatal, *self.never)):
            return False
        return isinstance(error, Exception) and (not self.only or isinstance(error, self.only))

    def pause_ms(self, failed: int, chance: float) -> int:
        """The pause after the `failed`th failure (from 1); `chance` in [0, 1) draws the jitter."""
        first = clock.span_ms(self.first)
        longest = clock.span_ms(self.max)
        try:
            pause = min(first * self.factor ** (failed - 1), float(longest)) if first else 0.0
        except OverflowError:
            pause = float(longest)
        return int(pause * (1 + self.jitter * chance))


def _classes(given: object, name: str) -> tuple[type[BaseException], ...]:
    classes: list[Any] = list(given) if isinstance(given, tuple | list | set) else [given]
    if not all(isinstance(c, type) and issubclass(c, BaseException) for c in classes):
        raise TypeError(f"{name} takes exception classes, not {given!r}")
    return tuple(classes)


#: What `RetryableError` without arguments asks for.
DEFAULT = RetryPolicy()


def next_pause_ms(
    policy: RetryPolicy | None, error: BaseException, failed: int, chance: float
) -> int | None:
    """The pause before the next try after the `failed`th failure, or None: the error is final.

    A `RetryableError` asks for a try without a policy. Its own limit and pause count; what it
    leaves open, the policy says, else the defaults.
    """
    limit = policy.attempts if policy is not None else DEFAULT.attempts
    if isinstance(error, RetryableError):
        if policy is not None and isinstance(error, policy.never):
            return None
        limit = limit if error.attempts is None else error.attempts
        pause = None if error.retry_in is None else max(0, clock.span_ms(error.retry_in))
    elif policy is None or not policy.allows(error):
        return None
    else:
        pause = None
    if limit is not None and failed >= limit:
        return None
    return (policy or DEFAULT).pause_ms(failed, chance) if pause is None else pause
