"""SIGTERM and SIGINT, in processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from yieldstar_cli.clock import ManualClock
from yieldstar_cli.worker.loop import VirtualLoop
from yieldstar_cli.worker.signals import Signals

BOTH = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["TERM", "INT"])

SCRIPT = """
import os, signal, sys, threading, time
from yieldstar_cli.clock import SystemClock
from yieldstar_cli.worker.loop import AsyncLoop
from yieldstar_cli.worker.signals import Signals

loop = AsyncLoop(SystemClock())
told = []

def say(text):
    print(text, flush=True)
"""


class Process:
    """A script that says lines; signals are sent between them."""

    def __init__(self, body: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT + textwrap.dedent(body)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def end(self) -> tuple[int, str]:
        _, said = self.process.communicate(timeout=20)
        return self.process.returncode, said


@BOTH
def test_the_first_signal_asks_the_loop_and_the_worker_ends_in_order(number):
    """case 87, B95; spec K2: exit 0."""
    process = Process(
        """
        with Signals(loop, told.append):
            loop.call_at(loop.now_ms() + 3_600_000, lambda: None)
            loop.post(lambda: say("running"))
            loop.run_until(lambda: bool(told))
        say(f"asked by {told}")
        """
    )

    assert process.says() == "running"
    process.process.send_signal(number)

    assert process.says() == f"asked by [{int(number)}]"
    assert process.end() == (0, "")


@BOTH
def test_the_second_signal_leaves_at_once_though_a_step_never_ends(number):
    """case 88, B96; spec K2: 143/130, whatever still runs."""
    process = Process(
        """
        threading.Thread(target=threading.Event().wait).start()
        with Signals(loop, lambda number: say("stopping"), lambda number: sys.stderr.write("bye")):
            loop.post(lambda: say("running"))
            loop.run_until(lambda: False)
        """
    )

    assert process.says() == "running"
    process.process.send_signal(number)
    assert process.says() == "stopping"
    process.process.send_signal(number)

    assert process.end() == (128 + number, "bye")


def test_two_different_signals_count_together():
    """spec K2: second signal, whichever it is."""
    process = Process(
        """
        with Signals(loop, lambda number: say("stopping")):
            loop.post(lambda: say("running"))
            loop.run_until(lambda: False)
        """
    )

    assert process.says() == "running"
    process.process.send_signal(signal.SIGTERM)
    assert process.says() == "stopping"
    process.process.send_signal(signal.SIGINT)

    assert process.end() == (130, "")


def test_the_second_signal_works_while_the_loop_does_not_come_back():
    """B64, B96: a function that blocks the loop's thread cannot stop a person from leaving."""
    process = Process(
        """
        class Told(Signals):
            def _handle(self, number, frame):
                say("heard")
                super()._handle(number, frame)

        def endless():
            say("blocking")
            while True:
                pass

        with Told(loop, told.append):
            loop.post(endless)
            loop.run_until(lambda: False)
        """
    )

    assert process.says() == "blocking"
    process.process.send_signal(signal.SIGTERM)
    assert process.says() == "heard"
    process.process.send_signal(signal.SIGTERM)

    assert process.says() == "heard"
    assert process.end() == (143, "")


def test_an_error_while_saying_goodbye_does_not_keep_the_process():
    """spec K2: at once."""
    process = Process(
        """
        with Signals(loop, lambda number: say("stopping"), lambda number: 1 / 0):
            loop.post(lambda: say("running"))
            loop.run_until(lambda: False)
        """
    )

    assert process.says() == "running"
    process.process.send_signal(signal.SIGTERM)
    assert process.says() == "stopping"
    process.process.send_signal(signal.SIGTERM)

    assert process.end() == (143, "")


def test_a_signal_to_a_forked_child_ends_the_child_as_if_it_had_no_handlers():
    """B19: a step's child inherits the handlers, not the worker's duties."""
    process = Process(
        """
        with Signals(loop, told.append):
            pid = os.fork()
            if pid == 0:
                os.kill(os.getpid(), signal.SIGTERM)
                os._exit(0)
            say(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
            say(told)
        """
    )

    assert process.says() == str(-signal.SIGTERM)
    assert process.says() == "[]"
    assert process.end() == (0, "")


def test_handlers_are_as_before_when_the_worker_has_ended():
    """A program that runs a worker gets its Ctrl-C back."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    loop = VirtualLoop(ManualClock())
    seen: list[int] = []

    with Signals(loop, seen.append) as signals:
        os.kill(os.getpid(), signal.SIGTERM)
        assert signals.count == 1
        assert seen == []
        loop.run()

    assert seen == [signal.SIGTERM]
    assert {number: signal.getsignal(number) for number in before} == before
