"""`ys worker`: claims due executions and runs them until stopped."""

from __future__ import annotations

import os
import re
import shlex
import socket
from collections.abc import Sequence
from typing import Annotated

import typer

from yieldstar_cli.cli import exits
from yieldstar_cli.cli.arguments import Workflows, call_of, read_span
from yieldstar_cli.cli.call import Call
from yieldstar_cli.cli.opened import crew, open_reading, project_of
from yieldstar_cli.errors import NoDatabase, UsageError
from yieldstar_cli.project import Project
from yieldstar_cli.worker.member import Seat

EXAMPLES = ("ys worker", "* * * * * cd /srv/shop && ys worker --for 55s")
EXITS = (
    exits.DONE,
    exits.NOT_FOUND,
    exits.DATABASE,
    exits.UNKNOWN_COMMIT,
    exits.INTERRUPTED,
    exits.TERMINATED,
)

#: From so many workers on one host on, it looks as if cron piled them up.
MANY_WORKERS = 3


def command(
    context: typer.Context,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="Run what is due, then exit: for cron.")
    ] = False,
    linger: Annotated[
        str | None,
        typer.Option("--linger", help="With it: stay for wakes due within D.", metavar="D"),
    ] = None,
    for_span: Annotated[
        str | None, typer.Option("--for", help="Claim nothing more after D.", metavar="D")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Deliver what is due now, once, then exit.")
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            "-j", "--jobs", help="Sync steps at once. [cores, at least 4]", metavar="N", min=1
        ),
    ] = None,
    only: Annotated[
        str | None, typer.Option("--only", help="Only these workflows.", metavar="W,…")
    ] = None,
    except_: Annotated[
        str | None, typer.Option("--except", help="Not these workflows.", metavar="W,…")
    ] = None,
    tags: Annotated[
        list[str] | None,
        typer.Option("--tag", help="What it can do, such as gpu; repeatable.", metavar="T"),
    ] = None,
    grace: Annotated[
        str | None,
        typer.Option("--grace", help="On TERM, finish running steps for D. [10s]", metavar="D"),
    ] = None,
    lease: Annotated[
        str | None,
        typer.Option("--lease", help="How long a claim stands unrenewed. [30s]", metavar="D"),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Its name. [host:pid]", metavar="NAME")
    ] = None,
    workflows: Workflows = None,
    processes: Annotated[
        int,
        typer.Option(
            "--processes",
            help="That many worker processes. [1]",
            metavar="N",
            min=1,
            max=256,
            show_default=False,
        ),
    ] = 1,
    member: Annotated[str | None, typer.Option("--member", hidden=True)] = None,
    alone: Annotated[str | None, typer.Option("--alone", hidden=True)] = None,
) -> int:
    """Run due executions until stopped.

    The first Ctrl-C or SIGTERM lets running steps end (--grace), the second one leaves at once.
    In a pipe it says nothing unless something failed; -v brings the lines back, --json gives one
    event a line. A failed execution is not a failed worker: it exits 0.
    """
    call = call_of(context)
    if linger is not None and not until_idle:
        raise UsageError("--linger needs --until-idle")
    if once and until_idle:
        raise UsageError("--once or --until-idle, not both")
    lease_ms, grace_ms = read_span("--lease", lease), read_span("--grace", grace)
    linger_ms, for_ms = read_span("--linger", linger) or 0, read_span("--for", for_span)
    if lease_ms is not None and lease_ms < 100:
        raise UsageError("--lease must be at least 100ms", remedy=("ys help times",))
    if name is not None and (not name.isprintable() or not 0 < len(name) <= 100):
        raise UsageError("--name is 1 to 100 printable characters")
    project = project_of(call, workflows=workflows)
    seat = None if member is None else Seat.read(member)
    if alone is None and seat is None:
        _warn_of_many(call, project)
        if processes > 1:
            return _run_crew(call, processes)
    from yieldstar_cli.cli.render.talk import WorkerTalk
    from yieldstar_cli.worker.options import WorkerOptions
    from yieldstar_cli.worker.process import run_worker

    talk = WorkerTalk(call, status=seat is None)
    options = WorkerOptions(
        project=project,
        until_idle=until_idle,
        once=once,
        linger_ms=linger_ms,
        for_ms=for_ms,
        jobs=jobs,
        only=_names("--only", only),
        except_=_names("--except", except_),
        tags=_tags(tags or ()),
        grace_ms=grace_ms,
        lease_ms=lease_ms,
        name=name if name is None or seat is None else f"{name}-{seat.number + 1}",
        alone=alone,
        member=seat,
        talk=talk,
        verbose=call.settings.verbose,
        json=call.settings.json,
        quiet=call.settings.quiet,
        debug=call.settings.debug,
        trust_dirs=call.settings.trust_dirs,
    )
    try:
        return run_worker(options)
    finally:
        talk.close()


def _run_crew(call: Call, count: int) -> int:
    """Start that many of these, and run until they have ended (spec K1)."""
    from yieldstar_cli.cli.render.talk import WorkerTalk
    from yieldstar_cli.worker.crew import Crew
    from yieldstar_cli.worker.ports import Event
    from yieldstar_cli.worker.suspects import PYTHON

    talk = WorkerTalk(call, status=False)
    begun_at = call.clock.now_ms()

    def command(number: int, line: int) -> list[str]:
        words = [*PYTHON, *_without_processes(call.argv)]
        return [*words, "--member", str(Seat(line, number, begun_at))]

    def say(text: str) -> None:
        talk(Event(at=call.clock.now_ms(), kind="trouble", execution_id="", text=text))

    return Crew(command, count, say).run()


def _without_processes(argv: Sequence[str]) -> list[str]:
    """The words of this call as each of the processes is given them."""
    words: list[str] = []
    given = iter(argv)
    for word in given:
        if word == "--processes":
            next(given, None)
        elif not word.startswith("--processes="):
            words.append(word)
    return words


def _names(option: str, text: str | None) -> tuple[str, ...]:
    if text is None:
        return ()
    names = tuple(name for name in (word.strip() for word in text.split(",")) if name)
    if not names:
        # Left out it would mean every workflow, which nobody means by an empty one.
        raise UsageError(f"{option} names no workflow", remedy=("ys workflows",))
    return names


def _tags(given: Sequence[str]) -> tuple[str, ...]:
    from yieldstar_cli.engine.naming import check_tag

    for tag in given:
        try:
            check_tag(tag)
        except ValueError as error:
            parts = [part for part in re.split("[, ]+", tag) if part]
            remedy = " ".join(f"--tag {shlex.quote(part)}" for part in parts) or "--tag gpu"
            raise UsageError(f"--tag: {error}", remedy=(f"ys worker {remedy}",)) from None
    return tuple(sorted(set(given)))


def _warn_of_many(call: Call, project: Project) -> None:
    """Say once that this host has more and more workers (`ys worker` from cron piles up)."""
    if not os.path.exists(project.db):
        return
    try:
        workers = crew(call, project, open_reading(call, project)).alive
    except NoDatabase:
        # Empty, or of an older schema: this worker, or one that starts beside it, sets it up.
        return
    host = socket.gethostname()
    here = [row for row in workers if row.host == host]
    # The connection is not needed any more, and the worker makes its own.
    call.close()
    if len(here) + 1 >= MANY_WORKERS:
        call.say(
            f"{len(here)} workers run here already. From cron, use: ys worker --until-idle",
            "or ys worker --for 55s; ys doctor lists them.",
        )
