"""Messages of an execution, and what it sends to others (spec section 6)."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from yieldstar_cli import clock, codec
from yieldstar_cli.engine import naming
from yieldstar_cli.engine.options import Span, StepParts
from yieldstar_cli.engine.outside import ActionHandle, AskHandle, MessageHandle, direct
from yieldstar_cli.model import Kind, Send, SendAnswer, WakeOther

if TYPE_CHECKING:
    from yieldstar_cli.engine.operations import Handle

T = TypeVar("T")

#: How long a message waits for an execution that is not admitted yet (spec M1).
TTL = "24h"
#: How many messages one batch may have at most.
LARGEST_BATCH = 10_000


class Messaging(StepParts):
    """The operations on queues."""

    __slots__ = ()

    @overload
    def message(self, queue: str) -> Handle[Any]: ...
    @overload
    def message(self, queue: str, type_: type[T]) -> Handle[T]: ...
    @overload
    def message(self, queue: str, type_: Any) -> Handle[Any]: ...
    def message(self, queue: str, type_: Any = Any) -> Handle[Any]:
        """A handle for the next message of `queue`, as `type_`.

        It takes one only while it is awaited: one that loses a select takes none (spec O4). Of
        several on one queue, the one that began to wait first gets the first message. A message
        that does not fit `type_` is consumed and raises InvalidMessage at the await (spec M2).
        """
        return self._message(Kind.MESSAGE, queue, type_, 1)

    @overload
    def messages(self, queue: str, *, max: int = 100) -> Handle[list[Any]]: ...
    @overload
    def messages(
        self,
        queue: str,
        type_: type[T],
        *,
        max: int = 100,
    ) -> Handle[list[T]]: ...
    @overload
    def messages(
        self,
        queue: str,
        type_: Any,
        *,
        max: int = 100,
    ) -> Handle[list[Any]]: ...
    def messages(
        self,
        queue: str,
        type_: Any = Any,
        *,
        max: int = 100,  # noqa: A002 - the contract's word
    ) -> Handle[list[Any]]:
        """A handle for the next batch of `queue`: from one to `max` messages, in order.

        A batch ends before a message that does not fit `type_`; that one raises InvalidMessage
        by itself (spec M2).
        """
        if type(max) is not int or not 1 <= max <= LARGEST_BATCH:
            raise ValueError(f"max is a whole number from 1 to {LARGEST_BATCH}, not {max!r}")
        return self._message(Kind.MESSAGES, queue, type_, max)

    @overload
    def try_message(self, queue: str) -> Coroutine[Any, Any, Any]: ...
    @overload
    def try_message(self, queue: str, type_: type[T]) -> Coroutine[Any, Any, T | None]: ...
    @overload
    def try_message(self, queue: str, type_: Any) -> Coroutine[Any, Any, Any]: ...
    def try_message(self, queue: str, type_: Any = Any) -> Coroutine[Any, Any, Any]:
        """The next message of `queue`, or None if there is none now; recorded, never waits."""
        return self._ask("try_message", Kind.TRY_MESSAGE, queue, type_)

    def queue_depth(self, queue: str) -> Coroutine[Any, Any, int]:
        """How many messages of `queue` are unread now; recorded."""
        return self._ask("queue_depth", Kind.QUEUE_DEPTH, queue, Any)

    def send(
        self,
        execution_id: str,
        queue: str,
        value: object = None,
        *,
        ttl: Span = TTL,
    ) -> Coroutine[Any, Any, SendAnswer]:
        """Send a message to an execution, exactly once: "delivered", "buffered" or "refused".

        To one that is not admitted yet it is buffered for `ttl`; one that has ended refuses it.
        Raises UnserializableValue at the call for a value that cannot be stored. Source: spec M1.
        """
        self._only_key("send")
        driver = self._driver
        driver.check_running()
        _check_id(execution_id)
        naming.check_key(queue)
        text = encoded_message(value)
        ttl_ms = clock.span_ms(ttl, what="ttl")
        if ttl_ms <= 0:
            raise ValueError(f"ttl must be longer than nothing: {ttl!r}")
        site = naming.call_site()
        intent = Send("", 0, execution_id, queue, text, ttl_ms)
        handle: ActionHandle[SendAnswer] = ActionHandle(
            driver, Kind.SEND, self._key or queue, f"{execution_id} {queue}", site, intent
        )
        return direct(driver, "step.send(...)", site, handle)

    def wake(
        self, execution_id: str
    ) -> Coroutine[Any, Any, Literal["requested", "ignored", "not_found"]]:
        """Ask for a look at another execution, exactly once (spec E6)."""
        self._only_key("wake")
        driver = self._driver
        driver.check_running()
        _check_id(execution_id)
        site = naming.call_site()
        handle: ActionHandle[Literal["requested", "ignored", "not_found"]] = ActionHandle(
            driver,
            Kind.WAKE,
            self._key or "wake",
            execution_id,
            site,
            WakeOther("", 0, execution_id),
        )
        return direct(driver, "step.wake(...)", site, handle)

    def _message(self, kind: Kind, queue: str, type_: Any, most: int) -> Handle[Any]:
        self._only_key(str(kind))
        self._driver.check_running()
        naming.check_key(queue)
        codec.check_type(type_)
        made: MessageHandle[Any] = MessageHandle(
            self._driver, kind, queue, type_, most, naming.call_site(3)
        )
        if self._key is not None:
            made.key_base = self._key
        return made

    def _ask(self, name: str, kind: Kind, queue: str, type_: Any) -> Coroutine[Any, Any, Any]:
        self._only_key(name)
        driver = self._driver
        driver.check_running()
        naming.check_key(queue)
        codec.check_type(type_)
        site = naming.call_site(3)
        handle: AskHandle[Any] = AskHandle(
            driver, kind, self._key or queue, queue, site, queue=queue, message_type=type_
        )
        return direct(driver, f"step.{name}(...)", site, handle)


def encoded_message(value: object) -> str:
    """A message as it is stored. Raises UnserializableValue. Source: spec V1."""
    return codec.encode_itself(value, place="message")


def _check_id(execution_id: object) -> None:
    if not isinstance(execution_id, str) or not execution_id:
        raise TypeError(f"an execution ID is text, not {execution_id!r}")


__all__ = ["Messaging", "encoded_message"]
