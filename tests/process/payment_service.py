"""A payment service with troubles, run by a test as a process of its own.

It charges as often as it is asked to, and writes each charge down before it answers; so it knows
after a SIGKILL what it did before. One connection is one question, and they are served in the
order in which they came: what was asked before is done before, or never.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.kill.scene import ROOT

#: The workflow and its gateway; the service's port stands in a file beside the project.
MODULE = '''
import asyncio
import json
import socket
from pathlib import Path

import msgspec

from yieldstar_cli import EffectAnswer, Step, not_found, settled, unknown, workflow


class Receipt(msgspec.Struct):
    number: int
    amount: int


def where() -> tuple[str, int]:
    return "127.0.0.1", int(Path("bank.port").read_text())


def asked(what: str, order: str, amount: int) -> bytes:
    return json.dumps({"what": what, "order": order, "amount": amount}).encode() + b"\\n"


def said(answer: bytes) -> dict:
    if not answer:
        raise ConnectionError("it hung up")
    return json.loads(answer)


def ask(what: str, order: str, amount: int) -> dict:
    with socket.create_connection(where(), timeout=2) as line:
        line.sendall(asked(what, order, amount))
        with line.makefile("rb") as answer:
            return said(answer.read())


async def ask_soon(what: str, order: str, amount: int) -> dict:
    async with asyncio.timeout(2):
        reader, writer = await asyncio.open_connection(*where())
        try:
            writer.write(asked(what, order, amount))
            await writer.drain()
            return said(await reader.read())
        finally:
            writer.close()


def understood(answer: dict) -> EffectAnswer[Receipt]:
    match answer["state"]:
        case "charged":
            return settled(Receipt(answer["number"], answer["amount"]))
        case "nothing":
            return not_found
        case "under way":
            return unknown
    raise ValueError(answer)


def charge(order: str, amount: int) -> Receipt:
    answer = ask("charge", order, amount)
    return Receipt(answer["number"], answer["amount"])


def look(order: str, amount: int) -> EffectAnswer[Receipt]:
    return understood(ask("look", order, amount))


async def charge_soon(order: str, amount: int) -> Receipt:
    answer = await ask_soon("charge", order, amount)
    return Receipt(answer["number"], answer["amount"])


async def look_soon(order: str, amount: int) -> EffectAnswer[Receipt]:
    return understood(await ask_soon("look", order, amount))


@workflow
async def pay(step: Step, order: str, amount: int) -> Receipt:
    """Charges an order by plain functions."""
    return await step.effect(
        order, operation="charge", input=amount, lookup=look, perform=charge, retry_in="100ms"
    )


@workflow
async def pay_soon(step: Step, order: str, amount: int) -> Receipt:
    """Charges an order by async functions."""
    return await step.effect(
        order,
        operation="charge",
        input=amount,
        lookup=look_soon,
        perform=charge_soon,
        retry_in="100ms",
    )
'''

#: Of 100 questions so many go wrong in each way.
HANGS_UP_BEFORE, HANGS_UP_AFTER, GARBAGE, SLOW, UNDER_WAY = 12, 18, 8, 10, 15


class Service:
    """One life of the service, over the journal of all its lives."""

    def __init__(self, listening: socket.socket, journal: Path, seed: int) -> None:
        self._listening = listening
        self._chance = random.Random(seed)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._journal = os.open(journal, flags, 0o600)
        self._looks = os.open(journal.with_suffix(".looks"), flags, 0o600)
        #: The first charge of each order.
        self._charged: dict[str, dict[str, object]] = {}
        self._count = 0
        for line in journal.read_text().splitlines():
            self._keep(json.loads(line))
        #: Who gets a late answer: once another question has come, or never.
        self._late: list[tuple[socket.socket, bytes]] = []

    def _keep(self, charge: dict[str, object]) -> None:
        self._count += 1
        self._charged.setdefault(str(charge["order"]), charge)

    def serve(self) -> None:
        """Answer for ever."""
        while True:
            line, _ = self._listening.accept()
            with contextlib.suppress(OSError, ValueError):
                line.settimeout(1)
                with line.makefile("rb") as question:
                    self._answer(line, json.loads(question.readline()))
            late, self._late = self._late, [one for one in self._late if one[0] is line]
            for other, answer in late:
                if other is not line:
                    self._say(other, answer)

    def _answer(self, line: socket.socket, asked: dict[str, object]) -> None:
        roll = self._chance.randrange(100) - HANGS_UP_BEFORE
        if roll < 0:
            line.close()
            return
        answer = self._charge(asked) if asked["what"] == "charge" else self._look(asked)
        text = json.dumps(answer).encode()
        roll -= HANGS_UP_AFTER
        if roll < 0:
            line.close()
        elif roll < GARBAGE:
            self._say(line, b"<html>Bad gateway</html>")
        elif roll < GARBAGE + SLOW:
            self._late.append((line, text))
        else:
            self._say(line, text)

    def _charge(self, asked: dict[str, object]) -> dict[str, object]:
        charge = {"order": asked["order"], "amount": asked["amount"], "number": self._count + 1}
        os.write(self._journal, json.dumps(charge).encode() + b"\n")
        self._keep(charge)
        return charge

    def _look(self, asked: dict[str, object]) -> dict[str, object]:
        os.write(self._looks, b".")
        if self._chance.randrange(100) < UNDER_WAY:
            return {"state": "under way"}
        charge = self._charged.get(str(asked["order"]))
        return {"state": "nothing"} if charge is None else {"state": "charged", **charge}

    @staticmethod
    def _say(line: socket.socket, answer: bytes) -> None:
        with contextlib.suppress(OSError):
            line.sendall(answer)
        line.close()


class Bank:
    """The service as a test runs it: its socket outlives it, so that nobody else gets its port."""

    def __init__(self, folder: Path) -> None:
        self._journal = folder / "bank.journal"
        self._journal.touch()
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=128)
        (folder / "bank.port").write_text(str(self._listening.getsockname()[1]))
        self._lives = 0
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        self._lives += 1
        fd = self._listening.fileno()
        return subprocess.Popen(
            [sys.executable, "-m", __name__, str(fd), str(self._journal), str(self._lives)],
            cwd=ROOT,
            pass_fds=[fd],
        )

    def kill(self) -> None:
        """SIGKILL, and another life; what was asked meanwhile waits."""
        self._process.kill()
        self._process.wait()
        self._process = self._start()

    def close(self) -> None:
        """It is over."""
        self._process.kill()
        self._process.wait()
        self._listening.close()

    @property
    def charges(self) -> Counter[str]:
        """How often each order was charged."""
        lines = self._journal.read_text().splitlines()
        return Counter(json.loads(line)["order"] for line in lines)

    @property
    def looks(self) -> int:
        """How often it was asked what it had done."""
        return self._journal.with_suffix(".looks").stat().st_size


def main() -> None:
    """Serve on the socket that was handed down."""
    fd, journal, seed = sys.argv[1:]
    with socket.socket(fileno=int(fd)) as listening:
        listening.setblocking(True)
        Service(listening, Path(journal), int(seed)).serve()


if __name__ == "__main__":
    main()
