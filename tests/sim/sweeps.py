"""Scenarios that are played with one fault at every operation of the disk (reliability C.4)."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.sim import flows
from tests.sim.disk import PowerLost, simulated_disk
from tests.sim.judge import judge
from tests.sim.world import TROUBLES, World
from yieldstar_cli import codec, failures
from yieldstar_cli.model import CancelledOutcome, Completed, Failed

#: What may strike, and how often: once, or from there on until it is healed.
KINDS = ("kill", "cut", "eio", "full", "sync", "short")
FOR_GOOD = 10_000
#: Operations after which whatever keeps failing is mended.
PATIENCE = 12


@dataclass(frozen=True)
class Struck:
    """One run: what struck, at which operation of the disk, and how often."""

    kind: str
    at: int
    times: int


class Stage:
    """What a scenario does to its world: clients ask until they are answered."""

    def __init__(self, world: World) -> None:
        self.world = world

    def ask(self, call: Callable[[], Any]) -> Any:
        """A client's call, made again after every refusal."""
        for _ in range(40):
            try:
                return call()
            except PowerLost:
                self.world.lose_power()
            except flows.Died:
                self.world.reopen()
            except TROUBLES:
                self.world.reopen()
        raise AssertionError("the file takes no writes")

    def admit(self, flow: Any, name: str, **params: Any) -> None:
        """Admit an execution, once, however often it is asked for."""
        workflow_id = flow.definition.workflow_id

        def admit() -> None:
            self.world.client.executions.admit(
                workflow_id=workflow_id, params=params, execution_id=name
            )

        self.ask(admit)
        self.world.admitted[name] = (workflow_id, params["n"])

    def send(self, name: str, value: int, key: str) -> None:
        """Send one message, once."""

        def send() -> None:
            self.world.client.inbox.send(
                name, "box", str(value), ttl_ms=10**11, idempotency_key=key
            )

        self.ask(send)
        self.world.sent[name] += 1

    def cancel(self, name: str) -> None:
        """Ask for a cancellation."""
        self.ask(lambda: self.world.client.steering.cancel(name, reason="enough"))

    def go(self) -> None:
        """Run what can run now, whoever dies meanwhile."""
        while True:
            try:
                self.world.go()
            except PowerLost:
                self.world.lose_power()
            if self.world.complete:
                return

    def rest(self) -> None:
        """Run until nothing moves."""
        for _ in range(400):
            try:
                if not self.world.turn():
                    return
            except PowerLost:
                self.world.lose_power()
        raise AssertionError("it never comes to rest")


def charge(stage: Stage) -> None:
    stage.admit(flows.charge_order, "order", n=2)
    stage.rest()


def retries(stage: Stage) -> None:
    stage.admit(flows.stubborn, "stubborn", n=2)
    stage.rest()


def fan(stage: Stage) -> None:
    stage.admit(flows.fan_out, "fan", n=5)
    stage.rest()


def shop(stage: Stage) -> None:
    for n in range(3):
        stage.admit(flows.taker, f"taker-{n}", n=n)
    stage.go()
    stage.admit(flows.supplier, "supplier", n=3)
    stage.rest()


def timed(stage: Stage) -> None:
    stage.admit(flows.patient, "patient", n=0)
    stage.rest()


def race(stage: Stage) -> None:
    stage.admit(flows.racer, "racer", n=1)
    stage.rest()


def mail(stage: Stage) -> None:
    for n in range(10):
        stage.send("reader", n, f"k{n}")
    stage.admit(flows.reader, "reader", n=0, total=0)
    stage.rest()
    stage.send("reader", -1, "end")
    stage.rest()


def felled(stage: Stage) -> None:
    stage.admit(flows.tree, "tree", n=2)
    stage.rest()
    stage.cancel("tree")
    stage.rest()


def dying(stage: Stage) -> None:
    stage.world.outside.deaths["fatal"] = 2
    stage.admit(flows.fatal_flow, "fatal", n=1)
    stage.rest()


def effect(stage: Stage) -> None:
    stage.world.outside.moods = ["lost after"]
    stage.admit(flows.once_charged, "one", n=1)
    stage.admit(flows.once_charged, "two", n=4)
    stage.rest()


SCENARIOS: dict[str, Callable[[Stage], None]] = {
    "charge": charge,
    "retries": retries,
    "fan": fan,
    "shop": shop,
    "timed": timed,
    "race": race,
    "mail": mail,
    "felled": felled,
    "dying": dying,
    "effect": effect,
}


def play(
    scenario: str, struck: Struck | None = None, again: Struck | None = None
) -> tuple[dict[str, str], int]:
    """Play one scenario; what became of its executions, and how many operations it took.

    `again` strikes in what comes after the first: its operations are counted from there.
    """
    folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with (
        tempfile.TemporaryDirectory(dir=folder, prefix="ys-sweep-") as name,
        simulated_disk(name) as disk,
    ):
        world = World(1, name, disk, workers=1)
        try:
            began = disk.operations
            if struck is not None:
                disk.arm(struck.kind, after=struck.at, times=struck.times, until=PATIENCE)
            if again is not None:
                disk.then(again.kind, after=again.at, times=again.times, until=PATIENCE)
            SCENARIOS[scenario](Stage(world))
            took = disk.operations - began
            disk.forget()
            world.calm()
            judge(world)
            return ends(world), took
        finally:
            world.close()


def ends(world: World) -> dict[str, str]:
    """How each execution ended."""
    said = {}
    for record in world.client.reader.find(limit=None):
        match record.outcome:
            case Completed(result):
                said[record.execution_id] = str(codec.decode(result))
            case Failed(error):
                said[record.execution_id] = failures.summarize(error)
            case CancelledOutcome(reason):
                said[record.execution_id] = f"cancelled: {reason}"
            case None:
                said[record.execution_id] = str(record.status)
    return said


def points(scenario: str, every: int = 1) -> Iterator[Struck]:
    """Every operation of the disk, with everything that may strike there."""
    _, took = play(scenario)
    for at in range(1, took + 1, every):
        for kind in KINDS:
            yield Struck(kind, at, 1)
            if kind in ("eio", "full", "sync"):
                yield Struck(kind, at, FOR_GOOD)
