"""What a check finds: something that is not as it should be, and what to do about it."""

from __future__ import annotations

from yieldstar_cli.nouns import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found."""

    code: str
    #: "error" or "warning".
    level: str
    text: str
    remedy: str | None = None
    file: str | None = None
    line: int | None = None
    #: What it means, and for which execution; where that is known.
    means: str | None = None
    execution_id: str | None = None
