"""The effects of one delivery: the right to try one, and what its tries come to (spec F1).

A round asks for the right; once it is granted a try looks the effect up or performs it; a round
settles it, or lets go of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any

from yieldstar_cli.engine import faults, values
from yieldstar_cli.engine.effect_answers import NotFound, Settled, Unknown
from yieldstar_cli.engine.effects import EffectHandle, Standing
from yieldstar_cli.engine.operations import DurableHandle, State
from yieldstar_cli.errors import Fatal
from yieldstar_cli.model import Hold, Kind, LetGoEffect, SettleEffect

if TYPE_CHECKING:
    from yieldstar_cli.engine.attempts import StepEnd
    from yieldstar_cli.engine.driver import Driver
    from yieldstar_cli.worker.tries import Tries
    from yieldstar_cli.worker.waiting import Waiting

Handle = EffectHandle[Any]


class Came(Enum):
    """What the end of a try came to."""

    #: It goes on, or the next commit ends it.
    TO_MORE = 0
    #: Nobody can say whether it was done: it is looked up after a pause.
    TO_NOTHING = 1
    #: Its function says that it is never to be done: the operation fails.
    TO_AN_END = 2


class Effects:
    """What a delivery does about the effects that its function has asked for."""

    __slots__ = ("_driver", "_max_value", "_tries", "_waiting")

    def __init__(self, driver: Driver, waiting: Waiting, tries: Tries, *, max_value: int) -> None:
        self._driver = driver
        self._waiting = waiting
        self._tries = tries
        self._max_value = max_value

    def begin(self) -> None:
        """A delivery begins: a right that an earlier one had is over."""
        for handle in self._driver.effects:
            handle.standing, handle.intent = Standing.NOT_ASKED, None

    def ask(self, now: int) -> None:
        """Ask for the right to each that may be tried now."""
        for handle in self._driver.effects:
            pauses = handle.retry_at is not None and handle.retry_at > now
            if handle.state is State.OPEN and handle.wants and not pauses:
                handle.intent = handle.hold
                self._driver.actions[handle] = None

    def ask_again(self) -> None:
        """Something has happened: what another tried may be free, or settled."""
        for handle in self._driver.effects:
            if handle.standing is Standing.BUSY:
                handle.standing = Standing.NOT_ASKED
                self._waiting.touch(handle)

    def told(self, holds: Iterable[Hold]) -> None:
        """What a commit says of the rights it asked for."""
        for hold in holds:
            handle = self._driver.issued[Kind.EFFECT, hold.step_key]
            assert isinstance(handle, EffectHandle), "its key is of an effect"
            handle.intent = None
            if hold.state == "busy":
                handle.standing = Standing.BUSY
            else:
                handle.standing = Standing.HELD
                handle.arm(performing=hold.state in ("certain", "still"))
            self._waiting.touch(handle)

    def let_go(self, *, suspends: bool = False) -> None:
        """Rights to what does not run any more go back with this round.

        To what was withdrawn; and to everything when the delivery suspends, since what it would
        try next waits for more than this worker: others need not (spec E14).
        """
        for handle in list(self._driver.effects):
            if handle in self._tries or handle.intent is not None:
                continue
            if handle.standing is Standing.HELD:
                if suspends or handle.state is not State.OPEN:
                    self._give_back(handle)
            elif handle.state is not State.OPEN:
                del self._driver.effects[handle]

    @staticmethod
    def only_let_go(actions: Iterable[object]) -> bool:
        """Whether a round with these may suspend: a right goes back with it, and nothing more."""
        return all(
            isinstance(handle, EffectHandle) and isinstance(handle.intent, LetGoEffect)
            for handle in actions
        )

    @property
    def running(self) -> bool:
        """True while a try runs: until it has ended, nobody can say what was done."""
        return any(handle in self._tries for handle in self._driver.effects)

    def ended(self, handle: Handle, end: StepEnd, attempt: int) -> Came:
        """Take up how a try ended."""
        if end.error is not None:
            self._give_back(handle)
            return Came.TO_AN_END if isinstance(end.error, Fatal) else Came.TO_NOTHING
        value = end.value
        if not handle.performing:
            if isinstance(value, Unknown):
                self._give_back(handle)
                return Came.TO_NOTHING
            if isinstance(value, NotFound) and handle.state is not State.OPEN:
                self._give_back(handle)  # nobody asks for it any more
                return Came.TO_MORE
            if isinstance(value, NotFound):
                # While it was looked up the right may have gone to another: asked once more,
                # nothing but the call itself lies between the answer and the try.
                handle.intent = handle.hold
                self._driver.actions[handle] = None
                return Came.TO_MORE
            if not isinstance(value, Settled):
                self._driver.fault = self._driver.fault or faults.no_answer(handle, value)
                return Came.TO_MORE
            value = value.result
        text = self.result_text(handle, value)
        if text is not None:
            handle.standing = Standing.NOT_ASKED
            handle.intent = SettleEffect(
                "", 0, handle.effect_id, text, started_at=end.started_at, attempt=attempt
            )
            self._driver.actions[handle] = None
        return Came.TO_MORE

    def late(self, handle: DurableHandle[Any], end: StepEnd) -> SettleEffect | None:
        """What a try that ended after its delivery found out, if anything."""
        if not isinstance(handle, EffectHandle) or end.error is not None:
            return None
        value = end.value
        if not handle.performing:
            if not isinstance(value, Settled):
                return None
            value = value.result
        text = self.result_text(handle, value)
        return None if text is None else SettleEffect("", 0, handle.effect_id, text)

    def result_text(self, handle: Handle, value: object) -> str | None:
        """The result as it is kept; None for what cannot be, which is a fault of the code."""
        assert handle.work is not None, "made with it"
        place = f"result of {handle.key}"
        ok, text = values.encode_result(value, handle.work.result_type, place, self._max_value)
        if ok:
            return text
        self._driver.fault = self._driver.fault or faults.unusable_result(handle, text)
        return None

    def _give_back(self, handle: Handle) -> None:
        handle.let_go()
        self._driver.actions[handle] = None


__all__ = ["Effects"]
