"""What every part of the author's handle shares: the driver, and the options of `using(...)`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from yieldstar_cli.engine.assembly import Given
    from yieldstar_cli.engine.driver import Driver
    from yieldstar_cli.engine.retry import RetryPolicy

#: A span: "10m", seconds as a number, or a timedelta.
Span = str | float | timedelta
#: A moment: an aware datetime, or UTC milliseconds.
Moment = datetime | float


@dataclass(frozen=True, slots=True)
class StepEvent:
    """What this execution was admitted with, and how far its incarnation is (RFC 001's event)."""

    execution_id: str
    workflow_id: str
    params: Any
    context: MappingProxyType[str, Any]
    incarnation: int
    #: Resolutions of this incarnation so far: "is my history large".
    operations: int


@dataclass(frozen=True, slots=True)
class Options:
    """What `using(...)` was given."""

    key: str | None = None
    retry: RetryPolicy | None = None
    timeout_ms: int | None = None
    tag: str | None = None

    @property
    def bounded(self) -> bool:
        """True with an option that only `run` and `poll` can have."""
        return self.retry is not None or self.timeout_ms is not None or self.tag is not None


class StepParts:
    """The state behind `Step`; its operations are added in `step.py` and its neighbours."""

    __slots__ = ("_driver", "_given", "_options")

    def __init__(
        self,
        driver: Driver,
        given: Given,
        options: Options | None = None,
    ) -> None:
        self._driver = driver
        self._given = given
        self._options = options

    @property
    def _key(self) -> str | None:
        return self._options.key if self._options is not None else None

    def _only_key(self, name: str) -> None:
        if self._options is not None and self._options.bounded:
            raise TypeError(f"retry, timeout and tag belong before run and poll, not {name}")

    def _no_options(self, name: str) -> None:
        if self._options is not None:
            raise TypeError(f"using(...) may not stand before {name}")
