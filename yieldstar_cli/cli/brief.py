"""Says in a few words what an open execution waits for: for lists and trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from yieldstar_cli.cli.facts import Crew, expired_at
from yieldstar_cli.cli.render.times import Times, rough, took
from yieldstar_cli.cli.steps import name_of
from yieldstar_cli.model import ExecutionRecord, Kind, Status, Wait
from yieldstar_cli.nouns import dataclass

_DUE = "due"


@dataclass(frozen=True, slots=True)
class Brief:
    """How one execution stands: alike ones share `kind`; `moment` is its own."""

    kind: str
    moment: str = ""
    #: When it can go on, as far as that is known; alike ones are told with the earliest.
    at: int | None = None

    @property
    def text(self) -> str:
        """All of it."""
        if not self.moment:
            return self.kind
        return f"{self.kind}{' ' if self.kind == _DUE else ', '}{self.moment}"


def wait_words(waits: Sequence[Wait], children: Callable[[], int]) -> str:
    """What the first wait is for, and how many others there are.

    `children` counts the children of the execution; asked only where it awaits several.
    """
    if not waits:
        return ""
    if len(waits) > 1 and all(wait.target is not None for wait in waits):
        started = children()
        if started >= len(waits):
            return f"{len(waits):,} of {started:,} children"
        return f"{len(waits):,} executions"
    more = f" +{len(waits) - 1}" if len(waits) > 1 else ""
    return name_of(waits[0]) + more


def brief(
    record: ExecutionRecord,
    waits: Callable[[ExecutionRecord], Sequence[Wait]],
    children: Callable[[ExecutionRecord], int],
    crew: Crew,
    times: Times,
) -> Brief:
    """How an execution that has not ended stands."""
    now = times.now_ms
    if record.delivery is not None:
        if expired_at(record, crew, now) is not None:
            return Brief("delivery expired", at=now)
        steps = [run.step_key for run in crew.running.get(record.number, []) if run.step_key]
        what = f"running {', '.join(steps)}" if steps else "running"
        return Brief(what, took(now - record.delivery.since_at), now)
    kept = _kept_back(record, times)
    if kept is not None:
        return kept
    due_at = record.due_at
    if due_at is not None and due_at <= now:
        since = "now" if now - due_at < 1000 else f"for {rough(now - due_at)}"
        if crew.alive:
            return Brief(_DUE, since, due_at)
        return Brief("due, no worker is running", since, due_at)
    if record.status is Status.ADMITTED and due_at is not None:
        return Brief("admitted for later", f"starts {times.ahead(due_at)}", due_at)
    return _resting(record, waits(record), lambda: children(record), times)


def _kept_back(record: ExecutionRecord, times: Times) -> Brief | None:
    if record.poisoned_at is not None:
        return Brief("poisoned")
    if record.paused is not None:
        return Brief(f"paused by {record.paused.by}")
    held = record.held
    if held is None or (held.until_at is not None and held.until_at <= times.now_ms):
        return None
    until = "" if held.until_at is None else f"until {times.at(held.until_at)}"
    return Brief(f"held ({held.code})", until, held.until_at)


def _resting(
    record: ExecutionRecord, waits: Sequence[Wait], children: Callable[[], int], times: Times
) -> Brief:
    due_at = record.due_at
    if not waits:
        if due_at is None:
            return Brief("waits for nothing")
        return Brief("wakes", times.ahead(due_at), due_at)
    first = waits[0]
    when = "" if due_at is None else f"wakes {times.ahead(due_at)}"
    if len(waits) == 1 and first.state == "retrying":
        verb = "retry" if first.kind == Kind.STEP else "try"
        return Brief(
            f"{verb} {first.attempt} of {first.step_key}", times.ahead(due_at or 0), due_at
        )
    if first.tag is not None and record.needs:
        return Brief(f"{first.step_key} needs the tag {first.tag}", when, due_at)
    return Brief(f"waits for {wait_words(waits, children)}", when, due_at)
