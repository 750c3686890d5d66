"""Handles of operations on stores: what is asked, changed and waited for (spec section 7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from yieldstar_cli.engine.operations import Site, SpawnedHandle
from yieldstar_cli.engine.outside import AskHandle
from yieldstar_cli.model import Action, Kind, Reading

if TYPE_CHECKING:
    from yieldstar_cli.engine.driver import Driver

S = TypeVar("S")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class StoreRef:
    """Which store, and what its state is."""

    name: str
    store_id: str
    state_type: Any

    @property
    def key(self) -> tuple[str, str]:
        """Name and ID: its identity (spec S1)."""
        return self.name, self.store_id

    @property
    def label(self) -> str:
        """For people."""
        return f"{self.name} {self.store_id}"


@dataclass(frozen=True, slots=True)
class Snapshot(Generic[S]):
    """A store's state at one version; changing it changes nothing (spec S2)."""

    state: S
    version: int
    instance: str


class StoreAsk(AskHandle[T_co]):
    """A question about a store's state: `get`, or `select` with its function."""

    __slots__ = ("fn", "store")

    def __init__(
        self,
        driver: Driver,
        kind: Kind,
        key_base: str,
        site: Site,
        store: StoreRef,
        fn: Callable[[Any], Any] | None = None,
        result_type: Any = Any,
    ) -> None:
        super().__init__(driver, kind, key_base, store.label, site, result_type=result_type)
        self.store = store
        self.fn = fn


class StoreChange(StoreAsk[T_co]):
    """An update: it reads the state at a look, and the next commit carries what came of it."""

    __slots__ = ("intent",)

    def __init__(
        self,
        driver: Driver,
        key_base: str,
        site: Site,
        store: StoreRef,
        fn: Callable[[Any], Any],
    ) -> None:
        super().__init__(driver, Kind.STORE_UPDATE, key_base, site, store, fn)
        #: The change computed from the last look; None before it.
        self.intent: Action | None = None


class StoreWatch(SpawnedHandle[T_co]):
    """A wait on a store's state: `when`, or `take` with its claim (spec S4-S6)."""

    __slots__ = (
        "claim",
        "evaluated",
        "fn",
        "instance",
        "intent",
        "readings",
        "result_type",
        "store",
    )

    def __init__(
        self,
        driver: Driver,
        kind: Kind,
        key_base: str,
        site: Site,
        store: StoreRef,
        fn: Callable[[Any], Any],
        claim: Callable[[Any, Any], object] | None,
        result_type: Any,
    ) -> None:
        super().__init__(driver, kind, key_base, store.label, site)
        self.watched = True
        self.store = store
        self.fn = fn
        self.claim = claim
        self.result_type = result_type
        #: True once it was asked in vain of the state as last read: then `readings` say why.
        self.evaluated = False
        self.instance: str | None = None
        self.readings: tuple[Reading, ...] = ()
        #: For `take`: the claim computed from the last look.
        self.intent: Action | None = None


__all__ = ["Snapshot", "StoreAsk", "StoreChange", "StoreRef", "StoreWatch"]
