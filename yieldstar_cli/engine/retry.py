"""How failing steps are tried again: a pure function from attempt to pause (spec O1)."""

from __future__ import annotations

from dataclasses import dataclass

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
        if self.total_timeout is not None and clock.span_ms(self.total_timeout) < 0:
            raise ValueError(f"total_timeout must not be negative: {self.total_timeout!r}")

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
            pause = min(first * self.factor ** (failed - 1), float(longest))
        except OverflowError:
            pause = float(longest)
        return int(pause * (1 + self.jitter * chance))


#: What `RetryableError` without arguments asks for.
DEFAULT = RetryPolicy()


def next_pause_ms(
    policy: RetryPolicy | None, error: BaseException, failed: int, chance: float
) -> int | None:
    """The pause before the next try after the `failed`th failure, or None: the error is final.

    A `RetryableError` asks for a try without a policy, with its own limit and pause.
    """
    if isinstance(error, RetryableError):
        # With a policy, its limit counts unless the error names its own.
        limit = error.attempts
        if failed >= limit:
            return None
        if error.retry_in is not None:
            return max(0, clock.span_ms(error.retry_in))
        return (policy or DEFAULT).pause_ms(failed, chance)
    if policy is None or not policy.allows(error):
        return None
    if policy.attempts is not None and failed >= policy.attempts:
        return None
    return policy.pause_ms(failed, chance)
