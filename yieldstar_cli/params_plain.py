"""Params of plain types given as text: what the codec would write of them, without msgspec (V4).

Only what is certain to be written alike is written here; `params` does the rest, and refuses.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from json.encoder import encode_basestring
from typing import Any

from yieldstar_cli.json_text import Json
from yieldstar_cli.nouns import dataclass

#: Whole numbers of so many digits are plain ones.
_DIGITS = 18
#: Kinds of which a default is written as it was described.
_WRITTEN_ALIKE = frozenset(("str", "int", "bool", "none"))
#: Unknown names are left to `params` in any case.
_CONFIG = frozenset(("forbid_unknown_fields",))


@dataclass(frozen=True, slots=True)
class Pair:
    """One `-p` option: `a.b=text`, or `a.b:=JSON` with `is_json`."""

    path: str
    text: str
    is_json: bool = False


def opaque(description: str) -> bool:
    """Whether the author's module has to be loaded to check such params."""
    return bool(json.loads(description)["k"] == "opaque")


def text_of(description: str, pairs: Sequence[Pair], limit: int) -> Json | None:
    """The text to store for `pairs`, defaults filled in; None where it takes the type itself."""
    node = json.loads(description)
    given = {pair.path: pair.text for pair in pairs if not pair.is_json}
    if node["k"] != "struct" or node["config"].keys() - _CONFIG or len(given) < len(pairs):
        return None
    parts = []
    for field in node["fields"]:
        text = given.pop(field["as"], None)
        kinds = _kinds(field["type"])
        written = field.get("default") if text is None else _written(kinds, text)
        if written is None or not kinds or (text is None and not kinds <= _WRITTEN_ALIKE):
            return None
        parts.append(f"{encode_basestring(field['as'])}:{written}")
    made = f"{{{','.join(parts)}}}"
    if given or not made.isprintable() or len(made.encode()) > limit:
        return None
    return Json(made)


def _kinds(node: dict[str, Any]) -> frozenset[str]:
    """The kinds that a type without limits allows; none where they are not all simple."""
    if "limits" in node:
        return frozenset()
    if node["k"] != "union":
        return frozenset((node["k"],))
    each = [_kinds(member) for member in node["types"]]
    return frozenset().union(*each) if all(each) else frozenset()


def _written(kinds: frozenset[str], text: str) -> str | None:
    if not kinds <= _WRITTEN_ALIKE:
        return None
    if "str" in kinds:
        return encode_basestring(text)
    if kinds <= {"int", "none"} and text.isascii() and text.isdigit() and len(text) <= _DIGITS:
        return str(int(text)) if text == "0" or text[0] != "0" else None
    if kinds <= {"bool", "none"} and text in ("true", "false"):
        return text
    return None
