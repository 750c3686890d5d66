"""A controller that never has to end: commands, children and deadlines, without a store beside it.

    ys trigger supervisor --id farm
    ys send farm commands do=start build=web takes:=5 within:=60
    ys send farm commands do=start build=api takes:=90 within:=3
    ys worker --until-idle --linger 10s
    ys show farm --tree

All it knows is in its params: they go from one incarnation to the next, so that its history
stays short for ever, and its builds go on meanwhile.
"""

from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec

from yieldstar_cli import (
    ChildCancelled,
    ChildFailed,
    Handle,
    InvalidMessage,
    Step,
    workflow,
)

#: With so many operations in its history, the supervisor begins its next incarnation.
LARGE = 200


class Command(msgspec.Struct):
    """What is sent to the queue `commands`."""

    do: Literal["start", "stop", "close"]
    build: str = ""
    takes: float = 1.0
    """How many seconds the build needs."""
    within: float = 60.0
    """How many it may have; then it is stopped."""
    tell: str | None = None
    """An execution whose queue `builds` is told how the build ended."""


class Ended(msgspec.Struct):
    """What is sent to the queue `builds` of whoever asked for a build."""

    build: str
    how: str


class Running(msgspec.Struct):
    """A build under way: plain data, so that it can go to the next incarnation."""

    build: str
    ref: str
    """What its handle is made from again."""
    deadline: datetime | None
    """None once it was told to stop."""
    tell: str | None


class Farm(msgspec.Struct):
    """All that the supervisor knows."""

    running: list[Running] = []
    rounds: int = 0
    built: int = 0
    broken: int = 0
    stopped: int = 0
    closing: bool = False


class Work(msgspec.Struct):
    """One build."""

    build: str
    takes: float = 1.0


class BuildBroken(Exception):
    """The compiler said no."""


def compile_it(build: str) -> str:
    """The work itself. Builds whose name ends in `!` are broken."""
    if build.endswith("!"):
        raise BuildBroken(f"{build} does not compile")
    return f"{build} is built"


@workflow
async def build(step: Step, p: Work) -> str:
    """Build one thing."""
    await step.sleep(p.takes)
    return await step.run(compile_it, p.build)


@workflow
async def supervisor(step: Step, farm: Farm) -> Farm:
    """Start and stop builds as told, keep their deadlines, and tell how they ended.

    Ends once it was told to close and the last build has ended. `ys cancel` ends it and them.
    """
    ends: dict[Handle[Any], Running] = {step.handle(one.ref, build): one for one in farm.running}
    while ends or not farm.closing:
        if step.event.operations >= LARGE:
            await step.continue_as(farm)
        farm.rounds += 1
        inbox = step.messages("commands", Command, max=32)
        late = _nearest(step, farm)
        won = await step.select(inbox, *late, *ends)  # losers cost nothing and go on
        if won is inbox:
            for command in _commands(step, inbox):
                _obey(step, farm, ends, command)
        elif won in late:
            _stop(step, [one for one in farm.running if _is_late(step, one)], "it took too long")
        else:
            await _tell(step, farm, ends.pop(won), won)
        farm.running = list(ends.values())
        step.set_status({"rounds": farm.rounds, "running": len(farm.running)})
    return farm


def _nearest(step: Step, farm: Farm) -> list[Handle[None]]:
    """A timer for the nearest of all deadlines, if there is one."""
    deadlines = [one.deadline for one in farm.running if one.deadline is not None]
    return [step.timer_until(min(deadlines))] if deadlines else []


def _is_late(step: Step, one: Running) -> bool:
    return one.deadline is not None and one.deadline <= step.now()


def _commands(step: Step, inbox: Handle[list[Command]]) -> list[Command]:
    """What was sent; a message that is no command is kept for `ys messages` and passed over."""
    try:
        return inbox.result()
    except InvalidMessage as error:
        step.log.warning("no command: %s", error)
        return []


def _obey(step: Step, farm: Farm, ends: dict[Handle[Any], Running], command: Command) -> None:
    match command.do:
        case "start":
            deadline = step.now() + timedelta(seconds=command.within)
            child = step.child(build, Work(command.build, command.takes))
            ends[child] = Running(command.build, child.ref, deadline, command.tell)
        case "stop":
            _stop(step, [one for one in ends.values() if one.build == command.build], "as told")
        case "close":
            farm.closing = True


def _stop(step: Step, builds: list[Running], reason: str) -> None:
    """Ask for their cancellation; that they have ended is heard like any other end."""
    for one in builds:
        step.handle(one.ref).cancel(reason)
        one.deadline = None


async def _tell(step: Step, farm: Farm, one: Running, end: Handle[Any]) -> None:
    """Count how a build ended, and send it to whoever asked."""
    try:
        how = end.result()
        farm.built += 1
    except ChildCancelled:
        how = "stopped"
        farm.stopped += 1
    except ChildFailed as error:
        how = f"broken: {error}"
        farm.broken += 1
    if one.tell is not None:
        await step.send(one.tell, "builds", Ended(one.build, how))
