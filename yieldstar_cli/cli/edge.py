"""The edge of the program: no exception passes it; each becomes words on stderr and a status."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from yieldstar_cli.cli import exits
from yieldstar_cli.cli.call import Call
from yieldstar_cli.cli.render import document, safe, terminal
from yieldstar_cli.errors import CorruptFile, YieldstarError


def conducted(call: Call, body: Callable[[], int]) -> int:
    """One whole call: its streams made ready, `body` guarded, what it printed sent, all closed."""
    for stream in (call.out, call.err):
        terminal.prepare(stream)

    def flushed() -> int:
        status = body()
        call.flush()
        return status

    try:
        return guarded(call, flushed)
    finally:
        call.close()


def guarded(call: Call, body: Callable[[], int]) -> int:
    """Run `body` and return its exit status, or that of the error it raised."""
    try:
        return body()
    except YieldstarError as error:
        return report(call, error)
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except BrokenPipeError:
        # The reader has seen enough (`ys list | head -1`).
        silence(sys.stdout)
        return exits.DONE
    except Exception as error:
        damage = _damage(call)
        return _bug(call, error) if damage is None else report(call, damage)


def report(call: Call, error: YieldstarError) -> int:
    """Tell `error` on stderr, for people or as JSON, and return its exit status."""
    _flush(call)
    if asked(call, "--debug"):
        _traceback(call, error)
    if asked(call, "--json"):
        from yieldstar_cli.cli.render.failure import failure_document

        record = getattr(error, "execution", None)
        _write(call, [document.dumps(failure_document(error, record))])
    else:
        _write(call, _lines(call, error))
    return error.exit_code


def asked(call: Call, option: str) -> bool:
    """Whether this call holds `option`, also when its words could not be read to the end."""
    words = call.argv[: call.argv.index("--")] if "--" in call.argv else call.argv
    return bool(getattr(call.settings, option.lstrip("-"))) or option in words


def _damage(call: Call) -> YieldstarError | None:
    """What is wrong with a database of this call: a damaged one explains any surprise."""
    from yieldstar_cli.runtime_session import refuse_damaged

    for database in call.databases:
        try:
            refuse_damaged(database)
        except CorruptFile as damage:
            return damage
        except (YieldstarError, OSError):
            continue
    return None


def _bug(call: Call, error: Exception) -> int:
    _flush(call)
    if asked(call, "--debug"):
        _traceback(call, error)
    from yieldstar_cli.cli import crash

    try:
        place = f"A crash report is in {crash.write_report(call.argv, error)}"
    except OSError as reason:
        place = f"A crash report could not be written: {reason.strerror}"
    failure = YieldstarError(
        f"this is a bug in ys: {type(error).__name__}",
        why=(place, "It holds the traceback, no params and no results."),
        remedy=("the same line with --debug shows the traceback",),
    )
    return report_plainly(call, failure)


def report_plainly(call: Call, error: YieldstarError) -> int:
    """As `report`, without a traceback."""
    if asked(call, "--json"):
        from yieldstar_cli.cli.render.failure import failure_document

        _write(call, [document.dumps(failure_document(error))])
    else:
        _write(call, _lines(call, error))
    return error.exit_code


def _lines(call: Call, error: YieldstarError) -> list[str]:
    from yieldstar_cli.cli.render.failure import failure_lines

    return failure_lines(error, call.err_look)


def _traceback(call: Call, error: BaseException) -> None:
    import traceback

    text = "".join(traceback.format_exception(error)).rstrip("\n")
    _write(call, safe.visible_lines(text))


def _write(call: Call, lines: list[str]) -> None:
    try:
        call.err.write("".join(f"{line}\n" for line in lines))
        call.err.flush()
    except OSError:
        silence(sys.stderr)


def _flush(call: Call) -> None:
    """Let data that was printed before an error come before its words."""
    try:
        call.out.flush()
    except OSError:
        silence(sys.stdout)


def silence(stream: object) -> None:
    """Point `stream` at nothing, so that Python's own flush at the end says nothing either."""
    try:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, stream.fileno())  # type: ignore[attr-defined]
        os.close(nothing)
    except (OSError, ValueError):
        return
