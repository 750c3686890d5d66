"""Random workflow programs as plain data, and the workflow that interprets them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from yieldstar_cli.engine.authoring import workflow
from yieldstar_cli.engine.operations import BranchCancelled
from yieldstar_cli.engine.retry import RetryPolicy
from yieldstar_cli.engine.step import Step
from yieldstar_cli.engine.this_step import this_step
from yieldstar_cli.errors import StepTimeout

#: Every call of a step function: (its key for the outside, step key, attempt). That key differs
#: for every execution and incarnation.
CALLS: list[tuple[str, str, int]] = []


def note() -> None:
    step = this_step()
    CALLS.append((step.idempotency_key, step.step_key, step.attempt))


def work(n: int) -> int:
    note()
    if n % 5 == 4:
        raise ValueError(f"no {n}")
    return n * 2


async def work_async(n: int) -> dict[str, int]:
    note()
    return {"n": n}


def flaky(failures: int) -> int:
    note()
    if this_step().attempt <= failures:
        raise KeyError(failures)
    return failures


def ready(after: int) -> int:
    note()
    return this_step().attempt if this_step().attempt > after else 0


class Run:
    """One interpretation: the trace that the workflow returns, and the handles it holds."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.trace: list[Any] = []
        self.handles: list[Any] = []

    def held(self, index: int) -> Any:
        return self.handles[index % len(self.handles)] if self.handles else None

    async def node(self, node: list[Any]) -> Any:
        kind, *args = node
        return await getattr(self, f"do_{kind}")(*args)

    async def do_seq(self, nodes: list[Any]) -> None:
        for node in nodes:
            await self.node(node)

    async def do_run(self, n: int) -> None:
        try:
            self.trace.append(await self.step.run(work if n % 3 else work_async, n))
        except ValueError as error:
            self.trace.append(str(error))

    async def do_flaky(self, failures: int) -> None:
        policy = RetryPolicy(attempts=3, first="1s", jitter=0.5)
        try:
            self.trace.append(await self.step.using(retry=policy).run(flaky, failures))
        except KeyError as error:
            self.trace.append(repr(error))

    async def do_poll(self, after: int) -> None:
        try:
            self.trace.append(await self.step.poll(ready, after, every="2s", attempts=3))
        except StepTimeout as error:
            self.trace.append(str(error))

    async def do_sleep(self, seconds: int) -> None:
        await self.step.sleep(seconds)
        self.trace.append(self.step.now().isoformat())

    async def do_spawn(self, node: list[Any]) -> None:
        self.handles.append(self.step.spawn(self.node(node)))

    async def do_spawn_run(self, n: int) -> None:
        self.handles.append(self.step.spawn(self.step.run(work, n)))

    async def do_timer(self, seconds: int) -> None:
        self.handles.append(self.step.timer(seconds))

    async def do_join(self, index: int) -> None:
        handle = self.held(index)
        if handle is None:
            return
        try:
            self.trace.append(["joined", await handle])
        except (ValueError, BranchCancelled) as error:
            self.trace.append(["joined", type(error).__name__])

    async def do_select(self, count: int, seconds: int) -> None:
        handles = [*self.handles[-count:], self.step.timer(seconds)]
        won = await self.step.select(*handles)
        self.trace.append(["won", [h is won for h in handles].index(True), won.done()])

    async def do_all(self, nodes: list[Any]) -> None:
        before = len(self.trace)
        await self.step.all([self.node(node) for node in nodes])
        self.trace.append(["all", len(self.trace) - before])

    async def do_timeout(self, seconds: int, node: list[Any]) -> None:
        try:
            await self.step.timeout(self.node(node), seconds)
        except StepTimeout:
            self.trace.append("timeout")

    async def do_cancel(self, index: int) -> None:
        handle = self.held(index)
        if handle is not None and hasattr(handle, "cancel"):
            handle.cancel()
            self.trace.append(["cancelled", handle.done()])

    async def do_chance(self, n: int) -> None:
        self.trace.append([self.step.random(), str(self.step.uuid()), self.step.now().isoformat()])
        self.step.log.info("chance %s", n)
        self.step.set_status({"at": n})

    async def do_patched(self, n: int) -> None:
        self.trace.append(self.step.patched(f"change-{n}"))

    async def do_cleanup(self, node: list[Any]) -> None:
        try:
            await self.node(node)
        finally:
            self.trace.append("cleaned")
            await self.step.run(work, 7)


@workflow
async def program(step: Step, nodes: list[Any]) -> list[Any]:
    """Interprets a program."""
    run = Run(step)
    await run.do_seq(nodes)
    return run.trace


numbers = st.integers(0, 9)
seconds = st.sampled_from([0, 1, 1, 2, 5])
leaves = st.one_of(
    st.tuples(st.just("run"), numbers),
    st.tuples(st.just("run"), numbers),
    st.tuples(st.just("flaky"), st.integers(0, 3)),
    st.tuples(st.just("poll"), st.integers(0, 3)),
    st.tuples(st.just("sleep"), seconds),
    st.tuples(st.just("spawn_run"), numbers),
    st.tuples(st.just("timer"), seconds),
    st.tuples(st.just("join"), numbers),
    st.tuples(st.just("select"), st.integers(0, 3), seconds),
    st.tuples(st.just("cancel"), numbers),
    st.tuples(st.just("chance"), numbers),
    st.tuples(st.just("patched"), numbers),
)
nodes = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(st.just("seq"), st.lists(inner, max_size=4)),
        st.tuples(st.just("spawn"), inner),
        st.tuples(st.just("all"), st.lists(inner, max_size=3)),
        st.tuples(st.just("timeout"), seconds, inner),
        st.tuples(st.just("cleanup"), inner),
    ),
    max_leaves=12,
)


def plain(value: Any) -> Any:
    """Tuples as lists: programs are params, so plain JSON."""
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


programs = st.lists(nodes, min_size=1, max_size=8).map(plain)
