"""A world in which anything can wait for anything, and in which the advice of `ys` is followed."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from tests.cli.conftest import MINUTE, NOON, Shop
from yieldstar_cli import EffectAnswer, RetryPolicy, Step, settled, unknown, workflow
from yieldstar_cli.engine.authoring import Workflow
from yieldstar_cli.engine.definition import Definition
from yieldstar_cli.engine.this_step import this_step
from yieldstar_cli.errors import Cancelled, StepTimeout
from yieldstar_cli.storage.sqlite.writer import InlineWriter
from yieldstar_cli.testing.kit import Bench
from yieldstar_cli.worker.dispatcher import Dispatcher
from yieldstar_cli.worker.inline import InlinePerformers
from yieldstar_cli.worker.marks import NoMarks

Plan = dict[str, Any]
DAY = 24 * 60 * MINUTE


def work() -> str:
    return "worked"


def flaky() -> str:
    if this_step().attempt == 1:
        raise ValueError("not yet")
    return "worked"


def ready() -> bool:
    return this_step().attempt > 1


def charge(effect_id: str, answer: str) -> str:
    """The card is charged, perhaps: of the first try nobody hears again."""
    raise ConnectionError("no answer")


def charged(effect_id: str, answer: str) -> EffectAnswer[str]:
    """Nobody knows at first."""
    if answer == "nonsense":
        return None  # type: ignore[return-value]
    return settled("charged") if this_step().attempt > 1 else unknown


class Stock(msgspec.Struct):
    """What is on the shelf."""

    left: int = 0
    note: str = ""
    api_key: str = "k-123"


#: The same for the commands that write stores: they look for the type in a module.
STOCK = """
import msgspec


class Stock(msgspec.Struct):
    left: int = 0
    note: str = ""
    api_key: str = "k-123"
"""


def take_one(stock: Stock, value: int) -> None:
    stock.left -= 1


async def watch(step: Step, plan: Plan) -> None:
    """Wait for the stock as `plan` says; a deadline that passes is an end like any other."""
    stock = await step.store(Stock, plan.get("id", "widget"), initial=Stock())
    if plan["on"] == "take":
        await stock.take(lambda s: s.left or None, take_one)
        return
    reads = plan.get("reads", "left")
    with suppress(StepTimeout):
        await stock.when(lambda s: bool(reads) and getattr(s, reads), deadline=plan.get("deadline"))


async def follow(step: Step, plan: Plan, *, branch: bool = False) -> None:
    """Wait for what `plan` says; a branch does not continue as new."""
    match plan["on"]:
        case "timer":
            await step.sleep(plan.get("span", "10m"))
        case "message":
            await step.message(plan.get("queue", "go"))
        case "messages":
            await step.messages(plan.get("queue", "go"))
        case "retry":
            await step.using(retry=RetryPolicy(attempts=3, first="1m")).run(flaky)
        case "poll":
            await step.poll(ready, every="1m", attempts=5)
        case "effect":
            answer = plan.get("answer", "in time")
            await step.effect(
                plan.get("id", "pay-1"), operation="charge", input=answer, lookup=charged,
                perform=charge, retry_in="1m",
            )  # fmt: skip
        case "tag":
            await step.using(tag="gpu").run(work)
        case "when" | "take":
            await watch(step, plan)
        case "child":
            name = plan.get("of", "walk")
            await step.child(name, {"plan": plan["plan"]}, id=plan.get("id"))
        case "attach":
            await step.attach(plan["id"])
        case "fan":
            await step.map("walk", [{"plan": part} for part in plan["of"]])
        case "race":
            await step.select(*[step.spawn(follow(step, part, branch=True)) for part in plan["of"]])
        case "all":
            await step.all([follow(step, part, branch=True) for part in plan["of"]])
        case "again" if step.event.incarnation == 1 and not branch:
            await step.continue_as({"plan": plan})
        case "again":
            await follow(step, plan["plan"], branch=branch)
        case "clean":
            try:
                await step.sleep("10m")
            except Cancelled:
                await step.sleep("5m")
                raise
        case "nothing":
            pass


@workflow
async def walk(step: Step, plan: Plan) -> str:
    await follow(step, plan)
    return "walked"


@workflow(id="walk", version=2)
async def walk_2(step: Step, plan: Plan) -> str:
    await follow(step, plan)
    return "walked"


@workflow(id="walk", version=3)
async def walk_3(step: Step, plan: Plan) -> str:
    await follow(step, plan)
    return "walked"


@workflow
async def stroll(step: Step, plan: Plan) -> str:
    await follow(step, plan)
    return "strolled"


@workflow(tags={"gpu"})
async def tagged_walk(step: Step, plan: Plan) -> str:
    await follow(step, plan)
    return "walked"


#: What every worker has, unless it is told otherwise.
USUAL: tuple[Workflow[..., Any], ...] = (walk,)
EVERYTHING: tuple[Workflow[..., Any], ...] = (walk, walk_2, walk_3, stroll, tagged_walk)


class ZooBench(Bench):
    """A bench whose workers say what they have, as a worker process does."""

    def hire(self, workflows: Iterable[Workflow[..., Any]], tags: frozenset[str]) -> Dispatcher:
        """A worker with these workflows, less those whose tags it lacks (spec O5)."""
        definitions: dict[tuple[str, int], Definition] = {
            one.definition.key: one.definition for one in workflows if one.definition.tags <= tags
        }
        storage = self._open()
        number = storage.workers.register(
            name=f"bench:{len(self.workers)}",
            host="bench",
            pid=0,
            slot=len(self.workers),
            nonce=self._chance.seed(),
            boot_id="",
            device=0,
            inode=0,
            lease_until_at=self.clock.now_ms() + 10**12,
        )
        storage.workers.describe(number, sorted(definitions), [], sorted(tags))
        writer = InlineWriter(storage, self.loop.post)
        self._writers.append(writer)
        worker = Dispatcher(
            loop=self.loop,
            writer=writer,
            storage=storage,
            performers=InlinePerformers(self.loop),
            marks=NoMarks(),
            talk=self.events.append,
            worker=number,
            definitions=definitions,
            tags=tags,
        )
        self.workers.append(worker)
        return worker


@dataclass(frozen=True)
class Told:
    """What `ys explain` says."""

    text: str
    verdict: str
    earliest_at: int | None
    remedies: tuple[str, ...]
    status: str


class World:
    """One project, its file, its clock, and workers that are simulated."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self.clock = shop.clock
        self.bench = ZooBench(path=shop.db, clock=shop.clock)

    def close(self) -> None:
        self.bench.close()

    # --- making ------------------------------------------------------------------------------

    def hire(self, *workflows: Workflow[..., Any], tags: Iterable[str] = ()) -> None:
        self.bench.hire(workflows or USUAL, frozenset(tags))

    def admit(self, execution_id: str, plan: Plan, name: str = "walk", **words: Any) -> None:
        self.bench.admit(name, {"plan": plan}, execution_id=execution_id, **words)

    def settle(self) -> None:
        """Let the workers do what is to be done now."""
        self.pass_until(self.clock.now_ms())

    def pass_until(self, at: int) -> None:
        """Let time pass, with the workers that there are."""
        if self.bench.workers:
            self.bench.run_to(at)
        elif at > self.clock.now_ms():
            self.clock.set(at)

    # --- looking -----------------------------------------------------------------------------

    def explain(self, execution_id: str) -> Told:
        said = self.shop.screen("explain", execution_id, "--times", "utc", columns=80)
        document = self.shop.ys("explain", execution_id, "--json").json
        record = self.bench.record(execution_id)
        return Told(
            text=" ".join(said.out.split()),
            verdict=document["verdict"],
            earliest_at=_ms(document["earliest_at"]),
            remedies=tuple(document["remedies"]),
            status=str(record.status),
        )

    def state(self, execution_id: str) -> tuple[object, ...]:
        """Whatever changes when an execution moves."""
        record = self.bench.record(execution_id)
        return record.status, record.deliveries, record.incarnation, record.operations

    # --- doing what is said ------------------------------------------------------------------

    def act(self, remedy: str) -> None:
        """Do what a line of `ys explain` says."""
        words = shlex.split(remedy)
        assert words[0] == "ys", remedy
        match words[1]:
            case "worker":
                tags = [words[n + 1] for n, word in enumerate(words) if word == "--tag"]
                self.hire(tags=tags) if not tags else self.hire(*EVERYTHING, tags=tags)
            case "workflows":
                # The file is put right, or back: a worker starts that has everything.
                self.hire(*EVERYTHING)
            case "doctor":
                assert self.shop.ys("doctor").code in (0, 7)
            case "send" | "approve" | "reject" | "wake" | "resume" | "cancel":
                said = self.shop.ys(*words[1:])
                assert said.code == 0, said.err
            case "store":
                # The words left open in the line: any state that is enough.
                self.shop.module("stock.py", STOCK)
                given = [word.replace("=…", "=3").replace("…", "left=3") for word in words[1:]]
                said = self.shop.ys(*given)
                assert said.code == 0, said.err
            case verb:
                raise AssertionError(f"explain names a command nobody can follow: ys {verb}")


def _ms(moment: str | None) -> int | None:
    if moment is None:
        return None
    hours, minutes, seconds = moment.partition("T")[2].rstrip("Z").split(":")
    days = int(moment[8:10]) - 30 if moment.startswith("2026-11") else int(moment[8:10])
    clock = int(hours) * 3_600_000 + int(minutes) * MINUTE + round(float(seconds) * 1000)
    return NOON - 12 * 3_600_000 + days * DAY + clock


# --- shapes ---------------------------------------------------------------------------------------


def nothing(world: World) -> None:
    """Nothing happens."""


@dataclass(frozen=True)
class Shape:
    """One way to wait: how it comes to be, what is to be said of it."""

    name: str
    plan: Plan
    says: tuple[str, ...]
    verdict: str = "fine"
    #: Before the execution is admitted, and once it rests.
    before: Callable[[World], None] = nothing
    after: Callable[[World], None] = nothing
    workflow: str = "walk"
    version: int = 1
    at: int | None = None
    #: Whether workers are there, and whether they have had their turn.
    hired: bool = True
    settled: bool = True
    #: Whether anything can move it at all.
    ended: bool = False
