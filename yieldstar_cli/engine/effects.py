"""Effects: what is looked up before it is done again, once for all executions (spec F1)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar, overload

from yieldstar_cli import clock, codec
from yieldstar_cli.engine import naming
from yieldstar_cli.engine.effect_answers import EffectAnswer
from yieldstar_cli.engine.functions import is_async, known
from yieldstar_cli.engine.operations import Site, SpawnedHandle, Work
from yieldstar_cli.engine.options import Span, StepParts
from yieldstar_cli.engine.outside import LONGEST_ID_BYTES, direct
from yieldstar_cli.model import HoldEffect, Kind, LetGoEffect, SettleEffect

if TYPE_CHECKING:
    from yieldstar_cli.engine.driver import Driver

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
I = TypeVar("I")  # noqa: E741 - the input's type

#: What is done with one effect in a commit.
EffectAction = HoldEffect | SettleEffect | LetGoEffect


class Standing(Enum):
    """Whether this execution may try the effect now."""

    #: It has not asked, or had to let go.
    NOT_ASKED = 0
    #: Another tries it: this one waits until that ends.
    BUSY = 1
    #: It has the right, which ends with its delivery.
    HELD = 2


class EffectHandle(SpawnedHandle[T_co]):
    """One effect; who performs it keeps here how far it is."""

    __slots__ = (
        "effect_id",
        "hold",
        "intent",
        "lookup",
        "perform",
        "performing",
        "retry_in_ms",
        "standing",
    )

    def __init__(
        self,
        driver: Driver,
        key_base: str,
        site: Site,
        hold: HoldEffect,
        lookup: Callable[[str, Any], Any],
        perform: Callable[[str, Any], Any],
        retry_in_ms: int,
    ) -> None:
        super().__init__(driver, Kind.EFFECT, key_base, hold.effect_id, site)
        self.effect_id = hold.effect_id
        #: What it asks for before each try; key and moment are put in when a round carries it.
        self.hold = hold
        self.lookup = lookup
        self.perform = perform
        #: How long it waits after a try that came to nothing.
        self.retry_in_ms = retry_in_ms
        self.standing = Standing.NOT_ASKED
        #: True when the next try performs it; else it looks it up.
        self.performing = False
        #: What the next commit is to do.
        self.intent: EffectAction | None = None

    @property
    def wants(self) -> bool:
        """True where it has to ask for the right to its next try."""
        return self.standing is Standing.NOT_ASKED and self.intent is None

    @property
    def waits(self) -> bool:
        """True while it can only wait: for another that tries it, or for the commit under way."""
        return self.standing is Standing.BUSY or self.intent is not None

    def arm(self, *, performing: bool) -> None:
        """The next try performs it, or looks it up."""
        self.performing = performing
        assert self.work is not None, "made with it"
        self.work.fn = fn = self.perform if performing else self.lookup
        self.work.asynchronous = is_async(fn)

    def let_go(self) -> LetGoEffect:
        """The right is given back with the next commit."""
        self.standing = Standing.NOT_ASKED
        intent = LetGoEffect("", 0, self.effect_id)
        self.intent = intent
        return intent


class Effecting(StepParts):
    """The operation that has an effect on the outside world."""

    __slots__ = ()

    @overload
    def effect(
        self,
        effect_id: str,
        *,
        operation: str,
        input: I = ...,
        lookup: Callable[[str, I], Awaitable[EffectAnswer[T]]]
        | Callable[[str, I], EffectAnswer[T]],
        perform: Callable[[str, I], Coroutine[Any, Any, T]],
        retry_in: Span = ...,
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def effect(
        self,
        effect_id: str,
        *,
        operation: str,
        input: I = ...,
        lookup: Callable[[str, I], Awaitable[EffectAnswer[T]]]
        | Callable[[str, I], EffectAnswer[T]],
        perform: Callable[[str, I], T],
        retry_in: Span = ...,
    ) -> Coroutine[Any, Any, T]: ...

    def effect(
        self,
        effect_id: str,
        *,
        operation: str,
        input: Any = None,  # noqa: A002
        lookup: Callable[[str, Any], Any],
        perform: Callable[[str, Any], Any],
        retry_in: Span = "10s",
    ) -> Coroutine[Any, Any, Any]:
        """Do something outside once: perform it, and after any doubt look it up before all else.

        `perform(effect_id, input)` does it and returns its result. `lookup(effect_id, input)`
        says `settled(result)`, `not_found` (then it is performed) or `unknown` (then it is looked
        up again in `retry_in`). What either raises leaves it in doubt, too: it is never given up.
        Both may be plain or async. Hand `effect_id` on as the idempotency key where the service
        takes one.

        One ID is one operation for all executions: with the same operation and input the stored
        result is given, with others EffectMismatch is raised; while another execution tries it,
        this one waits. Source: spec F1.
        """
        self._only_key("effect")
        driver = self._driver
        driver.check_running()
        for fn in (lookup, perform):
            if not callable(fn):
                raise naming.not_callable(fn)
        naming.check_key(operation)
        hold = HoldEffect(
            "", 0, _checked_id(effect_id), operation, codec.encode_itself(input, place="input")
        )
        pause = clock.span_ms(retry_in, what="retry_in")
        if pause <= 0:
            raise ValueError(f"retry_in must be longer than nothing: {retry_in!r}")
        site = naming.call_site()
        handle: EffectHandle[Any] = EffectHandle(
            driver, self._key or operation, site, hold, lookup, perform, pause
        )
        closures = driver.definition.closures
        handle.work = Work(lookup, (effect_id, input), {}, known(perform, closures), None, None)
        return direct(driver, "step.effect(...)", site, handle)


def _checked_id(effect_id: object) -> str:
    if not isinstance(effect_id, str):
        raise TypeError(f"an effect ID is text, not {type(effect_id).__name__}")
    if not effect_id or len(effect_id.encode("utf-8", "surrogatepass")) > LONGEST_ID_BYTES:
        raise ValueError(f"an effect ID has 1 to {LONGEST_ID_BYTES} bytes")
    if not effect_id.isprintable():
        raise ValueError(f"an effect ID has no control characters: {effect_id!r}")
    return effect_id


__all__ = ["EffectHandle", "Effecting", "Standing"]
