"""What the last looks found for one delivery and nobody has taken yet (spec R4, M2)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from yieldstar_cli.engine.outside import ActionHandle, AskHandle, ChildHandle
from yieldstar_cli.engine.store_handles import StoreAsk, StoreWatch
from yieldstar_cli.model import Arrived, CancelRequested, Ended, Kind, Look, StoreRecord

if TYPE_CHECKING:
    from yieldstar_cli.engine.driver import Driver
    from yieldstar_cli.model import Delivery
    from yieldstar_cli.storage.contract import Deliveries
    from yieldstar_cli.worker.waiting import Waiting

#: How many messages of one queue a look reads ahead of what is awaited.
AHEAD = 64


class Looks:
    """Messages and ends that were read; the commit that records their use consumes them."""

    __slots__ = (
        "_deliveries",
        "_delivery",
        "_driver",
        "_read",
        "_waiting",
        "answers",
        "arrived",
        "cancel",
        "ended",
        "paused",
        "stale",
        "uncommitted",
        "watched",
    )

    def __init__(
        self, deliveries: Deliveries, delivery: Delivery, driver: Driver, waiting: Waiting
    ) -> None:
        self._deliveries = deliveries
        self._delivery = delivery
        self._driver = driver
        self._waiting = waiting
        self.arrived: dict[str, deque[Arrived]] = {}
        self.ended: dict[str, Ended] = {}
        #: A request to cancel that no delivery has recorded.
        self.cancel: CancelRequested | None = None
        self.paused = False
        #: True when the file may say something new.
        self.stale = False
        #: The questions that the last look answered.
        self.answers: list[tuple[AskHandle[Any], Look]] = []
        #: Awaited stores as the last look found them, until somebody has asked what that means.
        self.watched: list[tuple[StoreWatch[Any], StoreRecord | None]] = []
        #: How many messages of each queue are taken and not yet committed.
        self.uncommitted: dict[str, int] = {}
        #: The last message read from each queue: what is read next comes after it.
        self._read: dict[str, int] = {}

    def refresh(self) -> None:
        """Look again."""
        self.stale = False
        asks = [ask for ask in self._driver.asks if self._askable(ask)]
        queues = {
            queue: (self._read.get(queue, 0), wanted)
            for queue, wanted in self._wanted(asks).items()
        }
        look = self._deliveries.look(
            self._delivery,
            queues=queues,
            depths=[ask.queue for ask in asks if ask.kind is Kind.QUEUE_DEPTH],
            statuses=[ask.execution_id for ask in asks if ask.kind is Kind.STATUS],
            stores=self._stores(asks),
        )
        for message in look.arrived:
            self.arrived.setdefault(message.queue, deque()).append(message)
            self._read[message.queue] = message.number
        for end in look.ended:
            self.ended[end.step_key] = end
        self.cancel = look.cancel
        self.paused = look.paused
        self.answers = [(ask, look) for ask in asks]
        self.watched = [
            (watch, look.stores.get(watch.store.key)) for watch in self._waiting.watches
        ]

    def _stores(self, asks: list[AskHandle[Any]]) -> list[tuple[str, str]]:
        """Which stores to read, each once."""
        wanted = {ask.store.key: None for ask in asks if isinstance(ask, StoreAsk)}
        return list(wanted | {watch.store.key: None for watch in self._waiting.watches})

    @property
    def found(self) -> bool:
        """True while something that a look found waits to be taken."""
        return bool(self.answers or self.watched or self.arrived or self.ended)

    @property
    def asked(self) -> bool:
        """True while a question is open that a look would answer."""
        if not self._driver.asks and not self._waiting.watches:
            return False
        return any(self._askable(ask) for ask in self._driver.asks) or any(
            not watch.evaluated and watch.intent is None for watch in self._waiting.watches
        )

    def take(self, queue: str) -> Arrived:
        """Take the first message that was read of `queue`."""
        messages = self.arrived[queue]
        message = messages.popleft()
        if not messages:
            del self.arrived[queue]
        self.uncommitted[queue] = self.uncommitted.get(queue, 0) + 1
        return message

    def unread(self, queue: str, look: Look) -> int:
        """How many messages of `queue` are left, given what is taken and not yet committed."""
        return max(0, look.depths.get(queue, 0) - self.uncommitted.get(queue, 0))

    def _wanted(self, asks: list[AskHandle[Any]]) -> dict[str, int]:
        """How many more messages of each queue are worth reading."""
        wanted: dict[str, int] = {}
        for queue, handles in self._waiting.queues.items():
            wanted[queue] = max(AHEAD, sum(handle.most for handle in handles))
        for ask in asks:
            if ask.kind is Kind.TRY_MESSAGE:
                wanted[ask.queue] = wanted.get(ask.queue, 0) + 1
        for queue in list(wanted):
            wanted[queue] -= len(self.arrived.get(queue, ()))
            if wanted[queue] <= 0:
                del wanted[queue]
        return wanted

    def _askable(self, ask: AskHandle[Any]) -> bool:
        """False for a question about a child whose start is not recorded yet."""
        if ask.kind is not Kind.STATUS:
            return True
        return not any(
            isinstance(action, ActionHandle)
            and isinstance(action.child, ChildHandle)
            and action.child.execution_id == ask.execution_id
            for action in self._driver.actions
        )
