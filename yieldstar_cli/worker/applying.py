"""Applies what has happened to one delivery, one by one, in the order it became ready (R4, O6)."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple

from yieldstar_cli import clock, codec, failures
from yieldstar_cli.engine import attempts, faults, values, watching
from yieldstar_cli.engine.attempts import StepEnd
from yieldstar_cli.engine.effects import EffectHandle
from yieldstar_cli.engine.operations import DurableHandle, State
from yieldstar_cli.engine.outside import AskHandle, MessageHandle
from yieldstar_cli.engine.store_handles import StoreAsk, StoreChange, StoreWatch
from yieldstar_cli.errors import CodeFault, StepTimeout
from yieldstar_cli.model import Attempt, Entry, Kind, Look, StoreRecord
from yieldstar_cli.worker.effects import Came

if TYPE_CHECKING:
    from yieldstar_cli.engine.driver import Driver
    from yieldstar_cli.worker.effects import Effects
    from yieldstar_cli.worker.looks import Looks
    from yieldstar_cli.worker.tries import Tries
    from yieldstar_cli.worker.waiting import Waiting

#: How many messages, ends and timers one round applies at most, so that its commit stays short.
AT_ONCE = 500
_LAST = 1 << 60

Handle = DurableHandle[Any]


class Taken(NamedTuple):
    """What a round has applied, beside the driver's own entries."""

    attempts: tuple[Attempt, ...]
    consumed: tuple[int, ...]
    invalid: tuple[int, ...]
    told: bool


_NOTHING_TAKEN = Taken((), (), (), False)


class _Ready(NamedTuple):
    """Something that is ready: since when, and what breaks a tie; `order` makes it unique."""

    at: int
    await_seq: int
    seq: int
    order: int
    apply: Callable[[Any], None]
    what: Any


class Applying:
    """Collects what is ready and gives it to the driver; `said` hears of ended attempts."""

    __slots__ = (
        "_attempts",
        "_consumed",
        "_driver",
        "_effects",
        "_invalid",
        "_left",
        "_looks",
        "_matched",
        "_max_value",
        "_now",
        "_order",
        "_queued",
        "_ready",
        "_said",
        "_told",
        "_tries",
        "_waiting",
    )

    def __init__(
        self,
        driver: Driver,
        waiting: Waiting,
        tries: Tries,
        looks: Looks,
        effects: Effects,
        *,
        max_value: int,
        said: Callable[[Handle, int, StepEnd, int | None], None],
    ) -> None:
        self._driver = driver
        self._waiting = waiting
        self._tries = tries
        self._looks = looks
        self._effects = effects
        self._max_value = max_value
        self._said = said
        self._attempts: list[Attempt] = []
        self._consumed: list[int] = []
        self._invalid: list[int] = []
        self._told = False
        # Of the round that is being applied.
        self._now = 0
        self._left = AT_ONCE
        self._ready: list[_Ready] = []
        self._order = 0
        self._queued: set[str] = set()
        #: Waits for stores that the round ends, whatever their deadlines say (spec S6).
        self._matched: set[StoreWatch[Any]] = set()

    def take(self) -> Taken:
        """What was applied since the last call, for the round that records it."""
        if not (self._attempts or self._consumed or self._invalid or self._told):
            if self._looks.uncommitted:
                self._looks.uncommitted.clear()
            return _NOTHING_TAKEN
        taken = Taken(
            tuple(self._attempts), tuple(self._consumed), tuple(self._invalid), self._told
        )
        self._attempts, self._consumed, self._invalid = [], [], []
        self._told = False
        self._looks.uncommitted.clear()
        return taken

    def close(self) -> None:
        """Nothing is applied any more."""
        # Whoever made this holds it: without this, both would wait for the garbage collector.
        self._said = _nothing

    @property
    def more(self) -> bool:
        """True when the last round left something that is ready to the next one."""
        return self._left <= 0

    def idle(self, now: int) -> bool:
        """True where `apply_ready` would find nothing, so that it need not be asked."""
        looks, waiting = self._looks, self._waiting
        waiting.absorb()
        if self._tries.waiting or looks.stale or looks.found or waiting.watches:
            return False
        if self._driver.asks or waiting.due(now):
            return False
        self._left = AT_ONCE
        return True

    def apply_ready(self, now: int, *, outside: bool) -> None:
        """Apply everything that is ready at `now`; `outside` False leaves out what looks found.

        What is newly awaited meanwhile, and ready by what was read before, is applied as well: as
        if the rounds had been committed one by one. Attempts that have ended always are.
        """
        self._now, self._left = now, AT_ONCE
        ended = self._tries.take()
        self._waiting.absorb()
        if outside:
            looks = self._looks
            if looks.stale or (not (looks.answers or looks.watched) and looks.asked):
                looks.refresh()
            if looks.found:
                self._add_read()
        if self._waiting.due(now):
            self._add_timers(outside)
        if len(ended) == 1 and not self._ready:
            # Nearly every round is this: one step has ended, and there is nothing to order.
            self._apply_end(ended[0])
            if self._driver.touched and self._driver.fault is None:
                self._add_awaited(outside)
        else:
            for what in ended:
                self._add(what[1].ended_at, what[0], self._apply_end, what)
        while True:
            while self._ready:
                ready = heappop(self._ready)
                ready.apply(ready.what)
                if self._driver.touched and self._driver.fault is None:
                    self._add_awaited(outside)
            if not outside or self._left <= 0 or self._driver.fault or not self._looks.asked:
                break
            self._looks.refresh()
            self._add_read()
        if self._queued:
            self._queued.clear()
        if self._matched:
            self._matched.clear()

    def apply_cancel(self, now: int) -> None:
        """Tell the function of the request to cancel, and record that it was told (spec C6)."""
        request, self._looks.cancel = self._looks.cancel, None
        assert request is not None, "somebody asked for it"
        driver = self._driver
        at = max(now, driver.moment)
        reason = codec.encode(request.reason)
        self._told = True
        driver.cancel(Entry(driver.position, Kind.CANCEL, "cancel", True, reason, at))

    # --- collecting ----------------------------------------------------------------------------

    def _add(self, at: int, handle: Handle, apply: Callable[[Any], None], what: Any) -> None:
        self._order += 1
        await_seq = handle.await_seq or _LAST
        heappush(self._ready, _Ready(at, await_seq, handle.seq, self._order, apply, what))

    def _add_read(self) -> None:
        answers, self._looks.answers = self._looks.answers, []
        for ask, look in answers:
            self._add(self._now, ask, self._apply_answer, (ask, look))
        watched, self._looks.watched = self._looks.watched, []
        for handle, record in watched:
            self._add_watch(handle, record)
        for queue in self._waiting.queues:
            self._add_queue(queue)
        for key in self._looks.ended:
            self._add_end(key)

    def _add_timers(self, outside: bool) -> None:
        late: list[StoreWatch[Any]] = []
        for handle in self._waiting.take_due(self._now):
            if isinstance(handle, StoreWatch):
                late.append(handle)
                continue
            assert handle.due_at is not None, "a timer has a moment"
            self._add(handle.due_at, handle, self._apply_timer, handle)
        if late and outside:
            # A match wins over a deadline that has passed (spec S6).
            self._looks.refresh()
            self._add_read()
        for handle in late:
            assert handle.due_at is not None, "only a deadline passes"
            if outside and handle not in self._matched:
                self._add(handle.due_at, handle, self._apply_deadline, handle)
            else:
                self._waiting.keep(handle)

    def _add_watch(self, handle: StoreWatch[Any], record: StoreRecord | None) -> None:
        """Ask an awaited store's state whether the wait is over."""
        if handle.state is not State.OPEN or not handle.waiters or handle.intent is not None:
            return
        if self._driver.fault is not None:
            return
        found = watching.watch(handle, record, self._max_value)
        if self._driver.fault is not None:
            return  # its function used an operation: a fault of the code, and no answer
        handle.evaluated = True
        match found:
            case None:
                self._waiting.renew(handle)
            case watching.Change(intent):
                handle.intent = intent
                self._driver.actions[handle] = None
            case watching.Ended():
                self._matched.add(handle)
                at = self._now if record is None else record.updated_at
                self._add(at, handle, self._apply_watch, (handle, found))

    def _add_queue(self, queue: str) -> None:
        messages = self._looks.arrived.get(queue)
        first = self._waiting.first_on(queue)
        if messages and first is not None and queue not in self._queued:
            self._queued.add(queue)
            self._add(messages[0].at, first, self._apply_message, queue)

    def _add_end(self, key: str) -> None:
        handle = self._waiting.children.get(key)
        if handle is not None:
            self._add(self._looks.ended[key].at, handle, self._apply_execution, key)

    def _add_awaited(self, outside: bool) -> None:
        """What the last resolution led the function to await may be ready already."""
        for handle in self._waiting.absorb():
            if outside and isinstance(handle, MessageHandle):
                self._add_queue(handle.queue)
            elif outside and handle.kind is Kind.CHILD and handle.key in self._looks.ended:
                self._add_end(handle.key)
        self._add_timers(outside)

    # --- applying ------------------------------------------------------------------------------

    def _goes(self, handle: Handle) -> bool:
        """Whether something that waits may still be applied in this round."""
        if self._left <= 0 or self._driver.fault is not None:
            return False
        if handle.state is not State.OPEN or not handle.waiters:
            return False
        self._left -= 1
        return True

    def _apply_timer(self, handle: Handle) -> None:
        if self._goes(handle):
            self._apply(handle, True, "null", handle.issued_at)
        else:
            self._waiting.keep(handle)

    def _apply_message(self, queue: str) -> None:
        self._queued.discard(queue)
        handle = self._waiting.first_on(queue)
        if handle is None or not self._looks.arrived.get(queue) or not self._goes(handle):
            return
        ok, text = self._batch(handle)
        self._apply(handle, ok, text, handle.issued_at)
        self._waiting.absorb()
        if self._driver.fault is None:
            self._add_queue(queue)

    def _batch(self, handle: MessageHandle[Any]) -> tuple[bool, str]:
        """Take what `handle` gets: a message, or a batch up to the first that does not fit."""
        texts: list[str] = []
        queue, messages = handle.queue, self._looks.arrived
        while len(texts) < handle.most and messages.get(queue):
            reason = values.fitting(messages[queue][0].value, handle.message_type)
            if reason is not None and texts:
                break
            message = self._looks.take(queue)
            if reason is not None:
                self._invalid.append(message.number)
                return False, values.invalid_message(queue, reason)
            self._consumed.append(message.number)
            texts.append(message.value)
        return True, texts[0] if handle.kind is Kind.MESSAGE else values.joined(texts)

    def _apply_execution(self, key: str) -> None:
        handle = self._waiting.children.get(key)
        end = self._looks.ended.get(key)
        if handle is None or end is None or not self._goes(handle):
            return
        del self._looks.ended[key]
        ok, text = values.ended(handle, end.outcome, pruned=end.pruned)
        self._apply(handle, ok, text, handle.issued_at)

    def _apply_watch(self, what: tuple[StoreWatch[Any], watching.Ended]) -> None:
        handle, ended = what
        if self._goes(handle):
            self._apply(handle, ended.ok, ended.text, handle.issued_at)
        else:
            handle.evaluated = False

    def _apply_deadline(self, handle: StoreWatch[Any]) -> None:
        if not self._goes(handle):
            self._waiting.keep(handle)
            return
        assert handle.due_at is not None, "only a deadline passes"
        moment = clock.rfc3339(handle.due_at)
        late = StepTimeout(f"store {handle.label} was not as awaited until {moment}")
        self._apply(handle, False, failures.encode_error(late), handle.issued_at)

    def _apply_stored(self, ask: StoreAsk[Any], look: Look) -> None:
        """Answer a question about a store, or compute the change that is asked for."""
        record = look.stores.get(ask.store.key)
        if isinstance(ask, StoreChange):
            found = watching.update(ask, record)
            if self._driver.fault is not None:
                return
            if isinstance(found, watching.Change):
                ask.intent = found.intent
                del self._driver.asks[ask]
                self._driver.actions[ask] = None
                return
        else:
            found = watching.answer(ask, record, self._max_value)
            if self._driver.fault is not None:
                return
        self._left -= 1
        self._apply(ask, found.ok, found.text, ask.issued_at)

    def _apply_answer(self, what: tuple[AskHandle[Any], Look]) -> None:
        ask, look = what
        if ask not in self._driver.asks or self._driver.fault is not None:
            return  # withdrawn meanwhile, or answered by an earlier look of this round
        if isinstance(ask, StoreAsk):
            self._apply_stored(ask, look)
            return
        ok, text = True, "null"
        if ask.kind is Kind.QUEUE_DEPTH:
            text = codec.encode(self._looks.unread(ask.queue, look))
        elif ask.kind is Kind.STATUS:
            standing = look.statuses.get(ask.execution_id)
            text = "null" if standing is None else values.standing(*standing)
        elif self._looks.arrived.get(ask.queue):
            message = self._looks.take(ask.queue)
            reason = values.fitting(message.value, ask.message_type)
            ok, text = reason is None, message.value
            if reason is None:
                self._consumed.append(message.number)
            else:
                self._invalid.append(message.number)
                text = values.invalid_message(ask.queue, reason)
        self._left -= 1
        self._apply(ask, ok, text, ask.issued_at)

    def _apply_end(self, what: tuple[Handle, StepEnd, str]) -> None:
        handle, end, how = what
        attempt = handle.attempts + (not end.never_ran)
        if isinstance(end.error, CodeFault):
            self._driver.fault = self._driver.fault or faults.placed(end.error)
            return
        work = handle.work
        assert work is not None, "only steps and polls end"
        if isinstance(handle, EffectHandle):
            self._apply_effect_end(handle, end, how, attempt)
            return
        verdict = attempts.judge(self._driver, handle, end, self._now)
        if handle.state is State.OPEN and isinstance(verdict, attempts.Again):
            self._apply_failed(handle, end, how, attempt, verdict.at)
            return
        final = verdict.error if isinstance(verdict, attempts.Final) else end.error
        if final is not None:
            ok, text = False, failures.encode_error(final)
        else:
            place = f"result of {handle.key}"
            ok, text = values.encode_result(end.value, work.result_type, place, self._max_value)
        self._apply(handle, ok, text, end.started_at, attempt)
        self._said(handle, attempt, end, None)

    def _apply_effect_end(
        self, handle: EffectHandle[Any], end: StepEnd, how: str, attempt: int
    ) -> None:
        match self._effects.ended(handle, end, attempt):
            case Came.TO_NOTHING if handle.state is State.OPEN:
                again_at = self._now + handle.retry_in_ms
                self._apply_failed(handle, end, how, attempt, again_at)
            case Came.TO_AN_END:
                assert end.error is not None, "it says why"
                self._apply(
                    handle, False, failures.encode_error(end.error), end.started_at, attempt
                )
                self._said(handle, attempt, end, None)
            case _:
                self._said(handle, attempt, end, None)

    def _apply_failed(
        self, handle: Handle, end: StepEnd, how: str, attempt: int, again_at: int
    ) -> None:
        handle.attempts = attempt
        handle.errors += how != "empty" and end.error is not None
        handle.retry_at = again_at
        self._waiting.touch(handle)
        error = None if end.error is None else failures.encode_error(end.error)
        kind = "empty" if end.error is None else how
        self._attempts.append(
            Attempt(
                handle.key,
                handle.kind,
                attempt,
                end.started_at,
                self._now,
                kind,
                error,
                again_at,
            )
        )
        self._said(handle, attempt, end, again_at)

    def _apply(
        self, handle: Handle, ok: bool, text: str, started_at: int | None, attempt: int = 1
    ) -> None:
        driver = self._driver
        entry = Entry(
            position=driver.position,
            kind=handle.kind,
            step_key=handle.key,
            ok=ok,
            value=text,
            at=max(self._now, driver.moment),
            started_at=started_at,
            attempt=attempt,
            label=handle.label,
            withdrawn=handle.state is not State.OPEN,
        )
        if driver.fault is not None:
            # What has ended is not lost: the next delivery replays it.
            driver.fresh.append(entry)
            driver.position += 1
        else:
            driver.apply(handle, entry)


def _nothing(*_: Any) -> None:
    """Nobody is told any more."""


__all__ = ["Applying", "Taken"]
