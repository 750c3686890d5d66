"""Children of an execution, and the ends of others that it awaits (spec section 5)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from yieldstar_cli import codec, params
from yieldstar_cli.engine import naming
from yieldstar_cli.engine.operations import (
    PARK,
    Handle,
    Operation,
    Site,
    State,
    Window,
    register,
)
from yieldstar_cli.engine.options import StepParts
from yieldstar_cli.engine.outside import ActionHandle, ChildHandle, ExecutionHandle, child_id
from yieldstar_cli.errors import ChildFailed, InvalidExecutionEvent, UnserializableValue
from yieldstar_cli.model import Kind, Start

if TYPE_CHECKING:
    from yieldstar_cli.engine.authoring import Workflow
    from yieldstar_cli.engine.definition import Definition

T = TypeVar("T")
R = TypeVar("R")


class Children(StepParts):
    """The operations on other executions."""

    __slots__ = ()

    @overload
    def child(
        self,
        workflow: Workflow[[T], R],
        params: T,
        *,
        id: str | None = None,
        detached: bool = False,
    ) -> ChildHandle[R]: ...
    @overload
    def child(
        self,
        workflow: Workflow[[], R],
        *,
        id: str | None = None,
        detached: bool = False,
    ) -> ChildHandle[R]: ...
    @overload
    def child(
        self,
        workflow: Workflow[..., R],
        params: Mapping[str, object],
        *,
        id: str | None = None,
        detached: bool = False,
    ) -> ChildHandle[R]: ...
    @overload
    def child(
        self,
        workflow: str,
        params: object = None,
        *,
        id: str | None = None,
        detached: bool = False,
    ) -> ChildHandle[Any]: ...
    def child(
        self,
        workflow: Workflow[..., Any] | str,
        params: object = None,
        *,
        id: str | None = None,  # noqa: A002 - the contract's word
        detached: bool = False,
    ) -> ChildHandle[Any]:
        """Start a child, exactly once, and hold it; it runs whether it is awaited or not.

        Without `id` it is called `<parent>/<key>`. It is cancelled when this execution ends, unless
        `detached`. Awaiting it gives its result, or raises ChildFailed or ChildCancelled, and
        ExecutionAdmissionError where the ID is another's. Raises InvalidParams at once. Source:
        spec C1-C4.
        """
        self._only_key("child")
        return self._child(workflow, params, id, detached, naming.call_site())

    @overload
    def handle(self, ref: str) -> ExecutionHandle[Any]: ...
    @overload
    def handle(self, ref: str, workflow: Workflow[..., R]) -> ExecutionHandle[R]: ...
    def handle(self, ref: str, workflow: Workflow[..., Any] | None = None) -> ExecutionHandle[Any]:
        """The handle that `ref` (a handle's `.ref`) names, in this or any later incarnation.

        With `workflow` its result has that workflow's type, else it is plain data. Source: spec C1.
        """
        return self._other("handle", ref, workflow, naming.call_site())

    @overload
    def attach(self, execution_id: str) -> ExecutionHandle[Any]: ...
    @overload
    def attach(self, execution_id: str, workflow: Workflow[..., R]) -> ExecutionHandle[R]: ...
    def attach(
        self, execution_id: str, workflow: Workflow[..., Any] | None = None
    ) -> ExecutionHandle[Any]:
        """A handle to any execution, whoever started it (spec C5)."""
        return self._other("attach", execution_id, workflow, naming.call_site())

    @overload
    def map(
        self,
        workflow: Workflow[[T], R],
        items: Sequence[T],
        *,
        id: Callable[[T], str] | None = None,
        limit: int | None = None,
        errors: Literal["raise"] = "raise",
    ) -> Coroutine[Any, Any, list[R]]: ...
    @overload
    def map(
        self,
        workflow: Workflow[[T], R],
        items: Sequence[T],
        *,
        id: Callable[[T], str] | None = None,
        limit: int | None = None,
        errors: Literal["keep"],
    ) -> Coroutine[Any, Any, list[R | ChildFailed]]: ...
    @overload
    def map(
        self,
        workflow: Workflow[..., Any],
        items: Sequence[Mapping[str, object]],
        *,
        id: Callable[[Any], str] | None = None,
        limit: int | None = None,
        errors: Literal["raise", "keep"] = "raise",
    ) -> Coroutine[Any, Any, list[Any]]: ...
    @overload
    def map(
        self,
        workflow: str,
        items: Sequence[Any],
        *,
        id: Callable[[Any], str] | None = None,
        limit: int | None = None,
        errors: Literal["raise", "keep"] = "raise",
    ) -> Coroutine[Any, Any, list[Any]]: ...
    def map(
        self,
        workflow: Workflow[..., Any] | str,
        items: Sequence[Any],
        *,
        id: Callable[[Any], str] | None = None,  # noqa: A002 - the contract's word
        limit: int | None = None,
        errors: Literal["raise", "keep"] = "raise",
    ) -> Coroutine[Any, Any, list[Any]]:
        """One child for each of `items`, at most `limit` at once; results in the order given.

        With "raise" the first failure is raised at once and no more are started; the others go on
        until this execution ends. With "keep" a ChildFailed stands in its place.
        """
        self._only_key("map")
        if limit is not None and (type(limit) is not int or limit < 1):
            raise ValueError(f"limit must be 1 or more: {limit!r}")
        if errors not in ("raise", "keep"):
            raise ValueError(f'errors is "raise" or "keep", not {errors!r}')
        given = list(items)
        site = naming.call_site()
        driver = self._driver
        driver.check_running()

        def start(item: Any) -> ChildHandle[Any]:
            return self._child(workflow, item, None if id is None else id(item), False, site)

        def body() -> Generator[Any, Any, list[Any]]:
            return (yield from self._mapped(start, given, limit or len(given), errors == "keep"))

        return Operation(driver, "step.map(...)", site, body)

    # --- inside ----------------------------------------------------------------------------

    def _mapped(
        self,
        start: Callable[[Any], ChildHandle[Any]],
        items: Sequence[Any],
        limit: int,
        keep: bool,
    ) -> Generator[Any, Any, list[Any]]:
        driver = self._driver
        window = Window(driver.running_branch())
        open_ones: dict[Handle[Any], int] = {}
        results: list[Any] = [None] * len(items)
        following = iter(enumerate(items))
        try:
            while True:
                while len(open_ones) < limit and (item := next(following, None)) is not None:
                    handle: Handle[Any] = start(item[1])
                    open_ones[handle] = item[0]
                    handle.enter(window.branch)
                    if handle.state is State.OPEN:
                        register(driver, window, handle)
                    else:
                        window.ended.append(handle)
                if not open_ones:
                    return results
                while not window.ended:
                    yield PARK
                done = window.ended.popleft()
                index = open_ones.pop(done)
                try:
                    results[index] = done.result()
                except ChildFailed as error:
                    if not keep:
                        raise
                    results[index] = error
        finally:
            window.leave(driver, open_ones)

    def _child(
        self,
        workflow: Workflow[..., Any] | str,
        given: object,
        execution_id: str | None,
        detached: bool,
        site: Site,
    ) -> ChildHandle[Any]:
        driver = self._driver
        branch = driver.running_branch()
        if not isinstance(workflow, str) and not hasattr(type(workflow), "definition"):
            raise naming.no_workflow(workflow, "child")
        name = workflow if isinstance(workflow, str) else workflow.definition.workflow_id
        base = self._key or name
        begun = driver.begun.get(driver.next_key(branch, Kind.CHILD, base))
        definition = None if isinstance(workflow, str) else workflow.definition
        asked = None if begun is None else begun[1]
        own = definition is not None and asked in (None, definition.version)
        if not own and driver.library is not None:
            # One that was started stays what it was, though a newer version came (R11).
            definition = driver.library(name, asked) or definition
        version = 1 if definition is None else definition.version
        if execution_id is not None and not isinstance(execution_id, str):
            raise TypeError(f"an execution ID is text, not {execution_id!r}")
        if begun is not None:
            # Its params are on its own record: what would fit by now is no question (R2).
            text = "null"
        else:
            text = _plain(given) if definition is None else fitted(definition, given)
        key = driver.assign_key(branch, Kind.CHILD, base)
        target = execution_id
        if target is None:
            target = child_id(driver.execution_id, key, driver.incarnation)
        result_type = Any if definition is None else definition.result_type
        child: ChildHandle[Any] = ChildHandle(driver, base, target, result_type, site)
        child.key = key
        intent = Start("", 0, target, name, version, text, detached)
        action: ActionHandle[None] = ActionHandle(driver, Kind.START, base, name, site, intent)
        action.key = key
        action.child, child.start = child, action
        driver.issue(action, branch)
        return child

    def _other(
        self, base: str, execution_id: str, workflow: Workflow[..., Any] | None, site: Site
    ) -> ExecutionHandle[Any]:
        self._only_key(base)
        self._driver.check_running()
        naming.check_reference(execution_id, f"step.{base}")
        result_type = Any if workflow is None else workflow.definition.result_type
        return ExecutionHandle(self._driver, self._key or base, execution_id, result_type, site)


def fitted(definition: Definition, value: object) -> str:
    """Params as they are stored: validated, defaults filled in (spec E4).

    Raises InvalidParams, InvalidExecutionEvent.
    """
    type_ = definition.params_type or params.NoParams
    if type(value) is type_:
        # What it is made of is checked as it is written; the slower way says what is wrong.
        with suppress(UnserializableValue):
            return codec.encode(value, type_, place="params")
    made = params.validate(type_, value)
    try:
        return codec.encode(made, type_, place="params")
    except UnserializableValue as error:
        raise InvalidExecutionEvent(error.place, error.reason) from None


def _plain(value: object) -> str:
    try:
        return codec.encode({} if value is None else value, place="params")
    except UnserializableValue as error:
        raise InvalidExecutionEvent(error.place, error.reason) from None


__all__ = ["Children", "fitted"]
