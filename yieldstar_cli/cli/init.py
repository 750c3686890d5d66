"""`ys init`: makes a project: a sample workflow, a database, lines in .gitignore."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from yieldstar_cli.cli import exits
from yieldstar_cli.cli.arguments import call_of
from yieldstar_cli.cli.call import Call
from yieldstar_cli.cli.opened import open_writing, project_of
from yieldstar_cli.cli.render import safe
from yieldstar_cli.cli.samples import SAMPLES, Example, Sample
from yieldstar_cli.errors import FileInTheWay, UsageError
from yieldstar_cli.project import utf8_path

EXAMPLES = ("ys init", "ys init shop --example approval")
EXITS = (exits.DONE, exits.USAGE, exits.REFUSED, exits.DATABASE)

IGNORED = ("ys.db", "ys.db-*")


def command(
    context: typer.Context,
    # Not `directory`: so is -C called, and one value would reach both.
    where: Annotated[
        str | None, typer.Argument(help="Where; omitted: here.", metavar="[DIR]")
    ] = None,
    example: Annotated[
        Example | None, typer.Option("--example", help="The sample workflow; else hello.")
    ] = None,
    bare: Annotated[bool, typer.Option("--bare", help="Without a sample workflow.")] = False,
) -> None:
    """Make a project here: a sample workflow and a database.

    Writes workflows/hello.py (or another sample), ys.db and lines of .gitignore. What is there
    already and as it should be stays; a file in the way is never overwritten (exit 6). Again is
    harmless.
    """
    if bare and example is not None:
        raise UsageError("--bare and --example do not go together")
    sample = None if bare else SAMPLES[example or Example.HELLO]
    call = call_of(context)
    root = Path(call.settings.directory or ".") / (where or "")
    utf8_path(Path(os.path.realpath(root)))
    modules = root / "workflows"
    _refuse_what_is_in_the_way(root, modules, sample)
    try:
        # Never writable by others, whatever the umask: a worker would refuse them (spec K5).
        root.mkdir(mode=0o755, parents=True, exist_ok=True)
        modules.mkdir(mode=0o755, exist_ok=True)
        made = [] if sample is None else _make(modules / sample.file, sample.text)
        _add_ignored(root / ".gitignore")
    except OSError as error:
        raise FileInTheWay(
            f"{error.filename or root} cannot be written: {error.strerror}"
        ) from None
    call.settings.directory = str(root)
    project = project_of(call)
    if not os.path.exists(project.db):
        made.append(str(project.db))
    open_writing(call, project)
    _tell(call, root, made, sample)


def _refuse_what_is_in_the_way(root: Path, modules: Path, sample: Sample | None) -> None:
    for place in (root, modules):
        if os.path.exists(place) and not os.path.isdir(place):
            raise FileInTheWay(
                f"{place} is in the way: it is not a directory", why=("Nothing was changed.",)
            )
    if sample is None or not os.path.exists(path := modules / sample.file):
        return
    if not os.path.isfile(path) or path.read_bytes() != sample.text.encode():
        raise FileInTheWay(
            f"{path} is in the way: it is not the sample",
            why=("Nothing was changed.",),
            remedy=("ys init --bare", "ys workflows"),
        )


def _make(path: Path, text: str) -> list[str]:
    if os.path.exists(path):
        return []
    _write(path, text.encode())
    return [str(path)]


def _write(path: Path, content: bytes) -> None:
    """Write a file that only its owner may change."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags, 0o644)

    with open(path, "wb", opener=opener) as file:
        file.write(content)


def _add_ignored(path: Path) -> None:
    old = path.read_bytes() if os.path.exists(path) else b""
    present = old.split(b"\n")
    missing = [line for line in IGNORED if line.encode() not in present]
    if missing:
        start = b"" if not old or old.endswith(b"\n") else b"\n"
        _write(path, old + start + "".join(f"{line}\n" for line in missing).encode())


def _tell(call: Call, place: Path, made: list[str], sample: Sample | None) -> None:
    root = Path(os.path.realpath(place))
    shown = []
    for text in made:
        path = Path(os.path.realpath(text))
        shown.append(str(path.relative_to(root) if path.is_relative_to(root) else path))
    if call.settings.json:
        call.print_document({"schema": "ys.project/1", "root": str(root), "made": shown})
        return
    call.print(
        f"Made {safe.visible(' and '.join(shown))}." if shown else "Nothing to do: all is there."
    )
    if sample is not None and not call.settings.quiet:
        steps = list(sample.calls)
        if root != Path.cwd():
            steps.insert(0, f"cd {shlex.quote(safe.visible(str(place)))}")
        call.print(*(f"{'' if n else 'Try:':<7}{step}" for n, step in enumerate(steps)))
