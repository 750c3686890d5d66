"""Stores: durable shared values that workflows read, change and wait for (spec S1-S6)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from yieldstar_cli import clock, codec
from yieldstar_cli.engine import naming
from yieldstar_cli.engine.operations import Operation, wait_any
from yieldstar_cli.engine.options import Span, StepParts
from yieldstar_cli.engine.outside import ActionHandle, direct
from yieldstar_cli.engine.store_handles import (
    Snapshot,
    StoreAsk,
    StoreChange,
    StoreRef,
    StoreWatch,
)
from yieldstar_cli.engine.values import result_type
from yieldstar_cli.engine.views import check_pure
from yieldstar_cli.errors import InvalidState, UnserializableValue
from yieldstar_cli.model import ChangeStore, Kind, OpenStore

if TYPE_CHECKING:
    from yieldstar_cli.engine.driver import Driver

S = TypeVar("S")
T = TypeVar("T")

_NOTHING: Any = object()


class Store(Generic[S]):
    """A store that was opened; its operations are recorded like any other.

    Functions given to it are plain and pure: they run outside of any transaction, on a copy, and
    again when somebody else was quicker (spec S2).
    """

    __slots__ = ("_driver", "_ref")

    def __init__(self, driver: Driver, ref: StoreRef) -> None:
        self._driver = driver
        self._ref = ref

    @property
    def name(self) -> str:
        """Its name: the type's, or the one given."""
        return self._ref.name

    @property
    def id(self) -> str:
        """Which of that name."""
        return self._ref.store_id

    def get(self) -> Coroutine[Any, Any, Snapshot[S]]:
        """The state now, with its version. Raises StoreMissing where it was deleted."""
        return self._ask("get", Kind.STORE_GET, None, Any)

    def select(self, fn: Callable[[S], T]) -> Coroutine[Any, Any, T]:
        """What `fn` says of a read-only view of the state now; only that is recorded."""
        check_pure(fn)
        return self._ask("select", Kind.STORE_SELECT, fn, result_type(fn))

    def update(self, fn: Callable[[S], S | None]) -> Coroutine[Any, Any, int]:
        """Change the state: `fn` changes it in place, or returns a new one. Gives the new version.

        Raises StoreMissing, InvalidState (nothing is changed then), and what `fn` raises.
        """
        check_pure(fn)
        driver, site = self._here()
        handle: StoreChange[int] = StoreChange(driver, self._ref.name, site, self._ref, fn)
        return direct(driver, "store.update(...)", site, handle)

    def update_from(
        self, snapshot: Snapshot[S], fn: Callable[[S], S | None]
    ) -> Coroutine[Any, Any, int]:
        """As `update`, of exactly that snapshot. Raises StoreChanged where it is another by now."""
        check_pure(fn)
        _check_snapshot(snapshot)
        text = changed(snapshot_text(self._ref, snapshot), self._ref, fn)
        return self._change("update_from", Kind.STORE_UPDATE, snapshot, text)

    def delete_from(self, snapshot: Snapshot[S]) -> Coroutine[Any, Any, None]:
        """Delete the store, as it is in that snapshot. Raises StoreChanged."""
        _check_snapshot(snapshot)
        return cast(
            "Coroutine[Any, Any, None]",
            self._change("delete_from", Kind.STORE_DELETE, snapshot, None),
        )

    def when(
        self, fn: Callable[[S], T], *, deadline: Span | datetime | None = None
    ) -> Coroutine[Any, Any, T]:
        """Wait until `fn` says something true of a read-only view of the state; that is the result.

        Raises StepTimeout once `deadline` has passed (a span from now, or a moment) and it is not
        true; a match wins over a deadline that has passed (spec S6).
        """
        check_pure(fn)
        driver, site = self._here()
        handle: StoreWatch[T] = StoreWatch(
            driver, Kind.STORE_WHEN, self._ref.name, site, self._ref, fn, None, result_type(fn)
        )
        if isinstance(deadline, datetime):
            handle.due_at = clock.moment_ms(deadline)
        elif deadline is not None:
            handle.due_at = driver.moment + clock.span_ms(deadline, what="deadline")
        return direct(driver, "store.when(...)", site, handle)

    def take(
        self, select: Callable[[S], T | None], claim: Callable[[S, T], object]
    ) -> Coroutine[Any, Any, T]:
        """Wait until `select` gives a plain value of the view, then `claim(state, value)`.

        Test and claim are one commit: two takers never get the same (spec S5). The result is the
        value.
        """
        check_pure(select)
        check_pure(claim)
        driver, site = self._here()
        handle: StoreWatch[T] = StoreWatch(
            driver,
            Kind.STORE_TAKE,
            self._ref.name,
            site,
            self._ref,
            select,
            claim,
            result_type(select),
        )
        return direct(driver, "store.take(...)", site, handle)

    # --- inside ----------------------------------------------------------------------------

    def _here(self) -> tuple[Driver, tuple[str, int]]:
        self._driver.check_running()
        return self._driver, naming.call_site(3)

    def _ask(
        self, name: str, kind: Kind, fn: Callable[[Any], Any] | None, type_: Any
    ) -> Coroutine[Any, Any, Any]:
        self._driver.check_running()
        site = naming.call_site(3)
        handle: StoreAsk[Any] = StoreAsk(
            self._driver, kind, self._ref.name, site, self._ref, fn, type_
        )
        return direct(self._driver, f"store.{name}(...)", site, handle)

    def _change(
        self, name: str, kind: Kind, snapshot: Snapshot[S], text: str | None
    ) -> Coroutine[Any, Any, int]:
        self._driver.check_running()
        site = naming.call_site(3)
        intent = ChangeStore(
            "",
            0,
            str(kind),
            *self._ref.key,
            snapshot.instance,
            snapshot.version,
            text,
            fails=True,
        )
        handle: ActionHandle[int] = ActionHandle(
            self._driver, kind, self._ref.name, self._ref.label, site, intent
        )
        return direct(self._driver, f"store.{name}(...)", site, handle)


class Storing(StepParts):
    """The operation that opens a store."""

    __slots__ = ()

    def store(
        self,
        type_: type[S],
        id: str | None = None,  # noqa: A002 - the contract's word
        *,
        initial: S = _NOTHING,
        name: str | None = None,
    ) -> Coroutine[Any, Any, Store[S]]:
        """Open the store of that type and ID; without an ID the execution's own (spec S1).

        With `initial` it is created where it is not there; without, StoreMissing is raised then.
        Its name is the type's, or `name`. Raises InvalidState for an `initial` that does not fit.
        """
        self._only_key("store")
        driver = self._driver
        driver.check_running()
        codec.check_type(type_)
        ref = StoreRef(store_name(type_, name), id or driver.execution_id, type_)
        text = None if initial is _NOTHING else encoded_state(initial, ref)
        site = naming.call_site()
        intent = OpenStore("", 0, *ref.key, text)
        handle: ActionHandle[Any] = ActionHandle(
            driver, Kind.STORE, self._key or ref.name, ref.label, site, intent
        )

        def body() -> Generator[Any, Any, Store[S]]:
            handle.direct = True
            yield from wait_any(driver, (handle,))
            handle.result()
            return Store(driver, ref)

        return Operation(driver, "step.store(...)", site, body, None)


def _check_snapshot(snapshot: object) -> None:
    if not isinstance(snapshot, Snapshot):
        raise TypeError(
            f"expected the snapshot that store.get() gave, not {type(snapshot).__name__}:"
            " it names the instance and the version that the change is of"
        )


def store_name(type_: Any, name: str | None = None) -> str:
    """The name of a store of `type_`: the one given, or the type's. Raises ValueError."""
    given = name if name is not None else getattr(type_, "__name__", None)
    if not isinstance(given, str) or (name is None and not isinstance(type_, type)):
        raise ValueError(f'a store of {type_} needs a name: step.store({type_}, name="...")')
    made = given.replace("_", "-")
    naming.check_key(made)
    return made


def encoded_state(state: object, ref: StoreRef) -> str:
    """A state as it is stored: checked against its type. Raises InvalidState (spec S2)."""
    try:
        return codec.encode(state, ref.state_type, place="state")
    except UnserializableValue as error:
        raise InvalidState(f"store {ref.label}: {error}") from None


def changed(text: str, ref: StoreRef, fn: Callable[[Any], Any]) -> str:
    """The state that `fn` makes of a copy of the stored one. Raises what `fn` raises."""
    state = state_of(text, ref)
    returned = fn(state)
    return encoded_state(state if returned is None else returned, ref)


def state_of(text: str, ref: StoreRef) -> Any:
    """A state as its type says. Raises InvalidState where it fits no more (spec S2)."""
    try:
        return codec.decode(text, ref.state_type)
    except codec.DecodeError as error:
        raise InvalidState(f"the state of store {ref.label} does not fit: {error}") from None


def snapshot_text(ref: StoreRef, snapshot: Snapshot[Any]) -> str:
    """The text of a snapshot's state."""
    return encoded_state(snapshot.state, ref)


__all__ = ["Store", "Storing", "changed", "encoded_state", "state_of", "store_name"]
