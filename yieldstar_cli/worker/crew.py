"""`ys worker --processes N`: starts so many workers, passes signals on, replaces the dead (K1)."""

from __future__ import annotations

import selectors
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from yieldstar_cli import clock as clocks
from yieldstar_cli.worker.member import ALL_IDLE, BUSY, IDLE, READY
from yieldstar_cli.worker.signals import ENDING

#: So many deaths within this span are taken for a loop: then the others are asked to end.
MOST_DEATHS = 5
DEATHS_WITHIN_MS = 60_000
#: How long a member has to heed the second signal before it is killed.
LAST_PATIENCE_S = 2.0

#: The words that start member `index` with its end of the line, which is descriptor `line`.
Command = Callable[[int, int], Sequence[str]]


@dataclass(slots=True)
class _Member:
    index: int
    process: subprocess.Popen[bytes]
    #: Our end of its line. When ours closes, it ends; when its does, it has ended.
    line: socket.socket
    ready: bool = False
    idle: bool = False


class Crew:
    """Worker processes that end together. `say` tells people what should not have happened."""

    def __init__(self, command: Command, count: int, say: Callable[[str], None]) -> None:
        self._command = command
        self._count = count
        self._say = say
        self._selector = selectors.DefaultSelector()
        self._members: list[_Member] = []
        self._signals: list[int] = []
        self._heeded = 0
        self._started = False
        self._stopping = False
        self._deaths: list[float] = []
        self._status = 0

    def run(self) -> int:
        """Run until every member has ended; the worst of their exit statuses."""
        with self._listening():
            self._start(0)
            while self._members:
                for key, _ in self._selector.select():
                    self._hear(key.data)
                self._heed()
                if len(self._signals) > 1:
                    return self._end_at_once(self._signals[1])
                for member in list(self._members):
                    self._look_after(member)
                self._let_idle_go()
        return self._status

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Signals, and the ends of members, end the sleep of the loop while this is in force."""
        ours, kernels = socket.socketpair()
        with ours, kernels, self._selector:
            for end in (ours, kernels):
                end.setblocking(False)
            self._selector.register(ours, selectors.EVENT_READ, ours)
            before = {number: signal.signal(number, self._signalled) for number in ENDING}
            before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda number, frame: None)
            woken = signal.set_wakeup_fd(kernels.fileno(), warn_on_full_buffer=False)
            try:
                yield
            finally:
                signal.set_wakeup_fd(woken)
                for number, handler in before.items():
                    signal.signal(number, handler if handler is not None else signal.SIG_DFL)

    def _signalled(self, number: int, frame: object) -> None:
        self._signals.append(number)

    # --- members -------------------------------------------------------------------------------

    def _start(self, index: int) -> None:
        ours, its = socket.socketpair()
        with its:
            process = subprocess.Popen(
                self._command(index, its.fileno()),
                stdin=subprocess.DEVNULL,
                pass_fds=(its.fileno(),),
                # Ctrl-C reaches the whole group of the terminal: a member is told by us, once.
                process_group=0,
            )
        ours.setblocking(False)
        member = _Member(index, process, ours)
        self._members.append(member)
        self._selector.register(ours, selectors.EVENT_READ, member)

    def _hear(self, source: _Member | socket.socket) -> None:
        if isinstance(source, socket.socket):
            with suppress(BlockingIOError):
                source.recv(4096)
            return
        try:
            said = source.line.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            said = b""
        if not said:
            # Its process ends, or has: the kernel says so.
            self._selector.unregister(source.line)
            return
        for word in (said[n : n + 1] for n in range(len(said))):
            if word == READY:
                source.ready = True
            elif word in (IDLE, BUSY):
                source.idle = word == IDLE
        if source.ready and not self._started and not self._stopping:
            # One first: it sets the file up, and says alone what is wrong with all of them.
            self._started = True
            for index in range(1, self._count):
                self._start(index)

    def _look_after(self, member: _Member) -> None:
        """See whether it has ended, and what follows."""
        code = member.process.poll()
        if code is None:
            return
        self._leave_out(member)
        if code == 0 or (self._stopping and -code in ENDING):
            return
        status = code if code > 0 else 128 - code
        if self._stopping or not member.ready:
            # What never came to work would not the next time.
            self._give_up(status)
            return
        how = f"ended with status {code}" if code > 0 else f"was killed by signal {-code}"
        now = clocks.monotonic_ms()
        self._deaths = [at for at in self._deaths if now - at < DEATHS_WITHIN_MS] + [now]
        if len(self._deaths) > MOST_DEATHS:
            self._say(
                f"worker process {member.process.pid} {how}, after {MOST_DEATHS} others within a "
                "minute; the crew stops"
            )
            self._give_up(status)
            return
        self._say(f"worker process {member.process.pid} {how}; another takes its place")
        self._start(member.index)

    def _leave_out(self, member: _Member) -> None:
        self._members.remove(member)
        with suppress(KeyError):
            self._selector.unregister(member.line)
        member.line.close()

    def _give_up(self, status: int) -> None:
        self._status = max(self._status, status)
        self._stop(signal.SIGTERM)

    def _let_idle_go(self) -> None:
        """With `--until-idle`: once none of them has anything to do, all may leave."""
        if self._members and all(member.idle for member in self._members):
            for member in self._members:
                member.idle = False
                with suppress(OSError):
                    member.line.send(ALL_IDLE)

    # --- the end -------------------------------------------------------------------------------

    def _heed(self) -> None:
        if self._signals and not self._heeded:
            self._heeded = 1
            self._stop(self._signals[0])

    def _stop(self, number: int) -> None:
        """Ask each member, once, to claim nothing more."""
        if not self._stopping:
            self._stopping = True
            for member in self._members:
                member.process.send_signal(number)

    def _end_at_once(self, number: int) -> int:
        """The second signal: members leave without another word, or are killed."""
        for member in self._members:
            member.process.send_signal(number)
        for member in self._members:
            try:
                member.process.wait(LAST_PATIENCE_S)
            except subprocess.TimeoutExpired:
                member.process.kill()
                member.process.wait()
            member.line.close()
        return 128 + number
