"""Draws `ys workflows NAME`: docstring, params, result, latest executions, a ready line."""

from __future__ import annotations

import inspect
import json
import shlex
from collections.abc import Sequence
from typing import Any

from yieldstar_cli.cli.render import safe
from yieldstar_cli.cli.render.terminal import STATUS_GLYPHS, Look
from yieldstar_cli.model import ExecutionRecord, WorkflowInfo
from yieldstar_cli.params import table


def workflow_lines(
    info: WorkflowInfo, file: str, latest: Sequence[ExecutionRecord], look: Look
) -> list[str]:
    """The page of one workflow."""
    name = safe.visible(info.workflow_id)
    title = name if info.version == 1 else f"{name} version {info.version}"
    place = safe.visible(f"{file}:{info.line}")
    gap = " " * max(4, look.width - safe.cells(title) - safe.cells(place))
    lines = [look.paint("strong", title) + gap + look.paint("dim", place)]
    if info.doc.strip():
        lines += safe.visible_lines(inspect.cleandoc(info.doc))
    lines.append("")
    rows = [("param", "type", "default", "")]
    fields = table(info.params_description)
    for field in fields:
        default = "required" if field.required else field.default_text
        rows.append((field.name, field.type_text, default, field.doc))
    rows = [tuple(safe.visible(part) for part in row) for row in rows]  # type: ignore[misc]
    lines += _aligned(rows, look) if fields else ["  takes no params"]
    lines.append(f"  {'result':<8}{look.clip(safe.visible(result_text(info)), look.width - 11)}")
    if info.retry:
        lines.append(f"  {'retry':<8}{safe.visible(info.retry)}")
    if info.tags:
        needed = " ".join(f"--tag {shlex.quote(tag)}" for tag in info.tags)
        lines.append(f"  {'tags':<8}{safe.visible(f'run by ys worker {needed}')}")
    if latest:
        shown = [
            f"{safe.visible(record.execution_id)} {look.g(STATUS_GLYPHS[record.status])}"
            for record in latest
        ]
        lines.append(f"  {'last':<8}{look.clip(look.g(' · ').join(shown), look.width - 11)}")
    required = [field.name for field in fields if field.required]
    words = ["ys trigger", name, "--id ID", *(f"-p {shlex.quote(r)}=…" for r in required)]
    return [*lines, "", f"  {safe.visible(' '.join(words)).replace('…', look.g('…'))}"]


def _aligned(rows: Sequence[tuple[str, ...]], look: Look) -> list[str]:
    widths = [max(safe.cells(row[column]) for row in rows) for column in range(3)]
    lines = []
    for row in rows:
        cells = [safe.pad(row[column], widths[column]) for column in range(3)]
        lines.append(look.clip(f"  {'  '.join(cells)}  {row[3]}".rstrip(), look.width - 1))
    return lines


def result_text(info: WorkflowInfo) -> str:
    """The result type in words, from its JSON Schema."""
    schema = json.loads(info.result_schema)
    return _type(schema, schema.get("$defs", {}))


def _type(schema: Any, named: dict[str, Any]) -> str:
    if not isinstance(schema, dict) or not set(schema) - {"$defs", "title", "description"}:
        return "anything"
    if "$ref" in schema:
        name = str(schema["$ref"]).rsplit("/", 1)[-1]
        fields = named.get(name, {}).get("properties", {})
        inner = ", ".join(f"{key}: {_type(part, {})}" for key, part in fields.items())
        return f"{name}({inner})" if inner else name
    if "anyOf" in schema:
        return " or ".join(_type(part, named) for part in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return " or ".join(json.dumps(value, ensure_ascii=False) for value in values)
    kind = schema.get("type")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}), named)}"
    words = {
        "integer": "int",
        "string": "str",
        "boolean": "bool",
        "number": "float",
        "null": "none",
        "object": "dict",
    }
    return words.get(str(kind), "anything")
