"""`make torture` is what it says: the same tests, with many more examples."""

from __future__ import annotations

import io
import unittest

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from tests import effort


def test_a_property_is_tried_many_times_as_often() -> None:
    """What is counted is how often it is really called."""
    tried = []

    @settings(max_examples=3, database=None, deadline=None)
    @given(st.integers())
    def prop(number: int) -> None:
        tried.append(number)

    effort.try_harder([prop])
    prop()

    assert len(tried) == 3 * effort.HARDER


def test_a_state_machine_runs_many_times_as_often() -> None:
    """Its settings stand on its class; two tests of one class make it no harder still."""
    runs = []

    class Machine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            runs.append(self)

        @rule()
        def step(self) -> None:
            pass

    case: type[unittest.TestCase] = Machine.TestCase
    case.settings = settings(  # type: ignore[attr-defined]
        max_examples=2, stateful_step_count=2, database=None, deadline=None
    )

    effort.try_harder([case, case])
    unittest.TextTestRunner(stream=io.StringIO()).run(case("runTest"))

    assert case.settings.max_examples == 2 * effort.HARDER  # type: ignore[attr-defined]
    assert len(runs) > 2 * 2


def test_rounds_are_few_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """YS_TORTURE asks."""
    monkeypatch.delenv("YS_TORTURE", raising=False)
    few = effort.rounds(7)
    monkeypatch.setenv("YS_TORTURE", "1")

    assert (few, effort.rounds(7)) == (7, 7 * effort.HARDER)
