"""Tells what a worker does: lines for people, JSON lines for programs, failures only in a pipe."""

from __future__ import annotations

from collections.abc import Container

from yieldstar_cli.cli.call import Call
from yieldstar_cli.cli.documents import moment
from yieldstar_cli.cli.render import document, safe
from yieldstar_cli.cli.render.times import Times, took
from yieldstar_cli.worker.ports import Event

# Told even where nobody watches: cron mails every byte, and only these are worth a mail.
_BAD = frozenset(
    (
        "failed",
        "held",
        "stale",
        "refused",
        "buried",
        "trouble",
        "broken module",
        "fatal",
        "slow",
        "called-off",
        "handed back",
    )
)
# Told only with -vv.
_DETAIL = frozenset(("step_started",))
# What a worker says most, of which a pipe is told nothing and only a drawn status line counts.
_GOOD = frozenset(
    ("claimed", "step_started", "step_completed", "suspended", "completed", "cancelled")
)
_GLYPHS = {
    "claimed": "▶",
    "suspended": "⏸",
    "completed": "✓",
    "failed": "✗",
    "cancelled": "⊘",
    "step_failed": "✗",
    "held": "✗",
}
_STYLES = {
    "claimed": "busy",
    "suspended": "wait",
    "completed": "good",
    "failed": "bad",
    "step_failed": "bad",
    "held": "bad",
    "fatal": "bad",
    "broken module": "bad",
    "trouble": "bad",
}
_ENDS = frozenset(
    ("suspended", "completed", "failed", "cancelled", "released", "held", "stale", "refused")
)


class WorkerTalk:
    """Called with every event, on the loop thread; a reader that goes away stops no work."""

    def __init__(self, call: Call, *, status: bool = True) -> None:
        self._call = call
        #: Several workers on one terminal cannot each have its last line.
        self._has_status = status
        self._look = call.look
        self._drawn = call.drawn and not call.settings.quiet
        self._open: set[str] = set()
        self._ended = 0
        self._failed = 0
        self._status = ""
        self._worker = ""

    @property
    def untold(self) -> Container[str]:
        """Kinds of events that need not be made, since nothing is done with them."""
        settings = self._call.settings
        if settings.json:
            return ()
        if self._drawn or (settings.verbose and not settings.quiet):
            return () if settings.verbose >= 2 else _DETAIL
        return _GOOD

    def __call__(self, event: Event) -> None:
        """Tell one event."""
        self._count(event)
        try:
            if self._call.settings.json:
                self._tell_program(event)
            else:
                self._tell_person(event)
        except (OSError, ValueError):
            # Nobody reads any more.
            return

    def close(self) -> None:
        """Take the status line away."""
        self._erase()

    def _count(self, event: Event) -> None:
        if event.kind == "started":
            self._worker = event.text.partition(" ")[0]
        elif event.kind == "claimed":
            self._open.add(event.execution_id)
        elif event.kind in _ENDS:
            self._open.discard(event.execution_id)
            self._ended += event.kind in ("completed", "failed", "cancelled")
            self._failed += event.kind == "failed"

    # --- programs ------------------------------------------------------------------------------

    def _tell_program(self, event: Event) -> None:
        line = document.dumps(
            {
                "schema": "ys.event/1",
                "at": moment(event.at),
                "execution_id": event.execution_id or None,
                "workflow_id": event.workflow_id or None,
                "kind": event.kind.replace(" ", "_").replace("-", "_"),
                "step_key": event.step_key or None,
                "attempt": event.attempt or None,
                "took_ms": event.took_ms,
                "due_at": moment(event.due_at),
                "worker": self._worker or None,
                "text": event.text or None,
            }
        )
        self._call.out.write(f"{line}\n")
        self._call.out.flush()

    # --- people --------------------------------------------------------------------------------

    def _tell_person(self, event: Event) -> None:
        settings = self._call.settings
        bad = event.kind in _BAD
        if event.kind in _DETAIL and settings.verbose < 2:
            return
        if self._drawn:
            self._erase()
            self._call.out.write(f"{self._line(event)}\n")
            self._draw_status()
            self._call.out.flush()
        elif bad:
            self._call.err.write(f"{self._line(event)}\n")
            self._call.err.flush()
        elif settings.verbose and not settings.quiet:
            self._call.out.write(f"{self._line(event)}\n")
            self._call.out.flush()

    def _line(self, event: Event) -> str:
        look = self._look
        if event.kind == "started":
            return f"ys worker {safe.visible(event.text)}{look.g(' · ')}Ctrl-C stops"
        at = self._at(event.at)
        style = _STYLES.get(event.kind, "dim")
        glyph = look.paint(style, look.g(_GLYPHS.get(event.kind, " ")))
        name = safe.visible(event.execution_id)
        if not event.execution_id:
            # A broken module's own traceback stands below its sentence (spec K1).
            said, *below = safe.visible_lines(event.text) or [""]
            return "\n  ".join((f"{at}  {look.paint(style, event.kind)}: {said}", *below))
        what, rest = self._words(event)
        line = f"{at}  {name:<12} {glyph} {safe.visible(what):<16} {safe.visible(rest)}"
        return line.rstrip()

    def _words(self, event: Event) -> tuple[str, str]:
        """What of the execution, and how it went."""
        if event.kind == "claimed":
            return event.workflow_id, f"delivery {event.attempt}"
        if event.kind == "step_started":
            return event.step_key, "began"
        if event.kind in ("step_completed", "step_failed"):
            words = f"{took(event.took_ms):>7}"
            if event.text:
                words += f"  {event.text}"
            if event.due_at is not None:
                words += f"; again in {took(event.due_at - event.at)}"
            return event.step_key, words
        if event.kind == "suspended":
            due = event.due_at
            return event.kind, "" if due is None else f"wakes in {took(due - event.at)}"
        if event.kind in ("completed", "failed", "cancelled"):
            return event.kind, event.text or f"{took(event.took_ms):>7}"
        return event.kind, f"{event.step_key} {safe.in_one_line(event.text)}".strip()

    def _at(self, at_ms: int) -> str:
        times = Times(at_ms, self._call.settings.times or ("local" if self._drawn else "utc"))
        text = times.at(at_ms)
        return text if text.endswith("Z") else f"{text}.{at_ms % 1000:03d}"

    # --- the status line -----------------------------------------------------------------------

    def _draw_status(self) -> None:
        if not self._has_status:
            return
        look = self._look
        parts = [f"{len(self._open)} running", f"{self._ended} ended"]
        if self._failed:
            parts.append(f"{self._failed} failed")
        bar = look.g("──")
        self._status = look.clip(f"{bar} {look.g(' · ').join(parts)} {bar}", look.width - 1)
        self._call.out.write(look.paint("dim", self._status))

    def _erase(self) -> None:
        if self._status:
            self._status = ""
            try:
                self._call.out.write("\r\x1b[K")
                self._call.out.flush()
            except (OSError, ValueError):
                return
