"""`ys wait` and `ys wake`."""

from __future__ import annotations

import pytest

from tests.cli.conftest import MINUTE, NOON, Shop
from yieldstar_cli.failures import encode_error
from yieldstar_cli.model import Completed, Failed, Status


@pytest.fixture
def ended(shop: Shop) -> Shop:
    """order-40 completed, order-41 failed, order-42 sleeps."""
    shop.admit("order-40")
    shop.deliver("order-40", outcome=Completed('{"charged":1999}'))
    shop.admit("order-41")
    shop.deliver("order-41", outcome=Failed(encode_error(ValueError("no funds"))))
    shop.sleeping("order-42")
    return shop


# --- wait -----------------------------------------------------------------------------------------


def test_an_outcome_is_told_for_people_pipes_and_programs(ended: Shop) -> None:
    """case 109: settles from the record."""
    screen = ended.screen("wait", "order-40")
    pipe = ended.ys("wait", "order-40")
    document = ended.ys("wait", "order-40", "--json")

    assert screen.out == "order-40    ✓ completed in 31 ms\n"
    assert pipe.out == 'order-40\tcompleted\t{"charged":1999}\n'
    assert document.json == {
        "schema": "ys.outcome/1",
        "execution_id": "order-40",
        "status": "completed",
        "result": {"charged": 1999},
        "took_ms": 31,
    }
    assert (screen.code, pipe.code, document.code) == (0, 0, 0)


def test_a_failed_one_is_seven_and_several_are_an_array(ended: Shop) -> None:
    said = ended.ys("wait", "order-40", "order-41", "--json")

    assert said.code == 7
    assert [found["status"] for found in said.json] == ["completed", "failed"]
    assert said.json[1]["error"]["message"] == "no funds"


def test_any_ends_with_the_first(ended: Shop) -> None:
    said = ended.ys("wait", "order-42", "order-40", "--any")

    assert (said.code, said.out) == (0, 'order-40\tcompleted\t{"charged":1999}\n')


def test_a_passed_timeout_is_eight_and_changes_nothing(ended: Shop) -> None:
    """case 110."""
    before = ended.storage.executions.get("order-42")

    said = ended.ys("wait", "order-40", "order-42", "--timeout", "1ms")

    assert said.code == 8
    assert "order-40\tcompleted" in said.out
    assert "'order-42' has not ended in time" in said.err
    assert ended.storage.executions.get("order-42") == before


def test_an_unknown_id_is_four_before_anything_is_awaited(ended: Shop) -> None:
    """cases 110, 328."""
    said = ended.ys("wait", "order-42", "nope")

    assert (said.code, said.out) == (4, "")


def test_result_prints_results_and_errors_apart(ended: Shop) -> None:
    said = ended.ys("wait", "order-40", "order-41", "--result")

    assert (said.code, said.out) == (7, '{"charged":1999}\n')
    assert "ValueError: no funds" in said.err


def test_for_waits_for_a_status(ended: Shop) -> None:
    reached = ended.ys("wait", "order-42", "--for", "suspended")
    never = ended.ys("wait", "order-40", "--for", "suspended")

    assert (reached.code, reached.out) == (0, "order-42\tsuspended\t\n")
    assert never.code == 7


def test_ids_come_from_stdin(ended: Shop) -> None:
    said = ended.ys("wait", "-", stdin="order-40\norder-41\n")
    nothing = ended.ys("wait", "-", "--json", stdin="")

    assert [line.split("\t")[0] for line in said.out.splitlines()] == ["order-40", "order-41"]
    assert (nothing.code, nothing.out) == (0, "[]\n")


def test_ids_from_stdin_are_literal(ended: Shop) -> None:
    assert ended.ys("wait", "-", stdin="@last\n").code == 4


def test_it_ends_when_the_execution_does(ended: Shop) -> None:
    """case 109: the change is seen, without a worker of its own."""
    rests: list[float] = []
    from yieldstar_cli.cli.call import Call
    from yieldstar_cli.cli.following import follow

    def rest(span: float) -> None:
        rests.append(span)
        if len(rests) == 3:
            ended.clock.set(NOON + 20 * MINUTE)
            ended.worker_number = None
            ended.deliver("order-42", outcome=Completed("1"))

    call = Call(clock=ended.clock, pause=rest, monotonic_ms=lambda: sum(rests))
    found = follow(
        call,
        ended.storage,
        lambda: (ended.storage.executions.get("order-42") or ended).outcome,  # type: ignore[union-attr]
    )

    assert found == Completed("1")
    assert rests == sorted(rests)


def test_waiting_rests_longer_and_longer_up_to_a_second(ended: Shop) -> None:
    """Nearly free: 20 ms at first, then a second."""
    from yieldstar_cli.cli.call import Call
    from yieldstar_cli.cli.following import follow

    rests: list[float] = []
    call = Call(clock=ended.clock, pause=rests.append, monotonic_ms=lambda: sum(rests))

    found = follow(call, ended.storage, lambda: None, timeout_ms=60_000)

    assert found is None
    assert rests[0] == 20
    assert max(rests) == 1_000
    assert sum(rests) == pytest.approx(60_000)


# --- wake -----------------------------------------------------------------------------------------


def test_a_wake_is_requested_and_due_now(ended: Shop) -> None:
    screen, pipe = ended.screen("wake", "order-42"), ended.ys("wake", "order-42")
    document = ended.ys("wake", "order-42", "--json").json

    assert screen.out == "✓ Wake of order-42 requested. Due now.\n"
    assert pipe.out == "order-42\trequested\n"
    assert document == {
        "schema": "ys.answer/1",
        "execution_id": "order-42",
        "answer": "requested",
    }
    record = ended.storage.executions.get("order-42")
    assert record is not None
    assert record.due_at == ended.clock.now_ms()


def test_a_wake_may_be_for_later(ended: Shop) -> None:
    ended.ys("wake", "order-42", "--at", "+5m")

    record = ended.storage.executions.get("order-42")
    assert record is not None
    assert record.due_at == ended.clock.now_ms() + 5 * MINUTE


def test_a_wake_of_an_ended_one_is_ignored(ended: Shop) -> None:
    said = ended.screen("wake", "order-40")

    assert (said.code, said.out) == (0, "· Wake of order-40 ignored: it is completed.\n")


def test_several_wakes_answer_an_array_and_one_unknown_id_wakes_none(ended: Shop) -> None:
    both = ended.ys("wake", "order-42", "order-41", "--json").json
    ended.sleeping("order-43")
    unknown = ended.ys("wake", "order-43", "nope")

    assert [answer["answer"] for answer in both] == ["requested", "ignored"]
    assert unknown.code == 4
    record = ended.storage.executions.get("order-43")
    assert record is not None
    assert record.due_at is not None
    assert record.due_at > ended.clock.now_ms()


def test_a_wake_ends_a_hold(shop: Shop) -> None:
    """spec E12."""
    shop.admit()
    claimed = shop.claim()
    shop.storage.executions.release(claimed.delivery, problem=("DIVERGED", "x"), held=True)

    assert shop.ys("wake", "order-42").code == 0

    record = shop.storage.executions.get("order-42")
    assert record is not None
    assert record.held is None
    assert record.status is Status.ADMITTED
