"""One call of `ys`: its global options, its streams and how they look, the time it began."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TextIO

from yieldstar_cli import clock as clocks
from yieldstar_cli.cli.render import document
from yieldstar_cli.cli.render.terminal import Look
from yieldstar_cli.cli.render.times import Times
from yieldstar_cli.errors import YieldstarError
from yieldstar_cli.nouns import dataclass, field


@dataclass(slots=True)
class Settings:
    """The global options, accepted before or after the verb."""

    db: str | None = None
    directory: str | None = None
    trust_dirs: tuple[str, ...] = ()
    json: bool = False
    quiet: bool = False
    verbose: int = 0
    color: str = "auto"
    #: None: relative for people, utc for programs.
    times: str | None = None
    debug: bool = False


class CannotWrite(YieldstarError):
    """What was to be printed could not be written, for lack of room or otherwise."""

    code = "CANNOT_WRITE"


def _cannot_write(error: OSError) -> Exception:
    if isinstance(error, BrokenPipeError):
        return error
    return CannotWrite(f"the output cannot be written: {error.strerror}")


@dataclass(slots=True)
class Call:
    """What a command reads its words from and prints to."""

    argv: tuple[str, ...] = ()
    settings: Settings = field(default_factory=Settings)
    clock: clocks.Clock = field(default_factory=clocks.SystemClock)
    #: How to wait, and what to measure it with.
    pause: Callable[[float], None] = clocks.pause_ms
    monotonic_ms: Callable[[], float] = clocks.monotonic_ms
    #: What a command leaves for the end: closing the database.
    closing: list[Callable[[], None]] = field(default_factory=list)
    #: The databases that it may have read: where something goes wrong they are looked at.
    databases: list[Path] = field(default_factory=list)

    @property
    def out(self) -> TextIO:
        """Where data goes."""
        return sys.stdout

    @property
    def err(self) -> TextIO:
        """Where talk goes."""
        return sys.stderr

    @property
    def look(self) -> Look:
        """How stdout looks."""
        return Look.of(self.out, self.settings.color, os.environ)

    @property
    def err_look(self) -> Look:
        """How stderr looks."""
        return Look.of(self.err, self.settings.color, os.environ)

    @property
    def times(self) -> Times:
        """Moments as `--times` asks, counted from now."""
        style = self.settings.times or ("relative" if self.drawn else "utc")
        return Times(self.clock.now_ms(), style)

    @property
    def drawn(self) -> bool:
        """True when a person looks at stdout: a terminal, and no `--json`."""
        return not self.settings.json and self.out.isatty()

    def print(self, *lines: str) -> None:
        """Print data, line by line. Raises BrokenPipeError, CannotWrite."""
        self.write("".join(f"{line}\n" for line in lines))

    def write(self, text: str) -> None:
        """Print data as it is. Raises BrokenPipeError, CannotWrite."""
        try:
            self.out.write(text)
        except OSError as error:
            raise _cannot_write(error) from None

    def flush(self) -> None:
        """See that what was printed has left. Raises BrokenPipeError, CannotWrite."""
        try:
            self.out.flush()
        except OSError as error:
            raise _cannot_write(error) from None

    def print_lines(self, lines: Iterable[str]) -> None:
        """Print data, line by line."""
        self.print(*lines)

    def print_document(self, value: object) -> None:
        """Print one JSON document."""
        self.print(document.dumps(value))

    def say(self, *lines: str) -> None:
        """Talk: warnings and progress, on stderr, unless `-q`."""
        if not self.settings.quiet:
            self.err.write("".join(f"{line}\n" for line in lines))
            self.err.flush()

    def hint(self, *lines: str) -> None:
        """Talk that helps a person along: only where stderr is a terminal."""
        if self.err.isatty() and not self.settings.json:
            self.say(*lines)

    def close(self) -> None:
        """Undo what the call opened."""
        while self.closing:
            self.closing.pop()()
