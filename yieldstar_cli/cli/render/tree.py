"""Draws `ys show --tree`: one line for an execution, one for children that are alike."""

from __future__ import annotations

from yieldstar_cli.cli.render import safe
from yieldstar_cli.cli.render.terminal import STATUS_GLYPHS, Look, style_of
from yieldstar_cli.cli.render.times import took
from yieldstar_cli.cli.tree import Group, Node
from yieldstar_cli.failures_view import summarize, view_error
from yieldstar_cli.model import CancelledOutcome, Completed, Failed

#: What a line tells stands here at the latest; names that reach further push it.
_NAME = 28
_NARROWEST = 12


def tree_lines(root: Node, headline: str, look: Look) -> list[str]:
    """The tree, within the terminal's width; `headline` says how the first one stands."""
    record = root.record
    name = safe.visible(record.execution_id)
    plain = f"{look.g(STATUS_GLYPHS[record.status])} {record.status}"
    before = f"{name}   {safe.visible(record.workflow_id)}   "
    first = look.clip(f"{before}{plain}   {safe.visible(headline)}".rstrip(), look.width - 1)
    if first.startswith(before + plain):
        rest = first[len(before) + len(plain) :]
        painted = look.paint("strong", name) + before[len(name) :]
        first = f"{painted}{look.status(str(record.status))}{rest}"
    if not root.groups and not root.nodes and not root.hidden:
        return [first, "  no children"]
    return [first, *_below(root, "", look)]


def _below(node: Node, indent: str, look: Look) -> list[str]:
    # What is told of each begins in one column, as long as there is room.
    column = max(_NARROWEST, _NAME - len(indent))
    rows: list[tuple[str, Node | None]] = [
        (_group(group, column, look), None) for group in node.groups
    ]
    rows += [(_single(child, column, look), child) for child in node.nodes]
    if node.hidden:
        word = "child" if node.hidden == 1 else "children"
        rows.append((f"{look.g('…')} {node.hidden:,} {word} below: --depth N", None))
    lines = []
    for number, (text, child) in enumerate(rows, 1):
        last = number == len(rows)
        corner = look.g("└─ " if last else "├─ ")
        lines.append(_fitted(indent + corner, text, look))
        if child is not None:
            lines += _below(child, indent + ("   " if last else look.g("│  ")), look)
    return lines


def _fitted(before: str, text: str, look: Look) -> str:
    """A line within the width; its glyph is painted once it is cut."""
    cut = look.clip(text, max(1, look.width - 1 - safe.cells(before)))
    for status, glyph in STATUS_GLYPHS.items():
        shown = look.g(glyph)
        if cut.startswith(shown):
            return before + look.paint(style_of(status), shown) + cut[len(shown) :]
    return before + cut


def _group(group: Group, column: int, look: Look) -> str:
    glyph = look.g(STATUS_GLYPHS[group.status])
    left = f"{glyph} {group.count:,} {look.g('×')} {safe.visible(group.workflow_id)}"
    return f"{safe.pad(left, column)}  {_group_words(group, look)}".rstrip()


def _group_words(group: Group, look: Look) -> str:
    if not group.looked_at:
        return ""
    if group.status == "completed":
        slowest = group.slowest
        span = took(slowest.updated_at - slowest.admitted_at)
        of = "" if len(group.looked_at) == group.count else f" of {len(group.looked_at):,}"
        return (
            f"{took(group.median_ms)} median{of}, {span} slowest "
            f"({safe.visible(slowest.execution_id)})"
        )
    if group.status == "failed":
        names: dict[str, int] = {}
        for record in group.looked_at:
            if isinstance(record.outcome, Failed):
                name = view_error(record.outcome.error).name
                names[name] = names.get(name, 0) + 1
        common = sorted(names.items(), key=lambda pair: -pair[1])[:3]
        return safe.visible(", ".join(f"{count:,} {look.g('×')} {name}" for name, count in common))
    return "" if group.brief is None else safe.visible(group.brief.text)


def _single(node: Node, column: int, look: Look) -> str:
    record = node.record
    glyph = look.g(STATUS_GLYPHS[record.status])
    left = safe.pad(f"{glyph} {safe.visible(record.execution_id)}", column)
    detached = " (detached)" if record.detached else ""
    return f"{left}  {safe.visible(_words(node))}{detached}".rstrip()


def _words(node: Node) -> str:
    record = node.record
    match record.outcome:
        case Completed():
            return took(record.updated_at - record.admitted_at)
        case Failed(error):
            where = view_error(error).where
            place = "" if where is None else f"   {where.file.rsplit('/', 1)[-1]}:{where.line}"
            return f"{summarize(error)}{place}"
        case CancelledOutcome(reason):
            return reason or "cancelled"
        case None:
            return "" if node.brief is None else node.brief.text
