"""From a claimed record to a running driver: params decoded, step made, history fed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from yieldstar_cli import codec
from yieldstar_cli.clock import LAST_MOMENT
from yieldstar_cli.engine import faults
from yieldstar_cli.engine.driver import Driver
from yieldstar_cli.engine.options import StepEvent
from yieldstar_cli.engine.step import Step
from yieldstar_cli.errors import CodeFault, ParamsFault, UndecodableRecord

if TYPE_CHECKING:
    from yieldstar_cli.engine.definition import Definition
    from yieldstar_cli.model import Claimed


def assemble(
    definition: Definition,
    claimed: Claimed,
    library: Callable[[str, int | None], Definition | None] | None = None,
) -> Driver:
    """A driver whose function is made and not yet stepped; `run` replays it.

    `library` finds a workflow by its name, for children: that version, or with None the latest.
    A fault of the code, such as params that no longer fit (spec E4), is left in `driver.fault`.
    """
    return Driver(
        definition,
        claimed.seed,
        claimed.incarnation,
        claimed.started_at,
        claimed.log_count,
        claimed.delivery.execution_id,
        library,
    )


def damage(claimed: Claimed) -> CodeFault | None:
    """What is wrong with the claimed history as rows, before it is asked what they say.

    A gap would be read as another history: recorded steps would run again.
    """
    history, first = claimed.history, claimed.first_position
    if not history and first == claimed.operations:
        return None
    if [entry.position for entry in history] != list(range(first, claimed.operations)):
        return UndecodableRecord(
            f"the recorded history is damaged: of entries {first + 1} to {claimed.operations}"
            f" there are {len(history)}, or not in one row",
            remedy="restore a backup of the file",
        )
    for entry in history:
        if not 0 <= entry.at <= LAST_MOMENT:
            return UndecodableRecord(
                f"the recorded history is damaged: entry {entry.position + 1} was at {entry.at}",
                remedy="restore a backup of the file",
            )
    return None


def run(driver: Driver, claimed: Claimed) -> None:
    """Step the function from the top through its recorded history (spec R2)."""
    try:
        coroutine = _coroutine(driver, claimed)
    except CodeFault as fault:
        driver.fault = fault
        return
    driver.start(coroutine, claimed.history)


def _coroutine(driver: Driver, claimed: Claimed) -> Coroutine[Any, Any, Any]:
    definition = driver.definition
    params = _params(definition, claimed.params_json)
    step = Step(driver, Given(driver, claimed, params))
    if definition.plain:
        return _one_step(step, definition, params)
    if definition.params_type is None:
        made = definition.fn(step)
    elif definition.spread:
        made = definition.fn(step, **_fields(params))
    else:
        made = definition.fn(step, params)
    return made  # type: ignore[no-any-return]  # an async def: checked when it was defined


async def _one_step(step: Step, definition: Definition, params: Any) -> Any:
    """A plain `def`: the whole function is one recorded step (spec R1)."""
    if definition.params_type is None:
        return await step.run(definition.fn)
    if definition.spread:
        return await step.run(definition.fn, **_fields(params))
    return await step.run(definition.fn, params)


def _fields(params: Any) -> dict[str, Any]:
    return {name: getattr(params, name) for name in params.__struct_fields__}


def _params(definition: Definition, text: str) -> Any:
    if definition.params_type is None:
        return None
    try:
        return codec.decode(text, definition.params_type)
    except codec.DecodeError as error:
        remedy = "give the new field a default, or put the old type back"
        place = faults.at((definition.file, definition.line))
        raise ParamsFault(
            f"the recorded params do not fit {definition.workflow_id} at {place} as it is now:"
            f" {error}; {remedy}.",
            remedy=remedy,
        ) from error


class Given:
    """What an execution was given, and where its log lines go: behind `step.event`, `step.log`."""

    # Not the claim itself: a resident would keep the history of its first claim alive.
    __slots__ = (
        "_context",
        "_context_json",
        "_driver",
        "_logger",
        "_params",
        "_workflow_id",
    )

    def __init__(self, driver: Driver, claimed: Claimed, params: Any) -> None:
        self._driver = driver
        self._params = params
        self._workflow_id = claimed.workflow_id
        self._context_json = claimed.context_json
        self._context: MappingProxyType[str, Any] | None = None
        self._logger: logging.Logger | None = None

    def event(self) -> StepEvent:
        """The event of the record (RFC 001). Raises UndecodableRecord."""
        driver = self._driver
        if self._context is None:
            self._context = _context(self._context_json)
        return StepEvent(
            execution_id=driver.execution_id,
            workflow_id=self._workflow_id,
            params=self._params,
            context=self._context,
            incarnation=driver.incarnation,
            operations=driver.operations,
        )

    def log(self) -> logging.Logger:
        """The execution's own logger."""
        if self._logger is None:
            # Not registered: it lives and dies with the execution.
            self._logger = logging.Logger(f"yieldstar.{self._workflow_id}")
            self._logger.addHandler(_Lines(self._driver))
        return self._logger


def _context(text: str) -> MappingProxyType[str, Any]:
    try:
        recorded = codec.decode(text)
        if not isinstance(recorded, dict):
            raise codec.DecodeError(f"expected object, got {type(recorded).__name__}")
        return MappingProxyType(recorded)
    except codec.DecodeError as error:
        raise UndecodableRecord(f"the recorded context no longer decodes: {error}") from None


class _Lines(logging.Handler):
    """Hands a workflow's log lines to its driver."""

    def __init__(self, driver: Driver) -> None:
        super().__init__()
        self._driver = driver

    def handle(self, record: logging.LogRecord) -> bool:
        """Without the lock that others need: one thread steps the function."""
        self.emit(record)
        return True

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line; one that cannot be formatted as it is, as logging itself does."""
        try:
            text = self.format(record)
        except Exception as error:
            text = f"{record.msg} (its arguments do not fit: {error})"
        # What UTF-8 has no bytes for cannot be stored: it is written as an escape.
        text = text.encode("utf-8", "backslashreplace").decode("utf-8")
        self._driver.log_line(record.levelno, text)
