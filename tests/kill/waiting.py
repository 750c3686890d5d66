"""Workflows that wait for each other, for the kill tests; each step notes in a ledger that it ran.

A step returns the name it noted, so the history tells which of the ledger's lines are recorded.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from yieldstar_cli import (
    ChildCancelled,
    ChildFailed,
    EffectAnswer,
    Step,
    not_found,
    settled,
    this_step,
    workflow,
)


class Decision(msgspec.Struct):
    """What `ys approve` sends."""

    ok: bool
    by: str


class Broken(Exception):
    """The order cannot be packed."""


def note(name: str) -> str:
    """Write down that it ran, under which idempotency key."""
    with Path("ledger.txt").open("a") as file:
        file.write(f"{name} {this_step().idempotency_key}\n")
    return name


# --- children ------------------------------------------------------------------------------------


@workflow
async def pack(step: Step, name: str) -> str:
    """A child that does its work."""
    return await step.run(note, f"pack-{name}")


@workflow
async def break_down(step: Step, name: str) -> str:
    """A child that fails."""
    await step.run(note, f"break-{name}")
    raise Broken(name)


@workflow
async def linger(step: Step, name: str) -> str:
    """A child that waits until it is told to end, and cleans up then."""
    try:
        await step.message("never")
    finally:
        await step.run(note, f"clean-{name}")
    return name


@workflow
async def household(step: Step) -> list[str]:
    """A child awaited twice, one that fails, one detached, one that is left to its fate."""
    first = step.child(pack, {"name": "a"})
    bad = step.child(break_down, {"name": "b"})
    away = step.child(pack, {"name": "away"}, id="away", detached=True)
    step.child(linger, {"name": "left"})
    said = [await first, away.id]
    try:
        await bad
    except ChildFailed as error:
        said.append(str(error))
    await step.run(note, "home")
    return [*said, await first]


@workflow
async def fan_out(step: Step, count: int) -> list[str]:
    """One child for each number, two at once; every third one fails."""
    names = [f"f{i}" for i in range(count)]
    ends = await step.map("one-of-many", [{"name": name} for name in names], limit=2, errors="keep")
    await step.run(note, "joined")
    return [end if isinstance(end, str) else "failed" for end in ends]


@workflow
async def one_of_many(step: Step, name: str) -> str:
    """One of the children of `fan_out`."""
    done = await step.run(note, f"many-{name}")
    if int(name[1:]) % 3 == 2:
        raise Broken(name)
    return done


# --- messages and incarnations -------------------------------------------------------------------


@workflow
async def mailbox(step: Step, wanted: int, each: int = 3, seen: list[int] | None = None) -> object:
    """Reads numbers, one by one, and begins anew after every few."""
    seen = list(seen or [])
    while len(seen) < wanted:
        seen.append(await step.message("numbers", int))
        await step.run(note, f"read-{seen[-1]}")
        if len(seen) % each == 0:
            await step.continue_as({"wanted": wanted, "each": each, "seen": seen})
    return seen


@workflow
async def relay(step: Step, rounds: int = 0, refs: list[str] | None = None) -> list[str]:
    """Starts a child in each incarnation and hears of all of them in the last one."""
    refs = list(refs or [])
    step.defer(note, f"leaves-{rounds}")
    if rounds < 4:
        child = step.child(pack, {"name": f"r{rounds}"})
        await step.run(note, f"round-{rounds}")
        await step.continue_as({"rounds": rounds + 1, "refs": [*refs, child.ref]})
    return [await step.handle(ref, pack) for ref in refs]


@workflow
async def asks(step: Step) -> list[str]:
    """Sends questions to another execution, wakes it, and waits for each answer."""
    said = []
    for i in range(3):
        said.append(await step.send("answers", "questions", i))
        said.append(await step.wake("answers"))
        said.append(await step.message("replies", str))
        await step.run(note, f"heard-{i}")
    said.append(await step.attach("answers"))
    return said


@workflow
async def answers(step: Step) -> str:
    """Answers three questions."""
    for _ in range(3):
        question = await step.message("questions", int)
        await step.run(note, f"asked-{question}")
        await step.send("asks", "replies", f"re {question}")
    return "answered"


# --- stores --------------------------------------------------------------------------------------


class Shelf(msgspec.Struct):
    """Things to take, and how many changes were made to them."""

    things: list[int] = []
    changes: int = 0


def first(shelf: Shelf) -> int | None:
    """The first thing."""
    return shelf.things[0] if len(shelf.things) else None


def take(shelf: Shelf, thing: int) -> None:
    """Take it away."""
    shelf.things.remove(thing)
    shelf.changes += 1


@workflow
async def stocks(step: Step) -> str:
    """Puts three things on the shelf, and waits until they are gone."""
    shelf = await step.store(Shelf, "w", initial=Shelf())
    for i in range(3):

        def put(found: Shelf, thing: int = i) -> None:
            found.things.append(thing)
            found.changes += 1

        await shelf.update(put)
        await step.run(note, f"stocked-{i}")
    await shelf.when(lambda s: s.changes == 6)
    return await step.run(note, "sold-out")


@workflow
async def fetches(step: Step) -> list[int]:
    """Takes three things, one by one."""
    shelf = await step.store(Shelf, "w", initial=Shelf())
    found = []
    for _ in range(3):
        found.append(await shelf.take(first, take))
        await step.run(note, f"fetched-{found[-1]}")
    return found


# --- effects -------------------------------------------------------------------------------------


def pay(bill: str, amount: int) -> int:
    """Pay a bill, as often as it is called."""
    note(f"paid-{bill}")
    return amount


def paid(bill: str, amount: int) -> EffectAnswer[int]:
    """Whether it is in the ledger."""
    path = Path("ledger.txt")
    lines = path.read_text().splitlines() if path.exists() else []
    found = any(line.startswith(f"paid-{bill} ") for line in lines)
    return settled(amount) if found else not_found


@workflow
async def pays(step: Step) -> list[int]:
    """Pays three bills; another execution pays the same ones."""

    async def bill(number: int) -> int:
        return await step.effect(
            f"bill-{number}", operation="pay", input=number, lookup=paid, perform=pay
        )

    found = [await bill(0), *await step.all([bill(1), bill(2)])]
    await step.run(note, f"done-{step.event.execution_id}")
    return found


# --- decisions, ends, clean-up -------------------------------------------------------------------


@workflow
async def decide(step: Step) -> str:
    """Waits for a yes or no, and asks again after a while."""
    await step.run(note, "ask")
    answer = step.message("decision", Decision)
    won = await step.select(answer, step.timer("1d"))
    word = "late" if won is not answer else "approved" if answer.result().ok else "rejected"
    return await step.run(note, word)


@workflow
async def tidy(step: Step, depth: int = 2) -> str:
    """Waits for ever with a child that does; each cleans up when it is cancelled."""
    name = f"tidy-{depth}"
    step.defer(note, f"{name}-deferred")
    try:
        if depth:
            child = step.child(tidy, {"depth": depth - 1}, id=f"tidy-{depth - 1}")
            return await child
        return await step.message("never", str)
    except ChildCancelled:
        return "the child alone was cancelled"
    finally:
        await step.run(note, f"{name}-cleans")


@workflow
async def deferring(step: Step) -> str:
    """What was deferred runs last first, also when one of it fails."""
    for name in ("first", "second"):
        step.defer(note, f"deferred-{name}")
        await step.run(note, f"did-{name}")
    step.defer(stumble)
    return await step.run(note, "did-third")


def stumble() -> None:
    """Clean-up that fails changes nothing."""
    note("stumbled")
    raise Broken("clean-up")
