"""How an execution ends, and that it ends once (spec R8, E9-E12)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.engine.helpers import START, MakeRig, called, keys
from yieldstar_cli import failures
from yieldstar_cli.engine.step import Step
from yieldstar_cli.errors import Cancelled, StepFailed, UnserializableValue
from yieldstar_cli.model import Completed, Failed, Suspended


def give(value: Any = None) -> Any:
    return value


def raises(error: BaseException) -> None:
    raise error


class ShopClosed(Exception):
    pass


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class TwoArguments(Exception):
    def __init__(self, shop: str, code: int) -> None:
        super().__init__(f"{shop} said {code}")
        self.shop = shop
        self.code = code


def gone_class() -> BaseException:
    return type("GoneError", (ValueError,), {"__module__": "a_module_that_was_deleted"})("gone")


def deep_recursion() -> BaseException:
    def down(n: int) -> int:
        return down(n + 1)

    try:
        down(0)
    except RecursionError as error:
        return error
    raise AssertionError


def view(found: Any) -> failures.ErrorView:
    assert isinstance(found.record.outcome, Failed), found.record
    return failures.view_error(found.record.outcome.error)


# --- completed --------------------------------------------------------------------------------


def test_what_the_function_returns_is_the_result(rig: MakeRig) -> None:
    """case 95; spec E9."""

    async def w(step: Step) -> Any:
        return {"total": await step.run(give, 5), "lines": [1, 2.5, None, "é"]}

    found = rig(w).go()

    assert found.status == "completed"
    assert found.result == {"total": 5, "lines": [1, 2.5, None, "é"]}
    assert found.record.due_at is None


def test_none_is_a_result_and_not_the_lack_of_one(rig: MakeRig) -> None:
    """case 103, B100: completed with null; a run without a result yet has another status."""

    async def w(step: Step) -> None:
        assert await step.run(give, None) is None
        await step.sleep("1h")
        assert await step.run(give, None) is None

    x = rig(w)
    early = x.to(60_000)
    assert (early.status, early.record.outcome) == ("suspended", None)
    x.restart()
    found = x.go()

    assert found.record.outcome == Completed("null")
    assert found.result is None
    assert called(found) == ["give", "give#2"]


def test_a_suspended_delivery_leaves_no_outcome(rig: MakeRig) -> None:
    """case 94."""

    async def w(step: Step) -> None:
        await step.sleep("1h")

    record = rig(w).to(1_000).record

    assert (record.status, record.outcome, record.delivery) == ("suspended", None, None)
    assert record.last_acked_at == START


def test_only_legal_transitions_happen(rig: MakeRig) -> None:
    """case 108; spec E5: admitted, suspended, completed; each look sees one of them, in order."""
    seen: list[str] = []

    async def w(step: Step) -> None:
        for _ in range(3):
            await step.run(give)
            await step.sleep("1s")

    x = rig(w)

    def note() -> bool:
        if not seen or seen[-1] != x.record.status:
            seen.append(str(x.record.status))
        return False

    x.until(note)
    note()

    assert seen == ["admitted", "suspended", "completed"]


# --- failed -----------------------------------------------------------------------------------


def test_an_exception_of_the_function_is_the_outcome_once(rig: MakeRig) -> None:
    """case 96, B75; spec R8: failed once, with name and message; not tried again."""
    runs = []

    async def w(step: Step) -> None:
        runs.append(1)
        raise ShopClosed("on Sundays")

    x = rig(w)
    found = x.go()
    x.bench.clock.advance(86_400_000)

    assert x.go().record.deliveries == 1
    assert (view(found).name, view(found).message) == ("ShopClosed", "on Sundays")
    assert isinstance(found.error, ShopClosed)
    assert len(runs) == 1


TAXONOMY = {
    "no message": (ValueError(), "ValueError", ""),
    "arguments that are no text": (KeyError(1, [2], {"a": None}), "KeyError", "(1, [2], {'a': N"),
    "a str() that raises": (Speechless("x"), "Speechless", ""),
    "a class of a deleted module": (gone_class(), "GoneError", "gone"),
    "a group": (ExceptionGroup("g", [ValueError("a"), KeyError("b")]), "ExceptionGroup", "g (2"),
    "a RecursionError": (deep_recursion(), "RecursionError", "maximum recursion"),
    "a MemoryError": (MemoryError(), "MemoryError", ""),
    "a SystemExit": (SystemExit(3), "SystemExit", "3"),
    "a KeyboardInterrupt": (KeyboardInterrupt(), "KeyboardInterrupt", ""),
    "a GeneratorExit": (GeneratorExit(), "GeneratorExit", ""),
    "an asyncio.CancelledError": (asyncio.CancelledError("x"), "CancelledError", "x"),
    "our own Cancelled": (Cancelled("x"), "Cancelled", "x"),
    "two arguments": (TwoArguments("shop", 500), "TwoArguments", "shop said 500"),
    "a group of others": (
        BaseExceptionGroup("g", [KeyboardInterrupt(), ValueError("a")]),
        "BaseExceptionGroup",
        "g (2",
    ),
    "a NUL": (ValueError("a\x00b"), "ValueError", "a\x00b"),
    "a surrogate": (ValueError("\ud83d!"), "ValueError", "\\ud83d!"),
    "an escape": (ValueError("\x1b[31mred"), "ValueError", "\x1b[31mred"),
    "a megabyte": (ValueError("x" * 1_000_000), "ValueError", "xxxx"),
}


@pytest.mark.parametrize("what", TAXONOMY)
def test_whatever_leaves_the_function_is_a_failure(rig: MakeRig, what: str) -> None:
    """cases 104, 105, 142, B76, B80, B84, B85; spec R8: none of them hurts the worker."""
    error, name, message = TAXONOMY[what]

    async def w(step: Step) -> None:
        if step.event.execution_id == "x":
            raise error

    x = rig(w)
    x.bench.admit("w", execution_id="y")
    found = x.go()

    assert found.status == "failed"
    assert view(found).name == name
    assert view(found).message.startswith(message)
    assert len(found.record.outcome.error) < 1_000_000  # type: ignore[union-attr]
    assert found.error is not None
    assert x.bench.record("y").status == "completed"


@pytest.mark.parametrize("what", [what for what in TAXONOMY if what != "a KeyboardInterrupt"])
def test_whatever_leaves_a_step_is_that_steps_error(rig: MakeRig, what: str) -> None:
    """cases 104, 105, 116, B76, B80, B84, B85; spec R8, O2: alike on first run and on replay."""
    error, name, _ = TAXONOMY[what]

    async def w(step: Step) -> list[str]:
        seen = []
        for _ in range(2):
            try:
                await step.run(raises, error)
            except Exception as caught:
                seen.append(f"{type(caught).__name__} {str(caught)[:40]}")
            await step.sleep("1h")
        return seen

    x = rig(w)
    x.to(60_000)
    first = x.history[0]
    x.restart()
    found = x.go()

    assert failures.view_error(first.value).name == name
    assert found.result[0] == found.result[1]
    assert len(called(found)) == 2
    if not isinstance(error, Exception):
        assert found.result[0].startswith("StepFailed")


def test_stop_iteration_comes_back_as_step_failed(rig: MakeRig) -> None:
    """spec O2: it would end a coroutine by itself."""

    async def w(step: Step) -> list[str]:
        seen = []
        for error in (StopIteration(5), StopAsyncIteration("x")):
            try:
                await step.run(raises, error)
            except StepFailed as caught:
                seen.append(caught.name)
        return seen

    assert rig(w).go().result == ["StopIteration", "StopAsyncIteration"]


def test_the_members_of_a_group_are_recorded_and_come_back(rig: MakeRig) -> None:
    """B76; spec E11, O2: all inner errors; `except*` takes them."""

    async def w(step: Step) -> list[str]:
        seen = []
        group = ExceptionGroup("g", [ValueError("a"), KeyError("b"), ShopClosed("c")])
        try:
            await step.run(raises, group)
        except* ValueError as some:
            seen.append(str(some.exceptions[0]))
        except* ShopClosed as some:
            seen.append(str(some.exceptions[0]))
        except* KeyError as some:
            seen.append(str(some.exceptions[0]))
        raise group

    found = rig(w).go()

    assert [m.name for m in view(found).members] == ["ValueError", "KeyError", "ShopClosed"]
    assert isinstance(found.error, ExceptionGroup)
    assert [str(e) for e in found.error.exceptions] == ["a", "'b'", "c"]


def test_causes_and_notes_and_the_traceback_are_kept(rig: MakeRig) -> None:
    """spec E11: name, message, notes, cause chain and traceback text."""

    async def w(step: Step) -> None:
        try:
            await step.run(raises, KeyError("deep"))
        except KeyError as error:
            later = ShopClosed("outer")
            later.add_note("look at the shop")
            raise later from error

    seen = view(rig(w).go())

    assert seen.notes == ("look at the shop",)
    assert seen.cause is not None
    assert seen.cause.name == "KeyError"
    assert "test_outcomes.py" in seen.traceback
    assert seen.where is not None
    assert seen.where.function.endswith("w")


def test_an_error_raised_only_on_replay_is_classified_alike(rig: MakeRig) -> None:
    """case 135: the function's own error is a failure, whenever it is raised."""
    runs = []

    async def w(step: Step) -> str:
        runs.append(1)
        if len(runs) > 1:
            raise ShopClosed("second run")
        await step.sleep("1h")
        return "done"

    x = rig(w)
    x.to(60_000)
    x.restart()
    found = x.go()

    assert isinstance(found.error, ShopClosed)
    assert found.history == ()


def test_a_failed_outcome_reads_the_same_for_ever(rig: MakeRig) -> None:
    """cases 101, 106: byte for byte, across crashes."""

    async def w(step: Step) -> None:
        raise ShopClosed("x")

    x = rig(w)
    first = x.go().record.outcome
    x.restart()

    assert {repr(x.record.outcome) for _ in range(1_000)} == {repr(first)}


# --- results that cannot be stored ------------------------------------------------------------


def test_a_result_that_cannot_be_stored_is_a_failure(rig: MakeRig) -> None:
    """case 102, B81; spec R8: terminal, with the place; no endless loop."""

    async def w(step: Step) -> Any:
        return {"a": [1, {"lock": object()}]}

    found = rig(w).go()

    assert view(found).name == "UnserializableValue"
    assert "result.a[1].lock" in view(found).message
    assert found.record.deliveries == 1


def test_a_result_that_is_not_what_was_annotated_is_a_failure(rig: MakeRig) -> None:
    """case 102; spec O2: it would come back as something else."""

    async def w(step: Step) -> Any:
        return "text"

    found = rig(w)
    found.bench.definitions = {
        k: type(d)(**{f: getattr(d, f) for f in d.__slots__} | {"result_type": int})
        for k, d in found.bench.definitions.items()
    }

    assert isinstance(found.go().error, UnserializableValue)


# --- once -------------------------------------------------------------------------------------


def test_a_terminal_outcome_is_kept_whatever_is_acknowledged_later(rig: MakeRig) -> None:
    """cases 97, 98; spec E10: the first one, byte for byte."""

    async def w(step: Step) -> str:
        return "first"

    x = rig(w)
    x.bench.admit("w", execution_id="y", at=START + 10**9)
    (claim,) = x.bench.storage.executions.claim_due(START, limit=1)
    x.bench.storage.executions.acknowledge(claim, Completed('"first"'))
    outcomes = [Completed('"second"'), Failed('{"no": 1}'), Suspended(5)]

    assert {
        repr(x.bench.storage.executions.acknowledge(claim, outcome)) for outcome in outcomes
    } == {repr(Completed('"first"'))}
    assert x.record.outcome == Completed('"first"')
    assert x.record.due_at is None


def test_a_terminal_execution_runs_no_code_again(rig: MakeRig) -> None:
    """case 99; spec E10: wakes are ignored."""
    runs = []

    async def w(step: Step) -> None:
        runs.append(await step.run(give, 1))

    x = rig(w)
    x.go()
    assert x.bench.storage.executions.request_wake("x", START) == "ignored"
    assert x.bench.storage.executions.wake("x") == "ignored"
    x.restart()
    x.go()

    assert runs == [1]
    assert x.record.deliveries == 1


def test_a_delivery_that_ends_elsewhere_meanwhile_records_nothing(rig: MakeRig) -> None:
    """case 99; spec E10: the worker checks at every commit and gives the recorded outcome."""

    async def w(step: Step) -> str:
        await step.run(give, 1)
        await step.run(give, 2)
        return "here"

    x = rig(w, duration=lambda call: 10_000)
    x.to(5_000)
    with x.bench.storage.atomic():
        x.bench.storage.db.rows(
            "UPDATE executions SET status = 'completed', outcome = :o, claimed_by = NULL,"
            " covered_due_at = NULL, due_at = NULL",
            {"o": '"elsewhere"'},
        )
    found = x.go()

    assert found.result == "elsewhere"
    assert found.history == ()
    assert called(found) == ["give"]


def test_a_delivery_whose_token_died_stops_and_records_nothing(rig: MakeRig) -> None:
    """spec L2: one line in the output; the other delivery's history is what stands."""

    async def w(step: Step) -> list[int]:
        return [await step.run(give, n) for n in range(3)]

    x = rig(w, duration=lambda call: 1_000 if call.step_key == "give" else 5_000)
    x.until(lambda: "give#2" in called(x.result))
    x.bench.storage.workers.bury(x.bench.storage.workers.all()[0].number, "died", {}, max_deaths=5)
    x.bench.start_worker()
    found = x.go()

    assert found.result == [0, 1, 2]
    assert keys(found) == ["give", "give#2", "give#3"]
    assert [e.kind for e in found.events].count("stale") == 1


# --- infrastructure errors --------------------------------------------------------------------


class Refusing:
    """A writer whose `record` requests fail while `refuse` says so."""

    def __init__(self, writer: Any) -> None:
        self.writer = writer
        self.refuse = 0
        self.error: Exception = OSError("disk on fire")

    def submit(self, request: Any, reply: Any) -> None:
        if self.refuse and "_commit" in request.__qualname__:
            self.refuse -= 1
            error = self.error
            self.writer.submit(lambda storage: None, lambda _, __: reply(None, error))
            return
        self.writer.submit(request, reply)

    def close(self) -> None:
        self.writer.close()


def test_an_infrastructure_error_is_no_outcome(rig: MakeRig) -> None:
    """case 100; spec E12: status and wakes stay; at once the first time, then 1 s, 2 s, 4 s."""

    async def w(step: Step) -> str:
        await step.run(give, 1)
        return "done"

    x = rig(w)
    worker = x.bench.start_worker()
    refusing = Refusing(worker.writer)
    worker.writer = refusing  # type: ignore[assignment]
    refusing.refuse = 4
    found = x.go()
    refused = [e.at - START for e in found.events if e.kind == "refused"]

    assert refused == [0, 0, 1_000, 3_000]
    assert found.result == "done"
    assert found.record.problem is None


def test_after_an_infrastructure_error_the_record_says_so(rig: MakeRig) -> None:
    """case 100; spec E12: the problem, and the hold with its end."""

    async def w(step: Step) -> str:
        await step.run(give, 1)
        return "done"

    x = rig(w)
    worker = x.bench.start_worker()
    refusing = Refusing(worker.writer)
    worker.writer = refusing  # type: ignore[assignment]
    refusing.refuse = 3
    x.until(lambda: refusing.refuse == 0 and x.record.held is not None)
    record = x.record

    assert (record.status, record.outcome) == ("admitted", None)
    assert record.problem is not None
    assert "disk on fire" in record.problem.message
    assert record.problem.count == 3
    assert record.held is not None
    assert record.held.until_at == START + 3_000
    assert x.go().result == "done"


class Lying(Refusing):
    """A writer that commits and then says that it could not."""

    def submit(self, request: Any, reply: Any) -> None:
        if self.refuse and "_commit" in request.__qualname__:
            self.refuse -= 1
            error = self.error
            self.writer.submit(request, lambda _, __: reply(None, error))
            return
        self.writer.submit(request, reply)


@pytest.mark.parametrize("lies", [1, 2, 3, 4])
def test_a_commit_that_stands_though_an_error_was_told_is_found_in_the_history(
    rig: MakeRig, lies: int
) -> None:
    """spec R2, E12: the coroutine is dropped, the history is read again; no step runs twice."""

    async def w(step: Step) -> list[int]:
        step.log.info("begins")
        first = await step.run(give, 1)
        step.log.info("between")
        return [first, await step.run(give, 2)]

    x = rig(w)
    worker = x.bench.start_worker()
    lying = Lying(worker.writer)
    worker.writer = lying  # type: ignore[assignment]
    lying.refuse = lies
    found = x.go()

    assert found.result == [1, 2]
    assert called(found) == ["give", "give#2"]
    assert x.logs == ["begins", "between"]
    assert found.record.delivery is None


def test_the_pauses_begin_again_once_something_new_was_recorded(rig: MakeRig) -> None:
    """spec E12: at once, 1 s, 2 s; then a step is recorded; then at once again."""

    async def w(step: Step) -> list[int]:
        return [await step.run(give, 1), await step.run(give, 2)]

    x = rig(w)
    worker = x.bench.start_worker()
    refusing = Refusing(worker.writer)
    worker.writer = refusing  # type: ignore[assignment]
    refusing.refuse = 3
    x.recorded("give")
    refusing.refuse = 2
    found = x.go()
    refused = [e.at - START for e in found.events if e.kind == "refused"]

    assert found.result == [1, 2]
    assert refused == [0, 0, 1_000, 3_000, 3_000]
