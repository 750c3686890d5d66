"""Which operations a driver has issued, and which of them are open, awaited or to be done."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from yieldstar_cli.engine.effects import EffectHandle
from yieldstar_cli.engine.operations import BranchCancelled, DurableHandle, State
from yieldstar_cli.engine.outside import ActionHandle, AskHandle, carried
from yieldstar_cli.engine.store_handles import StoreChange, StoreWatch
from yieldstar_cli.model import Action

if TYPE_CHECKING:
    from yieldstar_cli.engine.operations import Branch, Handle, Site

_OPEN = State.OPEN
#: How many children and messages one commit carries out at most; the rest go with the next.
ACTIONS_AT_ONCE = 1_000


#: What the next commit may carry out.
Doing = ActionHandle[Any] | StoreChange[Any] | StoreWatch[Any] | EffectHandle[Any]


class Ledger:
    """The operations of one incarnation."""

    # A worker keeps thousands of them: without a dict of its own each is half as large.
    __slots__ = (
        "actions",
        "asks",
        "carried",
        "current",
        "effects",
        "issued",
        "moment",
        "open",
        "performing",
        "touched",
        "unawaited",
    )

    def __init__(self, moment: int) -> None:
        #: The moment that `step.now()` shows.
        self.moment = moment
        #: The branch that is being stepped.
        self.current: Branch | None = None
        #: Issued operations by kind and key, resolved ones included.
        self.issued: dict[tuple[str, str], DurableHandle[Any]] = {}
        #: Issued operations that are open, in the order they were issued.
        self.open: dict[tuple[str, str], DurableHandle[Any]] = {}
        #: Of those: what has a function to run; questions for the next look; and what the next
        #: commit carries out, also when it was withdrawn by the function's end.
        self.performing: dict[DurableHandle[Any], None] = {}
        self.asks: dict[AskHandle[Any], None] = {}
        self.actions: dict[Doing, None] = {}
        #: Effects that are open, or that this execution has the right to.
        self.effects: dict[EffectHandle[Any], None] = {}
        #: What the commit under way carries of `actions`.
        self.carried: list[Doing] = []
        #: What has begun or ceased to be awaited since somebody took note.
        self.touched: dict[Handle[Any], None] = {}
        #: Operations made and not awaited yet: id -> (name, site, the branch that made it).
        self.unawaited: dict[int, tuple[str, Site, Branch | None]] = {}

    def assign_key(self, branch: Branch, kind: str, base: str) -> str:
        """The operation's key: the branch's prefix, the name, and its count from the second on."""
        counts = branch.counts
        used = (kind, base)
        counts[used] = count = counts.get(used, 0) + 1
        return f"{branch.prefix}{base}" if count == 1 else f"{branch.prefix}{base}#{count}"

    def next_key(self, branch: Branch, kind: str, base: str) -> str:
        """The key that the next such operation will get."""
        count = branch.counts.get((kind, base), 0) + 1
        return f"{branch.prefix}{base}" if count == 1 else f"{branch.prefix}{base}#{count}"

    def issue(self, handle: DurableHandle[Any], branch: Branch) -> None:
        """Give an operation its key; from now on it is open."""
        kind, key = handle.kind, handle.key
        if not key:
            handle.key = key = self.assign_key(branch, kind, handle.key_base)
        handle.issued_at = self.moment
        issued = self.issued
        handle.seq = len(issued) + 1
        handle.place = place = (kind, key)
        issued[place] = handle
        self.open[place] = handle
        work = handle.work
        if work is not None:
            self.performing[handle] = None
            if work.tag is not None:
                self.touched[handle] = None
            if isinstance(handle, EffectHandle):
                self.effects[handle] = None
        elif isinstance(handle, AskHandle):
            self.asks[handle] = None
        elif isinstance(handle, ActionHandle):
            self.actions[handle] = None

    def take_actions(self, at: int) -> tuple[Action, ...]:
        """What the next commit carries out, in the order asked for; `at` is its moment.

        A take goes alone: what ends with it, or before it, may be what it is raced with (spec O4).
        """
        taken = list(islice(self.actions, ACTIONS_AT_ONCE))
        for index, handle in enumerate(taken):
            if isinstance(handle, StoreWatch):
                del taken[max(index, 1) :]
                break
        made: list[Action] = []
        self.carried = []
        for handle in taken:
            del self.actions[handle]
            intent = handle.intent
            assert intent is not None, "what is to be done is known"
            self.carried.append(handle)
            withdrawn = handle.state is not _OPEN
            made.append(carried(intent, handle.key, at, withdrawn=withdrawn))
        return tuple(made)

    def let_go(self) -> None:
        """What was to be taken and is awaited no more is not taken (spec O4)."""
        for handle in list(self.actions):
            if isinstance(handle, StoreWatch) and not handle.waiters:
                del self.actions[handle]
                handle.evaluated, handle.intent = False, None

    def ask_again(self) -> None:
        """After a commit: what met another version of its store is computed anew (spec S2)."""
        taken, self.carried = self.carried, []
        for handle in taken:
            if isinstance(handle, EffectHandle):
                handle.intent = None
            if handle.state is not _OPEN:
                continue
            if isinstance(handle, StoreChange):
                handle.intent = None
                self.asks[handle] = None
            elif isinstance(handle, StoreWatch):
                handle.evaluated, handle.intent = False, None
                self.touched[handle] = None

    def withdraw(self, handle: DurableHandle[Any]) -> None:
        """Take an operation back: what it returns is given to nobody (spec O4)."""
        self.close(handle)
        if isinstance(handle, ActionHandle | StoreChange | StoreWatch):
            self.actions.pop(handle, None)
        elif isinstance(handle, EffectHandle) and handle.intent is handle.hold:
            # Not asked for any more. What was done, or may have been, is told all the same.
            self.actions.pop(handle, None)
            handle.intent = None
        handle.settle(None, BranchCancelled("the operation was cancelled"), State.WITHDRAWN)

    def forget(self) -> None:
        """Let go of all operations, which hold the driver: then none of it waits for a collector.

        Rings of references took 30 µs an execution to be found (the collector walks everything).
        """
        self.issued.clear()
        self.open.clear()
        self.performing.clear()
        self.asks.clear()
        self.actions.clear()
        self.effects.clear()
        self.touched.clear()
        self.carried.clear()

    def close(self, handle: DurableHandle[Any]) -> None:
        """It is open no more."""
        self.open.pop(handle.place, None)
        if handle.work is not None:
            self.performing.pop(handle, None)
        elif isinstance(handle, AskHandle):
            self.asks.pop(handle, None)
        if handle.watched or isinstance(handle, EffectHandle):
            self.touched[handle] = None
