"""How many statements SQLite is given, and that twice the work is twice as many; no time is read.

Each bound is what is counted today, or a little above it: it may only be lowered.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.figures.flows import cost_of, fan_out, many_steps, one_step, rounds


def test_a_one_step_execution_costs_few_statements() -> None:
    """spec K3: from its claim to its outcome, beside a hundred others; today 10.1 each."""
    each = cost_of(one_step, executions=100).statements / 100

    assert each <= 11


def test_a_lone_one_step_execution_costs_few_statements() -> None:
    """spec K3: with a claim of its own, and the looks for more; today 21, and 23 where rounds of
    many executions are written together.
    """
    assert cost_of(one_step).statements <= 24


def test_a_step_costs_few_statements() -> None:
    """spec R4: begin, the entry, the record, commit; today 4.0 each, 5.0 where rounds of many
    executions are written together, which a lone one pays for.
    """
    few, many = (cost_of(many_steps, {"count": count}).statements for count in (50, 150))

    assert (many - few) / 100 <= 5


def test_a_round_of_a_step_and_a_sleep_costs_few_statements() -> None:
    """spec R4: a claim, the timer's entry, the step's with the next wait; today 27 each."""
    few, many = (cost_of(rounds, {"count": count}).statements for count in (50, 150))

    assert (many - few) / 100 <= 28


def test_a_child_costs_few_statements() -> None:
    """spec C3, K3: start, claim, step, end and the parent's entry; today 19.9 each of 1,000."""
    each = cost_of(fan_out, {"count": 1_000}, more=[one_step]).statements / 1_000

    assert each <= 21


@pytest.mark.parametrize("flow", [many_steps, rounds], ids=lambda flow: flow.definition.workflow_id)
def test_statements_are_linear_in_the_history(flow: Any) -> None:
    """spec K3: 100, 400 and 1,600 rounds: each costs what the first ones did."""
    counts = (100, 400, 1_600)
    costs = [cost_of(flow, {"count": count}).statements / count for count in counts]

    assert max(costs) <= 1.05 * costs[0]


def test_statements_are_linear_in_the_children() -> None:
    """spec K3, C2: 300 and 1,200 children. Below that a claim's batch holds all of them."""
    few, many = (
        cost_of(fan_out, {"count": count}, more=[one_step]).statements / count
        for count in (300, 1_200)
    )

    assert many <= 1.3 * few
