"""What the words of `ys worker` ask for, as one frozen value that the worker process reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from yieldstar_cli.project import Project
    from yieldstar_cli.worker.member import Seat
    from yieldstar_cli.worker.ports import Talk


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """One worker's settings. None means: the project's setting, or the default (spec K1, K2)."""

    #: Database and workflow directory, with the `--workflows` and `--trust-dir` of the call.
    project: Project
    #: End when nothing that this worker may claim is due and nothing runs in it.
    until_idle: bool = False
    #: One delivery for each execution that is due at the start, then end.
    once: bool = False
    #: With `until_idle`: stay for wakes due within this span.
    linger_ms: int = 0
    #: Claim nothing more after this span.
    for_ms: int | None = None
    #: Sync steps at once.
    jobs: int | None = None
    #: Claim only these workflows; empty means all that are loaded.
    only: tuple[str, ...] = ()
    #: Never claim these.
    except_: tuple[str, ...] = ()
    #: What this worker can do: it takes what needs one of these too (spec O5).
    tags: tuple[str, ...] = ()
    #: How long running steps may go on after the first signal.
    grace_ms: int | None = None
    #: How long a claim stands without renewal.
    lease_ms: int | None = None
    name: str | None = None
    #: Deliver this one execution alone and end (spec L5); used between our own processes only.
    alone: str | None = None
    #: Its seat among the processes of one `ys worker --processes`, if it is one of them.
    member: Seat | None = None
    #: Tells people and programs what happens; called on the worker's loop thread.
    talk: Talk | None = None
    verbose: int = 0
    json: bool = False
    quiet: bool = False
    debug: bool = False
    trust_dirs: tuple[str, ...] = ()
