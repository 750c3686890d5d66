"""Random programs that deal with other executions, and the outside world that they live in."""

from __future__ import annotations

import zlib
from typing import Any

from hypothesis import strategies as st

from tests.engine.programs import Run, flaky, numbers, plain, seconds, work
from yieldstar_cli.engine.authoring import workflow
from yieldstar_cli.engine.operations import Handle
from yieldstar_cli.engine.outside import ExecutionHandle
from yieldstar_cli.engine.retry import RetryPolicy
from yieldstar_cli.engine.step import Step
from yieldstar_cli.errors import Cancelled, MisplacedCall

#: Every interpretation that was begun, by execution and incarnation; the last is the newest.
LIVES: dict[tuple[str, int], Run] = {}
QUEUES = ("a", "b")
#: Whom a program knows: the two that run from the start, one that ends at once, one that is
#: admitted later or never, and one that never is.
NAMES = ("p", "q", "r", "z", "nobody")


@workflow
async def small(step: Step, how: str, n: int, slow: bool = False) -> Any:
    """A child of few words; a slow one says nothing at the moment at which it was asked."""
    await _pause(step, slow)
    match how:
        case "fail":
            raise ValueError(f"small {n}")
        case "sleep":
            await step.sleep(n)
        case "wait":
            heard = await step.message("a")
            await _pause(step, slow)
            return heard
        case "run":
            await step.run(work, n - n % 5)
    return n


async def _pause(step: Step, slow: bool) -> None:
    if slow:
        await step.sleep((zlib.crc32(step.event.execution_id.encode()) % 1_997 + 1) / 1000)


class WorldRun(Run):
    """One interpretation of a program that knows of others."""

    def __init__(self, step: Step, refs: list[str], no: int, rest: list[Any], slow: bool) -> None:
        super().__init__(step)
        self.me = step.event.execution_id
        self.refs = refs
        self.no = no
        self.rest = rest
        self.slow = slow
        self.sent = 0

    # --- waiting -----------------------------------------------------------------------------

    async def say(self, what: str, awaitable: Any) -> None:
        """Await it and note its result or its error."""
        try:
            self.trace.append([what, await awaitable])
        except Exception as error:
            self.trace.append([what, type(error).__name__, str(error)])

    async def do_join(self, index: int) -> None:
        handle = self.held(index)
        if handle is not None:
            await self.say("joined", handle)

    async def do_join_soon(self, index: int, span: int) -> None:
        handle = self.held(index)
        if handle is not None:
            await self.say("soon", self.step.timeout(handle, span))

    async def do_all_held(self, count: int, span: int) -> None:
        handles = self.handles[len(self.handles) - count :]
        await self.say("all", self.step.timeout(self.step.all(handles), span))

    async def do_select(self, count: int, span: int) -> None:
        handles = [*self.handles[len(self.handles) - count :], self.step.timer(span)]
        won = await self.step.select(*handles)
        self.trace.append(["won", [h is won for h in handles].index(True)])
        await self.say("won", won)

    async def do_cancel(self, index: int) -> None:
        handle = self.held(index)
        if isinstance(handle, Handle) and not isinstance(handle, ExecutionHandle):
            await super().do_cancel(index)

    async def do_swallow(self, node: list[Any]) -> None:
        try:
            await self.node(node)
        except Cancelled:
            self.trace.append("swallowed")

    async def do_swallow_all(self, node: list[Any]) -> None:
        try:
            await self.node(node)
        except BaseException as error:
            self.trace.append(["swallowed", type(error).__name__])

    async def do_tagged(self, n: int) -> None:
        await self.say("tagged", self.step.using(tag="gpu").run(work, n))

    async def do_spawn_tagged(self, failures: int) -> None:
        policy = RetryPolicy(attempts=3, first="1s")
        tagged = self.step.using(tag="gpu", retry=policy)
        self.handles.append(self.step.spawn(tagged.run(flaky, failures)))

    # --- messages ----------------------------------------------------------------------------

    async def do_message(self, queue: str, typed: bool, span: int) -> None:
        handle = self.step.message(queue, str) if typed else self.step.message(queue)
        await self.say("message", self.step.timeout(handle, span))

    async def do_message_only(self, queue: str) -> None:
        await self.say("message", self.step.message(queue))

    async def do_hold_message(self, queue: str, typed: bool) -> None:
        made: Any = self.step.message(queue, str) if typed else self.step.message(queue)
        self.handles.append(made)

    async def do_hold_messages(self, queue: str, typed: bool, most: int) -> None:
        type_: Any = str if typed else Any
        self.handles.append(self.step.messages(queue, type_, max=most))

    async def do_try(self, queue: str, typed: bool) -> None:
        await self.say("try", self.step.try_message(queue, str if typed else Any))

    async def do_keyed(self, queue: str, span: int) -> None:
        handle = self.step.using(key=f"next {queue}").message(queue)
        await self.say("keyed", self.step.timeout(handle, span))

    async def do_spawn_try(self, queue: str) -> None:
        self.handles.append(self.step.spawn(self.step.try_message(queue)))

    async def do_depth(self, queue: str) -> None:
        self.trace.append(["depth", await self.step.queue_depth(queue)])

    async def do_send(self, target: str, queue: str) -> None:
        await self.say("sent", self.step.send(self.target(target), queue, self.letter()))

    async def do_spawn_send(self, target: str, queue: str) -> None:
        sending = self.step.send(self.target(target), queue, self.letter())
        self.handles.append(self.step.spawn(sending))

    async def do_wake(self, target: str) -> None:
        await self.say("woke", self.step.wake(self.target(target)))

    def target(self, name: str) -> str:
        if name == "self":
            return self.me
        if name == "ref":
            return self.refs[-1] if self.refs else "nobody"
        return name

    def letter(self) -> Any:
        """The next message of this sender; some are no text."""
        self.sent += 1
        name = f"{self.me} {self.no}"
        return [name, self.sent] if self.sent % 3 == 2 else f"{name} {self.sent}"

    # --- children ----------------------------------------------------------------------------

    async def do_child(self, how: Any, n: int, named: str, detached: bool, joined: bool) -> None:
        name = {"own": f"{self.me}-{n}", "taken": "q", "": None}[named]
        handle: Any
        if isinstance(how, str):
            params = {"how": how, "n": n, "slow": self.slow}
            handle = self.step.child(small, params, id=name, detached=detached)
        else:
            acts = {"acts": [how], "slow": self.slow}
            handle = self.step.child(person, acts, id=name, detached=detached)
        self.handles.append(handle)
        self.refs.append(handle.ref)
        if joined:
            await self.say("child", handle)

    async def do_status(self, index: int) -> None:
        handle = self.held(index)
        if isinstance(handle, ExecutionHandle):
            found = await handle.status()
            self.trace.append(["status", found.ended, str(found.result), found.error])

    async def do_spawn_status(self, index: int) -> None:
        handle = self.held(index)
        if isinstance(handle, ExecutionHandle):
            asked = self.step.spawn(handle.status())
            self.handles.append(self.step.spawn(self.ended(asked)))

    async def ended(self, asked: Any) -> bool:
        """What does not hang on the moment at which a child begins."""
        return bool((await asked).ended)

    async def do_cancel_child(self, index: int) -> None:
        handle = self.held(index)
        if isinstance(handle, ExecutionHandle):
            handle.cancel(f"from {self.me}")

    async def do_handle(self, index: int) -> None:
        if self.refs:
            self.handles.append(self.step.handle(self.refs[index % len(self.refs)]))

    async def do_attach(self, name: str) -> None:
        self.handles.append(self.step.attach(self.target(name)))

    async def do_map(self, hows: list[str], limit: int, errors: Any) -> None:
        items = [{"how": how, "n": n, "slow": self.slow} for n, how in enumerate(hows)]
        mapped = self.step.map(small, items, limit=limit or None, errors=errors)
        try:
            found = await mapped
            self.trace.append(["map", [str(item) for item in found]])
        except Exception as error:
            self.trace.append(["map", type(error).__name__, str(error)])

    async def do_spawn_map(self, hows: list[str], limit: int) -> None:
        self.handles.append(self.step.spawn(self.do_map(hows, limit, "keep")))

    # --- the end -----------------------------------------------------------------------------

    async def do_defer(self, n: int) -> None:
        self.step.defer(work, n)

    async def do_raise(self, n: int) -> None:
        raise LookupError(f"given up {n}")

    async def do_continue(self) -> None:
        if not self.rest:
            return
        following = {"acts": self.rest, "refs": self.refs, "no": self.no + 1, "slow": self.slow}
        try:
            await self.step.continue_as(following)
        except MisplacedCall:
            self.trace.append("misplaced")


@workflow
async def person(
    step: Step, acts: list[Any], refs: list[str] | None = None, no: int = 1, slow: bool = False
) -> list[Any]:
    """Interprets the first of some programs; the others are for its next incarnations."""
    run = WorldRun(step, list(refs or ()), no, acts[1:], slow)
    LIVES[run.me, no] = run
    await run.do_seq(acts[0])
    return run.trace


# --- what hypothesis draws -----------------------------------------------------------------------

#: A node as plain data: what to do, and with what.
Some = list[st.SearchStrategy[Any]]

queues = st.sampled_from(QUEUES)
spans = st.sampled_from([0, 1, 2, 3])
flags = st.booleans()
hows = st.sampled_from(["plain", "fail", "sleep", "run", "wait", "wait"])
ending = st.sampled_from(["plain", "fail", "sleep", "run"])


def a(kind: str, *about: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """One kind of node."""
    return st.tuples(st.just(kind), *about)


no = st.just(False)
own_work = [
    a("run", numbers),
    a("flaky", st.integers(0, 3)),
    a("poll", st.integers(0, 3)),
    a("sleep", seconds),
    a("spawn_run", numbers),
    a("timer", seconds),
    a("chance", numbers),
    a("patched", numbers),
    a("defer", numbers),
]
waits = [
    *[a("message", queues, flags, spans)] * 3,
    a("message_only", queues),
    *[a("hold_message", queues, flags)] * 2,
    a("hold_messages", queues, flags, st.integers(1, 3)),
    a("keyed", queues, spans),
    a("try", queues, flags),
    a("spawn_try", queues),
    a("depth", queues),
]
joins = [
    *[a("join_soon", numbers, spans)] * 3,
    a("join", numbers),
    *[a("select", st.integers(0, 4), seconds)] * 3,
    a("all_held", st.integers(1, 3), spans),
    a("cancel", numbers),
]
children = [
    a("child", hows, numbers, st.just(""), flags, no),
    a("child", ending, numbers, st.just(""), flags, flags),
    a("child", ending, st.integers(0, 1), st.sampled_from(["own", "taken"]), flags, flags),
    a("spawn_map", st.lists(ending, max_size=4), st.integers(0, 2)),
    *[a("status", numbers)] * 2,
    a("spawn_status", numbers),
    a("handle", numbers),
    a("map", st.lists(ending, max_size=4), st.integers(0, 2), st.sampled_from(["keep", "raise"])),
]


def tells(*targets: str) -> Some:
    """Leaves that reach out to others."""
    to = st.sampled_from(targets)
    return [
        *[a("send", to, queues)] * 3,
        a("spawn_send", to, queues),
        a("wake", to),
        a("attach", to),
    ]


#: What gives the same whenever the worker dies, as long as no two things happen at one moment.
quiet = [*own_work, *waits, *joins, *children, *tells("self", "self", "self", "nobody")]
loud = [
    *own_work,
    *waits,
    *joins,
    *children,
    *tells("self", "self", "ref", *NAMES),
    a("tagged", numbers),
    *[a("spawn_tagged", st.integers(0, 3))] * 2,
    a("cancel_child", numbers),
    a("continue"),
    a("raise", numbers),
]


def larger(inner: st.SearchStrategy[Any], *, families: bool) -> Some:
    """Nodes that hold others."""
    kinds = [
        a("seq", st.lists(inner, min_size=1, max_size=4)),
        *[a("spawn", inner)] * 2,
        a("spawn", a("seq", st.lists(inner, min_size=2, max_size=4))),
        a("all", st.lists(inner, min_size=1, max_size=3)),
        a("timeout", seconds, inner),
        a("cleanup", inner),
        a("swallow", inner),
        a("swallow_all", inner),
    ]
    if families:
        bodies = st.lists(inner, min_size=1, max_size=4)
        kinds.append(a("child", bodies, numbers, st.sampled_from(["", "own"]), flags, flags))
    return kinds


def lives(some: Some, *, families: bool) -> st.SearchStrategy[Any]:
    """The programs of up to three incarnations."""
    leaf = st.one_of(some)
    low = st.one_of([*some, *larger(leaf, families=families)])
    node = st.one_of([*some, *larger(low, families=families) * 2])
    acts = st.lists(st.lists(node, min_size=4, max_size=12), min_size=1, max_size=3)
    return acts.map(plain).map(_go_on)


def _go_on(acts: list[Any]) -> list[Any]:
    """Each leads to the next, unless it never gets to its end."""
    return [[*act, ["continue"]] for act in acts[:-1]] + acts[-1:]


quiet_lives = lives(quiet, families=False)
loud_lives = lives(loud, families=True)


def events(*, others: bool) -> st.SearchStrategy[Any]:
    """What happens outside: pairs of a pause in milliseconds before it, and what it is."""
    whom = st.sampled_from(["p", "p", "q", "z"] if others else ["p"])
    scopes = st.sampled_from(["p", "person", ""])
    acts = [
        *[a("send", whom, queues, flags)] * 6,
        a("wake", whom),
        a("cancel", whom),
        a("pause", scopes),
        *[a("resume", scopes)] * 2,
    ]
    if others:
        acts += [a("admit", st.just("z")), a("cancel_now", whom), a("crash")]
    gaps = st.sampled_from([0, 1, 311, 1_009, 2_003, 3_001] if others else [13, 311, 1_009, 2_003])
    return st.lists(st.tuples(gaps, st.one_of(acts)), min_size=2, max_size=9).map(plain)
