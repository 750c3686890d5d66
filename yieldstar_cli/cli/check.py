"""`ys check`: whether the database holds to every rule that a sound one keeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from yieldstar_cli.cli import exits
from yieldstar_cli.cli.arguments import call_of
from yieldstar_cli.cli.call import Call
from yieldstar_cli.cli.findings import Finding
from yieldstar_cli.cli.opened import open_reading, project_of
from yieldstar_cli.cli.render import safe
from yieldstar_cli.cli.render.findings import finding_lines, findings_document
from yieldstar_cli.cli.typed import typed
from yieldstar_cli.storage.upkeep import Breach

EXAMPLES = ("ys check", "ys check --quick --json")
EXITS = (exits.DONE, exits.BAD_NEWS, exits.DATABASE)

#: Of one kind so many are shown to a person.
_SHOWN = 20


def command(
    context: typer.Context,
    quick: Annotated[
        bool, typer.Option("--quick", help="Leave out what reads every value and index.")
    ] = False,
) -> int:
    """Check that the database holds to every rule of a sound one.

    Looks at SQLite's structure and schema, then at every execution: that it is due, in a worker's
    hands or waits for something; that status, tokens, history, messages, children and stores say
    one thing. Workers may go on meanwhile. Writes nothing. Exits 7 if it found a breach.
    """
    call = call_of(context)
    project = project_of(call)
    storage = open_reading(call, project)
    findings = [finding_of(breach) for breach in storage.upkeep.breaches(quick=quick)]
    if call.settings.json:
        call.print_document(findings_document(findings))
    elif call.drawn:
        counts = storage.reader.counts()
        call.print_lines(_drawn(call, findings, sum(counts.values())))
    else:
        call.print_lines(_piped(findings))
    return exits.BAD_NEWS if findings else exits.DONE


def finding_of(breach: Breach) -> Finding:
    """A breach, with its execution named in the sentence and in what is to be typed."""
    name = breach.execution_id
    return Finding(
        code=breach.code,
        level="error",
        text=f"{breach.text if name is None else f'{name}: {breach.text}'}.",
        remedy=breach.remedy.replace("{}", "ID" if name is None else typed(name)),
        means=breach.means,
        execution_id=name,
    )


def _drawn(call: Call, findings: Sequence[Finding], executions: int) -> Iterator[str]:
    look, width = call.look, min(call.look.width, 100) - 1
    counted = f"{executions:,} execution{'s' * (executions != 1)}"
    if not findings:
        mark = look.paint("good", look.g("✓"))
        yield f"{mark} {counted} checked. Nothing is wrong."
        return
    counts: Counter[str] = Counter()
    for finding in findings:
        counts[finding.code] += 1
        if counts[finding.code] <= _SHOWN:
            yield from finding_lines(finding, look, width)
    for code, count in counts.items():
        if count > _SHOWN:
            yield f"{count - _SHOWN:,} more of {code}: ys check | cat"
    total = len(findings)
    yield f"{total:,} breach{'es' * (total != 1)} in {counted}."


def _piped(findings: Sequence[Finding]) -> Iterator[str]:
    for finding in findings:
        parts = (finding.level, finding.code, finding.execution_id or "", finding.text)
        yield "\t".join(safe.visible(part) for part in (*parts, finding.remedy or ""))
