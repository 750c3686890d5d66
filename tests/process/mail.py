"""A receiver that begins anew every few messages, and the program that sends to it.

    python -m tests.process.mail FOLDER SENDER COUNT COMMAND-EVERY UNSURE-EVERY

The sender notes each message in SENDER.sent once it knows the answer. It may be killed between
the two; run again, it goes on where its notes end, under the same idempotency key.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from yieldstar_cli import Runtime, open_runtime

#: The last two give each message a key; the others hear each answer.
SENDERS = ("a", "b", "c", "d")
EACH = 37

MODULE = f"""
import msgspec

from yieldstar_cli import Step, workflow


class Numbered(msgspec.Struct):
    sender: str
    number: int


class State(msgspec.Struct):
    wanted: int
    #: What is to come from each sender next; the state of each incarnation.
    following: dict[str, int] = {{}}


@workflow
async def receiver(step: Step, p: State) -> dict[str, int]:
    for _ in range({EACH}):
        if sum(p.following.values()) == p.wanted:
            return p.following
        message = await step.message("numbers", Numbered)
        expected = p.following.get(message.sender, 0)
        if message.number != expected:
            raise ValueError(f"{{message.sender}} {{message.number}}, not {{expected}}")
        p.following[message.sender] = expected + 1
    await step.continue_as(p)
"""


class Sender:
    """Sends numbers in their order, by the SDK and now and then by the command."""

    def __init__(self, folder: Path, name: str, runtime: Runtime) -> None:
        self.folder = folder
        self.name = name
        self.runtime = runtime
        self.notes = folder / f"{name}.sent"

    def run(self, count: int, command_every: int, unsure_every: int) -> None:
        first = len(self.notes.read_text().splitlines()) if self.notes.exists() else 0
        with self.notes.open("a", buffering=1) as notes:
            for number in range(first, count):
                answer = self.send(number, by_command=number % command_every == 7)
                if unsure_every and number % unsure_every == 5 and number != first:
                    os.kill(os.getpid(), signal.SIGKILL)
                notes.write(f"{number} {answer}\n")

    def send(self, number: int, *, by_command: bool) -> str:
        key = f"{self.name}-{number}" if self.name in SENDERS[2:] else None
        if by_command:
            words = ["send", "receiver", "numbers", f"sender={self.name}", f"number:={number}"]
            more = [] if key is None else ["--idempotency-key", key]
            ran = subprocess.run(
                [sys.executable, "-m", "yieldstar_cli", *words, *more],
                cwd=self.folder,
                text=True,
                capture_output=True,
                check=True,
            )
            return ran.stdout.split()[1]
        value = {"sender": self.name, "number": number}
        return self.runtime.send("receiver", "numbers", value, idempotency_key=key)


if __name__ == "__main__":
    where = Path(sys.argv[1])
    os.chdir(where)
    with open_runtime() as opened:
        Sender(where, sys.argv[2], opened).run(*map(int, sys.argv[3:]))
