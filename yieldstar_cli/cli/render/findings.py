"""Shows what a check has found: as lines for a terminal, and as a document."""

from __future__ import annotations

from collections.abc import Sequence

from yieldstar_cli.cli.findings import Finding
from yieldstar_cli.cli.render import safe
from yieldstar_cli.cli.render.terminal import Look


def finding_lines(finding: Finding, look: Look, width: int) -> list[str]:
    """What was found, what it means, and what helps."""
    mark = look.g("✗") if finding.level == "error" else "!"
    style = "bad" if finding.level == "error" else "wait"
    wrapped = safe.wrap(safe.visible(finding.text), width, "  ", first=f"{mark} ")
    lines = [look.paint(style, mark) + wrapped[0][len(mark) :], *wrapped[1:]]
    if finding.means:
        lines += safe.wrap(safe.visible(finding.means), width, "  ", first="  ")
    if finding.remedy:
        first = f"  {look.g('→')} "
        indent = " " * len(first)
        lines += safe.wrap(safe.visible(finding.remedy), width, indent, first=first)
    return lines


def findings_document(findings: Sequence[Finding]) -> dict[str, object]:
    """`ys.findings/1`."""
    return {
        "schema": "ys.findings/1",
        "ok": not findings,
        "findings": [_document(finding) for finding in findings],
    }


def _document(finding: Finding) -> dict[str, object]:
    found: dict[str, object] = {
        "code": finding.code,
        "level": finding.level,
        "file": finding.file,
        "line": finding.line,
        "text": finding.text,
        "remedy": finding.remedy,
    }
    if finding.means is not None:
        found["means"] = finding.means
        found["execution_id"] = finding.execution_id
    return found
