"""Random calls of the real `ys`, each answered as a model says that is made of a few dicts.

The model is written from RFC 001 and the spec, not from the commands. What a worker does is played
by hand, so that time is a number and every call is answered by one state of the file.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.cli.conftest import MINUTE, Shop
from yieldstar_cli.model import CancelledOutcome, Completed, Failed, Outcome, Suspended

IDS = ("a", "b", "c")
EXIT_TAKEN, EXIT_NOT_FOUND, EXIT_PARAMS, EXIT_STATE = 3, 4, 5, 6
MODULE = '''
from yieldstar_cli import Step, workflow


@workflow
async def charge_order(step: Step, order: int, wait: float = 0) -> str:
    """Charges."""
    return "paid"
'''
names = st.sampled_from(IDS)


@dataclass
class Life:
    """What the model knows of one execution."""

    order: int
    status: str = "admitted"
    result: str | None = None
    #: The earliest wake, in milliseconds; None where there is none.
    due_at: int | None = None
    begun: bool = False
    asked_to_cancel: bool = False
    paused: bool = False
    pruned: bool = False

    @property
    def ended(self) -> bool:
        return self.status in ("completed", "failed", "cancelled")

    def end(self, status: str, result: str | None = None) -> None:
        self.status, self.result, self.due_at, self.paused = status, result, None, False


class Calls(RuleBasedStateMachine):
    """Calls of `ys` from outside, and deliveries of a worker that is played by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        for name in ("YS_DB", "YS_WORKFLOWS", "NO_COLOR", "COLUMNS", "FORCE_COLOR"):
            self.patch.delenv(name, raising=False)
        self.folder = tempfile.TemporaryDirectory()
        root = Path(self.folder.name).resolve()
        self.shop = Shop(root, self.patch)
        self.shop.module("orders.py", MODULE)
        assert self.shop.storage.reader.counts() == {}  # the file is there from the beginning
        self.lives: dict[str, Life] = {}

    def teardown(self) -> None:
        self.shop.close()
        self.patch.undo()
        self.folder.cleanup()

    @property
    def now(self) -> int:
        return self.shop.clock.now_ms()

    def said(self, *words: str) -> tuple[int, Any]:
        """Exit status, and the document: of the answer, or of the refusal."""
        said = self.shop.ys(*words, "--json")
        return said.code, said.json if said.code == 0 else said.error

    # --- calls -----------------------------------------------------------------------------------

    @rule(name=names, order=st.integers(0, 3))
    def trigger(self, name: str, order: int) -> None:
        code, told = self.said("trigger", "charge-order", "--id", name, "-p", f"order={order}")

        if name in self.lives:
            assert (code, told["code"]) == (EXIT_TAKEN, "EXECUTION_ID_CONFLICT")
        else:
            assert code == 0
            self.lives[name] = Life(order, due_at=self.now)

    @rule(name=names)
    def trigger_with_what_does_not_fit(self, name: str) -> None:
        code, told = self.said("trigger", "charge-order", "--id", name, "-p", "order=many")

        assert (code, told["code"]) == (EXIT_PARAMS, "INVALID_PARAMS")

    @rule(name=names)
    def wake(self, name: str) -> None:
        code, told = self.said("wake", name)

        life = self.lives.get(name)
        if life is None:
            assert (code, told["code"]) == (EXIT_NOT_FOUND, "EXECUTION_NOT_FOUND")
        elif life.ended:
            assert told["answer"] == "ignored"
        else:
            assert (code, told["answer"]) == (0, "requested")
            life.due_at = min(life.due_at or self.now, self.now)

    @rule(name=names, now=st.booleans())
    def cancel(self, name: str, now: bool) -> None:
        code, told = self.said("cancel", name, "--yes", *(["--now"] if now else []))

        life = self.lives.get(name)
        if life is None:
            assert (code, told["code"]) == (EXIT_NOT_FOUND, "EXECUTION_NOT_FOUND")
        elif life.ended:
            assert (code, told["code"]) == (EXIT_STATE, "EXECUTION_TERMINAL")
        elif now or not life.begun:
            assert (code, told["answer"]) == (0, "cancelled")
            life.end("cancelled")
        else:
            assert (code, told["answer"]) == (0, "requested")
            life.asked_to_cancel = True
            life.due_at = min(life.due_at or self.now, self.now)

    @rule(name=names)
    def pause(self, name: str) -> None:
        code, told = self.said("pause", name)

        life = self.lives.get(name)
        if life is None:
            assert (code, told["code"]) == (EXIT_NOT_FOUND, "EXECUTION_NOT_FOUND")
        elif life.ended:
            assert (code, told["code"]) == (EXIT_STATE, "EXECUTION_TERMINAL")
        else:
            assert code == 0
            assert told["answer"] == ("unchanged" if life.paused else "paused")
            life.paused = True

    @rule(name=names)
    def resume(self, name: str) -> None:
        code, told = self.said("resume", name)

        life = self.lives.get(name)
        if life is None:
            assert (code, told["code"]) == (EXIT_NOT_FOUND, "EXECUTION_NOT_FOUND")
        elif life.ended:
            assert (code, told["code"]) == (EXIT_STATE, "EXECUTION_TERMINAL")
        else:
            assert code == 0
            assert told["answer"] == ("resumed" if life.paused else "unchanged")
            life.paused = False

    @rule()
    def prune(self) -> None:
        self.shop.clock.advance(1)
        code, told = self.said("prune", "--older", "0s", "--yes")

        assert code == 0
        gone = [life for life in self.lives.values() if life.ended and not life.pruned]
        assert told["executions"] == len(gone)
        for life in gone:
            life.pruned = True

    @rule(name=names)
    def delete(self, name: str) -> None:
        code, told = self.said("delete", name, "--yes")

        life = self.lives.get(name)
        if life is None:
            assert (code, told["code"]) == (EXIT_NOT_FOUND, "EXECUTION_NOT_FOUND")
        elif not life.ended:
            assert (code, told["code"]) == (EXIT_STATE, "EXECUTION_NEEDED")
        else:
            assert (code, told["answer"]) == (0, "unchanged" if life.pruned else "deleted")
            life.pruned = True

    # --- a worker ------------------------------------------------------------

    @rule(
        name=names,
        how=st.sampled_from(["paid", "broken", "asleep", "asleep for ever"]),
    )
    def deliver(self, name: str, how: str) -> None:
        """What a worker would do with an execution that is due."""
        life = self.lives.get(name)
        if life is None or life.ended or life.paused:
            return
        if life.due_at is None or life.due_at > self.now:
            return
        outcome: Outcome
        match how:
            case "paid":
                outcome = Completed(json.dumps(name))
            case "broken":
                outcome = Failed('{"name":"Broken","message":"no","mro":[],"args":"[]"}')
            case "asleep":
                outcome = Suspended(self.now + MINUTE)
            case _:
                outcome = Suspended(None)
        if life.asked_to_cancel:
            outcome = CancelledOutcome(None)
        self.shop.deliver(name, outcome=outcome)
        life.begun = True
        match outcome:
            case Completed(result):
                life.end("completed", result)
            case Failed():
                life.end("failed")
            case CancelledOutcome():
                life.end("cancelled")
            case Suspended(due_at):
                life.status, life.due_at = "suspended", due_at

    @rule(span=st.integers(1, 3))
    def wait_a_while(self, span: int) -> None:
        self.shop.clock.advance(span * MINUTE // 2)

    # --- what always holds ------------------------------------------------------------

    @invariant()
    def every_record_is_shown_as_the_model_has_it(self) -> None:
        for name in IDS:
            code, told = self.said("show", name)
            life = self.lives.get(name)
            if life is None:
                assert (code, told["code"]) == (EXIT_NOT_FOUND, "EXECUTION_NOT_FOUND")
                continue
            assert told["status"] == life.status
            assert bool(told.get("pruned_at")) == life.pruned
            if life.pruned:
                continue
            assert told["params"]["order"] == life.order
            if life.status == "completed":
                assert told["outcome"]["result"] == json.loads(life.result or "")

    @invariant()
    def the_list_has_them_all(self) -> None:
        code, told = self.said("list", "--all")

        assert code == 0
        there = {row["execution_id"]: row["status"] for row in told}
        kept = {name: life.status for name, life in self.lives.items() if not life.pruned}
        assert there == kept


Calls.TestCase.settings = settings(
    max_examples=15,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


class TestCalls(Calls.TestCase):  # type: ignore[misc, valid-type]
    """spec E1, E3, E6, E9-E11, E14, C6, V3; cases 1-4, 35, 94, 270, 327, 328, 331, 336."""
