"""`ys doctor`: checks the database, the workers, the workflow files; each finding with its fix."""

from __future__ import annotations

import typer

from yieldstar_cli.cli import exits
from yieldstar_cli.cli.arguments import Workflows, call_of
from yieldstar_cli.cli.call import Call
from yieldstar_cli.cli.checkup import Checkup
from yieldstar_cli.cli.opened import project_of
from yieldstar_cli.cli.render import safe
from yieldstar_cli.cli.render.findings import finding_lines, findings_document

EXAMPLES = ("ys doctor", "ys doctor --json")
EXITS = (exits.DONE, exits.BAD_NEWS)


def command(context: typer.Context, workflows: Workflows = None) -> int:
    """Check the database, the workers and the workflow files.

    Looks at the file and its file system, permissions, who holds the write lock, live workers,
    what is due and not taken, held or poisoned, effects that are disputed, and modules that do not
    load. Loads no module. Exits 7 if it found something.
    """
    call = call_of(context)
    checkup = Checkup(call, project_of(call, workflows=workflows))
    checkup.run()
    if call.settings.json:
        call.print_document(findings_document(checkup.findings))
    elif call.drawn:
        call.print_lines(_drawn(call, checkup))
    else:
        call.print_lines(_piped(checkup))
    return exits.BAD_NEWS if checkup.findings else exits.DONE


def _piped(checkup: Checkup) -> list[str]:
    return [
        "\t".join(
            safe.visible(part)
            for part in (finding.level, finding.code, finding.text, finding.remedy or "")
        )
        for finding in checkup.findings
    ]


def _drawn(call: Call, checkup: Checkup) -> list[str]:
    look, width = call.look, min(call.look.width, 100) - 1
    lines = []
    for text in checkup.fine:
        mark = look.g("✓")
        wrapped = safe.wrap(safe.visible(text), width, "  ", first=f"{mark} ")
        lines += [look.paint("good", mark) + wrapped[0][len(mark) :], *wrapped[1:]]
    if checkup.project.settings.durability == "normal":
        # Chosen, so no finding; but what it gives up is said (spec E13).
        text = "durability normal: a power cut may take the last commits with it"
        lines += safe.wrap(text, width, "  ", first=f"{look.g('·')} ")
    for finding in checkup.findings:
        lines += finding_lines(finding, look, width)
    if not checkup.findings:
        lines.append("Nothing is wrong.")
    return lines
