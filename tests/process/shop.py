"""A project whose steps talk to the test through named pipes and files, never through sleeps."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import textwrap
from pathlib import Path

from tests.kill.scene import Scene
from yieldstar_cli.errors import DatabaseBusy
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

#: `enter` announces itself on one pipe and waits for a line on another.
MODULE = '''
import os
from pathlib import Path

from yieldstar_cli import Step, workflow


def note(name: str) -> None:
    with Path("ledger.txt").open("a") as file:
        file.write(name + "\\n")


def block(name: str) -> str:
    note(f"{name} begins")
    gate = f"{name}.{os.getpid()}.go"
    os.mkfifo(gate)
    with open(f"{name}.entered", "w") as pipe:
        pipe.write(str(os.getpid()))
    with open(gate) as pipe:
        answer = pipe.read()
    note(f"{name} ends")
    return answer.strip()


def quick(name: str) -> str:
    note(name)
    return name


def die(name: str) -> None:
    note(name)
    os._exit(1)


@workflow
async def gated(step: Step, name: str) -> str:
    """Waits in a step until the test lets it go on."""
    await step.run(quick, f"{name} first")
    answer = await step.run(block, name)
    await step.run(quick, f"{name} last")
    return answer


@workflow
async def simple(step: Step, name: str) -> str:
    """One quick step."""
    return await step.run(quick, name)


@workflow
async def deadly(step: Step, name: str) -> None:
    """Its step ends the process."""
    await step.run(die, name)
'''


class Shop(Scene):
    """A scene with gated workflows instead of the examples."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        for example in (folder / "workflows").iterdir():
            if example.is_file():
                example.unlink()
        self.module("gates", MODULE)

    def module(self, name: str, text: str) -> None:
        """Write a workflow module."""
        path = self.folder / "workflows" / f"{name}.py"
        path.write_text(textwrap.dedent(text))
        path.chmod(0o644)

    def gate(self, name: str) -> None:
        """Make the pipe on which a gated step announces itself."""
        os.mkfifo(self.folder / f"{name}.entered")

    def wait_entered(self, name: str) -> int:
        """Block until the step has begun, a minute at most; returns the worker's pid."""
        pipe = os.open(self.folder / f"{name}.entered", os.O_RDONLY | os.O_NONBLOCK)
        try:
            waiting = select.poll()
            waiting.register(pipe, select.POLLIN)
            assert waiting.poll(60_000), f"nobody entered {name}: {self.ys('doctor').stdout}"
            return int(os.read(pipe, 100))
        finally:
            os.close(pipe)

    def let_go(self, name: str, pid: int, answer: str = "done") -> None:
        """Let the step in that worker return `answer`."""
        with open(self.folder / f"{name}.{pid}.go", "w") as pipe:
            pipe.write(answer)

    def stop_at_rest(self, worker: subprocess.Popen[str]) -> None:
        """SIGSTOP a worker outside a transaction: within one it would lock the file for all."""
        while True:
            worker.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, worker.pid, os.WSTOPPED | os.WNOWAIT)
            storage = SqliteStorage(self.folder / "ys.db", busy_timeout_ms=200)
            try:
                with storage.atomic():
                    return
            except DatabaseBusy:
                worker.send_signal(signal.SIGCONT)
            finally:
                storage.close()

    def lines(self) -> list[str]:
        """What the steps noted."""
        return self.ledger.read_text().splitlines() if self.ledger.exists() else []
