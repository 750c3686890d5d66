"""Random programs on shared stores as plain data, and the workflow that interprets them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import strategies as st

from tests.engine.programs import work
from yieldstar_cli.engine.authoring import workflow
from yieldstar_cli.engine.operations import Handle
from yieldstar_cli.engine.step import Step
from yieldstar_cli.engine.store_handles import Snapshot
from yieldstar_cli.errors import MisplacedCall, StepTimeout, StoreChanged
from yieldstar_cli.model import StoreRecord

STORES = ("one", "two")
#: Who writes from outside.
OUTSIDE = "outside"


class Shelf(msgspec.Struct):
    """Things to take; and every change that was ever made to it, one line for each version."""

    things: list[str] = []
    changes: list[str] = []
    count: int = 0


def shelf_of(record: StoreRecord) -> Shelf:
    """The state in a record."""
    return msgspec.json.decode(record.state, type=Shelf)


def put_thing(who: str) -> Callable[[Shelf], None]:
    """An update that adds one thing, named after the version that it makes."""

    def put(shelf: Shelf) -> None:
        shelf.things.append(f"{who} {len(shelf.changes) + 1}")
        shelf.changes.append(f"put {who}")
        shelf.count += 1

    return put


def take_first(who: str) -> Callable[[Shelf, str], None]:
    """A claim on the thing that was selected."""

    def take(shelf: Shelf, thing: str) -> None:
        shelf.things.remove(thing)
        shelf.changes.append(f"take {who}")

    return take


def first(shelf: Shelf) -> str | None:
    """What a taker wants: reads one place of the things."""
    try:
        return shelf.things[0]
    except IndexError:
        return None


class Keeper:
    """One interpretation: what it was told, and the handles it holds."""

    def __init__(self, step: Step, no: int, rest: list[Any]) -> None:
        self.step = step
        self.no = no
        self.rest = rest
        self.who = f"{step.event.execution_id}/{no}"
        self.trace: list[Any] = []
        self.handles: list[Handle[Any]] = []
        self.stores: dict[str, Any] = {}

    async def node(self, node: list[Any]) -> None:
        """Do one thing."""
        kind, *args = node
        await getattr(self, f"do_{kind}")(*args)

    async def do_seq(self, nodes: list[Any]) -> None:
        for node in nodes:
            await self.node(node)

    async def say(self, what: str, awaitable: Any) -> None:
        """Await it and note its result or its error."""
        try:
            found = await awaitable
            self.trace.append([what, found.version if isinstance(found, Snapshot) else found])
        except Exception as error:
            self.trace.append([what, type(error).__name__])

    async def shelf(self, name: str) -> Any:
        """The store of that name, opened at its first use."""
        if name not in self.stores:
            self.stores[name] = await self.step.store(Shelf, name, initial=Shelf())
        return self.stores[name]

    async def do_open(self, name: str) -> None:
        self.stores.pop(name, None)
        await self.shelf(name)

    async def do_put(self, name: str) -> None:
        await self.say("put", (await self.shelf(name)).update(put_thing(self.who)))

    async def do_spoil(self, name: str) -> None:
        def spoil(shelf: Shelf) -> None:
            shelf.changes.append("spoilt")
            shelf.count = "many"  # type: ignore[assignment]

        await self.say("spoil", (await self.shelf(name)).update(spoil))

    async def do_get(self, name: str) -> None:
        await self.say("get", (await self.shelf(name)).get())

    async def do_select(self, name: str) -> None:
        await self.say("select", (await self.shelf(name)).select(lambda s: s.count))

    async def do_when(self, name: str, more: int, span: int | None) -> None:
        store = await self.shelf(name)
        await self.say("when", store.when(lambda s: s.count >= more, deadline=span))

    async def do_take(self, name: str) -> None:
        await self.say("take", (await self.shelf(name)).take(first, take_first(self.who)))

    async def do_from(self, name: str, pause: int, delete: bool) -> None:
        """A change from a snapshot; somebody may be quicker, three times at most."""
        for _ in range(3):
            try:
                store = await self.shelf(name)
                seen = await store.get()
                if pause:
                    await self.step.sleep(pause)
                if delete:
                    await store.delete_from(seen)
                    self.trace.append(["deleted", seen.version])
                else:
                    self.trace.append(["from", await store.update_from(seen, put_thing(self.who))])
                return
            except StoreChanged:
                self.trace.append("changed")
            except Exception as error:
                self.stores.pop(name, None)
                self.trace.append(type(error).__name__)

    async def do_hold(self, what: str, name: str) -> None:
        store = await self.shelf(name)
        match what:
            case "take":
                made = store.take(first, take_first(self.who))
            case "when":
                made = store.when(lambda s: len(s.things) > 1, deadline=2)
            case "put":
                made = store.update(put_thing(self.who))
            case _:
                made = store.get()
        self.handles.append(self.step.spawn(made))

    async def do_message(self) -> None:
        self.handles.append(self.step.message("a"))

    async def do_race(self, count: int, span: int) -> None:
        handles = [*self.handles[len(self.handles) - count :], self.step.timer(span)]
        won = await self.step.select(*handles)
        self.trace.append(["won", [h is won for h in handles].index(True)])
        await self.say("won", won)

    async def do_join(self, index: int, span: int) -> None:
        if self.handles:
            held = self.handles[index % len(self.handles)]
            await self.say("joined", self.step.timeout(held, span))

    async def do_cancel(self, index: int) -> None:
        held: Any = self.handles[index % len(self.handles)] if self.handles else None
        if hasattr(held, "cancel"):
            held.cancel()

    async def do_spawn(self, node: list[Any]) -> None:
        self.handles.append(self.step.spawn(self.node(node)))

    async def do_all(self, nodes: list[Any]) -> None:
        await self.step.all([self.node(node) for node in nodes])

    async def do_timeout(self, span: int, node: list[Any]) -> None:
        try:
            await self.step.timeout(self.node(node), span)
        except StepTimeout:
            self.trace.append("timeout")

    async def do_cleanup(self, node: list[Any], name: str) -> None:
        try:
            await self.node(node)
        finally:
            await self.do_put(name)

    async def do_run(self, n: int) -> None:
        await self.say("run", self.step.run(work, n))

    async def do_sleep(self, span: int) -> None:
        await self.step.sleep(span)

    async def do_send(self, target: str) -> None:
        await self.say("send", self.step.send(target, "a", self.who))

    async def do_continue(self) -> None:
        if self.rest:
            try:
                await self.step.continue_as({"acts": self.rest, "no": self.no + 1})
            except MisplacedCall:
                self.trace.append("misplaced")


@workflow
async def keeper(step: Step, acts: list[Any], no: int = 1) -> list[Any]:
    """Interprets the first of some programs; the others are for its next incarnations."""
    found = Keeper(step, no, acts[1:])
    await found.do_seq(acts[0])
    return found.trace


# --- what hypothesis draws -----------------------------------------------------------------------

names = st.sampled_from([STORES[0], STORES[0], STORES[1]])
spans = st.sampled_from([0, 1, 2, 3])
some = st.integers(0, 9)


def a(kind: str, *about: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """One kind of node."""
    return st.tuples(st.just(kind), *about)


leaves = st.one_of(
    a("put", names),
    a("put", names),
    a("take", names),
    a("take", names),
    a("when", names, st.integers(1, 5), st.sampled_from([None, 0, 1, 2, 3])),
    a("when", names, st.integers(1, 5), st.sampled_from([None, 0, 1, 2, 3])),
    a("from", names, st.sampled_from([0, 0, 1]), st.sampled_from([False, False, True])),
    a("hold", st.sampled_from(["take", "take", "when", "put", "get"]), names),
    a("hold", st.sampled_from(["take", "take", "when", "put", "get"]), names),
    a("race", st.integers(0, 4), spans),
    a("race", st.integers(0, 4), spans),
    a("join", some, spans),
    a("cancel", some),
    a("message"),
    a("spoil", names),
    a("get", names),
    a("select", names),
    a("open", names),
    a("run", some),
    a("sleep", spans),
    a("send", st.sampled_from(["k0", "k1", "k2"])),
)
nodes = st.recursive(
    leaves,
    lambda inner: st.one_of(
        a("seq", st.lists(inner, max_size=4)),
        a("spawn", inner),
        a("all", st.lists(inner, max_size=3)),
        a("timeout", spans, inner),
        a("cleanup", inner, names),
    ),
    max_leaves=6,
)
lives = st.lists(
    st.tuples(st.lists(nodes, min_size=1, max_size=6), st.booleans()).map(
        lambda drawn: [*drawn[0], ("continue",)] if drawn[1] else drawn[0]
    ),
    min_size=1,
    max_size=2,
)
keepers = st.sampled_from(["k0", "k1", "k2"])
happenings = st.one_of(
    a("put", names),
    a("put", names),
    a("put", names),
    a("note", names),
    a("delete", names),
    a("send", keepers),
    a("cancel", keepers),
    a("pause", keepers),
    a("resume", keepers),
    a("crash"),
)
events = st.lists(st.tuples(st.sampled_from([0, 1, 311, 1_009, 2_003]), happenings), max_size=8)
