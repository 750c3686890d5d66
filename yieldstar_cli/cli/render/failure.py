"""Shows an error in its four parts: what, why, where it stands now, what to type."""

from __future__ import annotations

import re

from yieldstar_cli.cli.render import safe
from yieldstar_cli.cli.render.terminal import Look
from yieldstar_cli.errors import YieldstarError

_WIDTH = 80
# "See it: ys show order-42": a remedy with a label.
_LABELLED = re.compile(r"([^:`]{1,30}): +(\S.*)", re.DOTALL)


def failure_lines(error: YieldstarError, look: Look) -> list[str]:
    """The error for people, wrapped at 80 columns (or the terminal's width, if smaller)."""
    width = min(look.width, _WIDTH)
    mark = look.g("✗")
    what = _sentence(safe.visible(error.message))
    lines = safe.wrap(what, width, "  ", first=f"{mark} ")
    lines[0] = look.paint("bad", mark) + lines[0][len(mark) :]
    for paragraph in error.why:
        for line in safe.visible_lines(paragraph):
            lines += safe.wrap(line, width, "  ")
    return lines + _remedy_lines(error.remedy, look, width)


def _remedy_lines(remedies: tuple[str, ...], look: Look, width: int) -> list[str]:
    labelled = [_LABELLED.fullmatch(remedy) for remedy in remedies]
    column = max((len(match[1]) for match in labelled if match), default=0) + 2
    lines = []
    for remedy, match in zip(remedies, labelled, strict=True):
        text = f"{match[1] + ':':<{column}}{match[2]}" if match else remedy
        first = f"  {look.g('→')} "
        lines += safe.wrap(safe.visible(text), width, " " * len(first), first=first)
    return lines


def failure_document(error: YieldstarError, execution: object = None) -> dict[str, object]:
    """The error for programs, schema `ys.error/1`."""
    document: dict[str, object] = {
        "schema": "ys.error/1",
        "code": error.code,
        "exit": error.exit_code,
        "message": safe.visible(error.message),
        "why": [safe.visible(line) for text in error.why for line in text.split("\n")],
        "remedy": [safe.visible(_bare(remedy)) for remedy in error.remedy],
    }
    if execution is not None:
        document["execution"] = execution
    return document


def _bare(remedy: str) -> str:
    """The command alone: without its label, and without a remark after it."""
    match = _LABELLED.fullmatch(remedy)
    return (match[2] if match else remedy).partition("      (")[0]


def _sentence(text: str) -> str:
    return text if text[-1:] in (".", "?", "!", ":") else f"{text}."
