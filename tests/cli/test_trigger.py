"""`ys trigger`: admits one execution, exactly as given, or says why not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import MINUTE, NOON, Shop
from yieldstar_cli.model import Completed, Status

Place = Callable[[], Path]


@pytest.fixture
def ready(shop: Shop, charge_order: Place) -> Shop:
    """A shop with a charge-order module."""
    charge_order()
    return shop


def record(shop: Shop, execution_id: str) -> Any:
    found = shop.storage.executions.get(execution_id)
    assert found is not None
    return found


def test_a_pipe_gets_the_id(ready: Shop) -> None:
    """case 1."""
    said = ready.ys("trigger", "charge-order", "--id", "order-42", "-p", "order=42")

    assert (said.code, said.out, said.err) == (0, "order-42\n", "")
    assert record(ready, "order-42").status is Status.ADMITTED
    assert record(ready, "order-42").params_json == '{"order":42,"note":"none"}'


def test_a_person_gets_a_sentence_and_the_hint_about_workers(ready: Shop) -> None:
    """case 27: returns at once without a worker."""
    said = ready.screen("trigger", "charge-order", "--id", "order-42", "-p", "order=42")

    assert said.out == "✓ Admitted order-42 (charge-order). Due now.\n"
    assert "No worker is running on this database. Start one:  ys worker" in said.err


def test_no_hint_with_quiet_or_with_a_worker(ready: Shop) -> None:
    quiet = ready.screen("-q", "trigger", "charge-order", "--id", "a", "-p", "order=1")
    ready.start_worker()
    alive = ready.screen("trigger", "charge-order", "--id", "b", "-p", "order=1")

    assert (quiet.out, quiet.err, alive.err) == ("a\n", "", "")


def test_json_is_the_record_and_created(ready: Shop) -> None:
    said = ready.ys("trigger", "charge-order", "--id", "order-42", "-p", "order=42", "--json")

    assert said.json["schema"] == "ys.execution/1"
    assert said.json["created"] is True
    assert said.json["params"] == {"order": 42, "note": "none"}
    assert "steps" not in said.json


def test_without_an_id_one_is_made_that_begins_with_the_workflow(ready: Shop) -> None:
    """case 7."""
    first, second = (
        ready.ys("trigger", "charge-order", "-p", "order=1").out,
        ready.ys("trigger", "charge-order", "-p", "order=1").out,
    )

    assert first.startswith("charge-order-")
    assert first != second


# --- conflicts --------------------------------------------------------------------------------


def test_a_conflict_says_age_workflow_status_and_what_is_the_same(ready: Shop) -> None:
    """cases 2-4, B18: the record is unchanged."""
    words = ("trigger", "charge-order", "--id", "order-42", "-p", "order=42")
    ready.ys(*words)
    before = record(ready, "order-42")
    ready.clock.advance(4 * MINUTE)

    said = ready.screen(*words)

    assert said.code == 3
    assert said.err == (
        "✗ order-42 already exists.\n"
        "  It was triggered 4m ago as charge-order with the same params.\n"
        "  It is admitted and due. Nothing was changed.\n"
        "  → See it:            ys show order-42\n"
        "  → Under a free ID:   ys trigger charge-order --id order-42-2 …\n"
        "  → Same call is fine: ys trigger … --if-exists show      (exit 0)\n"
    )
    assert record(ready, "order-42") == before


def test_a_conflict_names_which_params_differ_and_never_their_values(ready: Shop) -> None:
    """case 5; security S25."""
    ready.ys("trigger", "charge-order", "--id", "order-42", "-p", "order=42")

    said = ready.ys(
        "trigger", "charge-order", "--id", "order-42", "-p", "order=43", "-p", "note=hunter2"
    )

    assert "with other params (note, order differ)" in " ".join(said.err.split())
    assert "43" not in said.err.replace("order-43", "")
    assert "hunter2" not in said.err


def test_a_conflict_in_json_holds_the_record_without_params(ready: Shop) -> None:
    ready.ys("trigger", "charge-order", "--id", "order-42", "-p", "order=42")

    said = ready.ys("--json", "trigger", "charge-order", "--id", "order-42", "-p", "order=42")

    assert (said.code, said.out) == (3, "")
    assert said.error["code"] == "EXECUTION_ID_CONFLICT"
    assert said.error["execution"]["status"] == "admitted"
    assert "params" not in said.error["execution"]
    assert said.error["remedy"][0] == "ys show order-42"


def test_the_free_id_it_names_is_free(ready: Shop) -> None:
    for name in ("order-42", "order-42-2"):
        ready.ys("trigger", "charge-order", "--id", name, "-p", "order=42")

    said = ready.ys("trigger", "charge-order", "--id", "order-42", "-p", "order=42")

    assert "--id order-42-3" in said.err


@pytest.mark.parametrize(
    ("policy", "order", "code"),
    [("fail", 42, 3), ("show", 42, 0), ("show", 43, 0), ("same", 42, 0), ("same", 43, 3)],
)
def test_if_exists_decides(ready: Shop, policy: str, order: int, code: int) -> None:
    words = ("trigger", "charge-order", "--id", "order-42", "--if-exists", policy)
    ready.ys("trigger", "charge-order", "--id", "order-42", "-p", "order=42")

    said = ready.ys(*words, "-p", f"order={order}", "--json")

    assert said.code == code
    if code == 0:
        assert said.json["created"] is False
        assert said.json["params"]["order"] == 42


def test_an_ended_execution_conflicts_too(ready: Shop) -> None:
    """case 3."""
    ready.ys("trigger", "charge-order", "--id", "order-42", "-p", "order=42")
    ready.deliver(outcome=Completed("1"))

    said = ready.ys("trigger", "charge-order", "--id", "order-42", "-p", "order=42")

    assert said.code == 3
    assert "It is completed." in said.err


# --- params -----------------------------------------------------------------------------------


def test_params_take_their_declared_type(ready: Shop) -> None:
    """spec V4: 42 is an int where an int is declared, text stays text where str is."""
    ready.ys("trigger", "charge-order", "--id", "a", "-p", "order=42", "-p", "note=42")

    assert json.loads(record(ready, "a").params_json) == {"order": 42, "note": "42"}


def test_params_come_from_files_and_stdin(ready: Shop) -> None:
    """security S25: so that secrets stay out of the list of processes."""
    (ready.root / "order.json").write_text('{"order": 1, "note": "x"}')
    (ready.root / "note.txt").write_text("from a file\n")

    ready.ys("trigger", "charge-order", "--id", "a", "--params", "@order.json")
    ready.ys("trigger", "charge-order", "--id", "b", "--params", "-", stdin='{"order": 2}')
    ready.ys("trigger", "charge-order", "--id", "c", "-p", "order:=3", "-p", "note=@note.txt")
    ready.ys("trigger", "charge-order", "--id", "d", "--params", '{"order": 4}', "-p", "order=5")

    stored = [json.loads(record(ready, name).params_json) for name in "abcd"]
    assert stored == [
        {"order": 1, "note": "x"},
        {"order": 2, "note": "none"},
        {"order": 3, "note": "from a file\n"},
        {"order": 5, "note": "none"},
    ]


@pytest.mark.parametrize(
    ("words", "code", "place"),
    [
        (("-p", "order=4x"), 5, 'params.order: expected int, got "4x"'),
        (("-p", "ordr=4"), 5, "did you mean order?"),
        ((), 5, "params.order"),
        (("-p", "order=1", "-p", "order=2"), 5, "params.order"),
        (("--params", "[1]"), 5, "takes a JSON object"),
        (("--params", '{"order":NaN}'), 5, "NaN is not JSON"),
        (("--params", '{"order":1,"order":2}'), 5, "twice"),
        (("--params", "{"), 5, "not valid JSON"),
        (("--params", "@missing.json"), 2, "No such file"),
        (("--params", "@."), 2, "Is a directory"),
        (("-p", "order"), 2, "-p takes NAME=VALUE"),
        (("-p", "=1"), 2, "-p takes NAME=VALUE"),
    ],
)
def test_params_that_do_not_fit_store_nothing(
    ready: Shop, words: tuple[str, ...], code: int, place: str
) -> None:
    """cases 12, 21; V4."""
    said = ready.ys("trigger", "charge-order", "--id", "order-42", *words)

    assert said.code == code
    assert place in said.err
    assert ready.storage.executions.get("order-42") is None


def test_bytes_that_are_no_text_are_refused(ready: Shop) -> None:
    """case 14, B85."""
    (ready.root / "raw").write_bytes(b"\xff\xfe")

    from_file = ready.ys("trigger", "charge-order", "-p", "order=1", "-p", "note=@raw")
    in_argv = ready.ys("trigger", "charge-order", "-p", "order=1", "-p", "note=\udcff")
    in_id = ready.ys("trigger", "charge-order", "-p", "order=1", "--id", "\udcff")

    assert [from_file.code, in_argv.code, in_id.code] == [5, 5, 5]
    assert "surrogate" in in_id.err
    assert ready.ys("list", "-q").out == ""


def test_context_is_text_or_json_and_never_converted(ready: Shop) -> None:
    ready.ys(
        "trigger", "charge-order", "--id", "a", "-p", "order=1",
        "--context", "shop=12", "--context", "vip:=true",
    )  # fmt: skip

    assert json.loads(record(ready, "a").context_json) == {"shop": "12", "vip": True}


def test_a_value_beyond_the_limit_is_refused_with_it(ready: Shop) -> None:
    """case 20, spec V2."""
    (ready.root / "ys.toml").write_text("max_value = 100\n")

    said = ready.ys(
        "trigger", "charge-order", "--id", "a", "-p", "order=1", "-p", f"note={'x' * 100}"
    )

    assert said.code == 5
    assert "100" in said.err


# --- names and IDs --------------------------------------------------------------------------------


def test_an_unknown_workflow_names_the_nearest_files_and_broken_ones(ready: Shop) -> None:
    """case 22, K4: refused before anything is written."""
    ready.module("broken.py", "import nothing_like_this\n")

    said = ready.ys("trigger", "charge-oder", "--id", "order-42")

    assert said.code == 4
    assert "Did you mean charge-order?" in said.err
    assert "charge_order.py" in said.err
    assert "broken.py does not load" in said.err
    assert ready.storage.executions.get("order-42") is None


@pytest.mark.parametrize(
    "name", ["../evil", "/tmp/evil", "os.system", "a.b", "__main__", "", "a b"]
)
def test_a_name_that_is_none_is_refused(ready: Shop, name: str) -> None:
    """security S2."""
    assert ready.ys("trigger", name, "--id", "a").code == 5


def test_without_workflows_in_reach_it_admits_by_name_and_says_so(shop: Shop) -> None:
    """spec K4."""
    said = shop.ys("trigger", "charge-order", "--id", "a", "-p", "order=42")

    assert said.code == 0
    assert "not checked" in said.err
    assert json.loads(record(shop, "a").params_json) == {"order": "42"}


@pytest.mark.parametrize(
    "execution_id",
    [
        "a/b",
        "-x",
        "--json",
        "@last",
        "🦉",
        "A",
        "a",
        "\u00e9",
        "e\u0301",
        "a b",
        "x" * 255,
        "..",
        "$(x)",
    ],
)
def test_ids_are_taken_exactly_and_found_again(ready: Shop, execution_id: str) -> None:
    """B89, B91; cases 23, 24: byte for byte, no folding, no normalisation."""
    made = ready.ys("trigger", "charge-order", "-p", "order=1", f"--id={execution_id}")
    found = ready.ys("show", f"--id={execution_id}", "--json")

    assert made.code == 0
    assert found.json["execution_id"] == execution_id


@pytest.mark.parametrize(
    "execution_id", ["", " ", " a", "a ", "a\nb", "a\tb", "\x1b", "x" * 256, "é" * 128]
)
def test_ids_that_are_none_are_refused_and_nothing_is_due(ready: Shop, execution_id: str) -> None:
    """B90, B91."""
    said = ready.ys("trigger", "charge-order", "-p", "order=1", f"--id={execution_id}")

    assert said.code == 5
    assert "execution_id" in said.err
    assert "\x1b" not in said.err
    assert ready.ys("list", "-q").out == ""


def test_ids_alike_but_not_equal_are_different(ready: Shop) -> None:
    """cases 23, 24."""
    for name in ("order-42", "Order-42", "\u00e9", "e\u0301"):
        assert ready.ys("trigger", "charge-order", "-p", "order=1", "--id", name).code == 0


# --- later, dry, waiting --------------------------------------------------------------------------


def test_the_first_wake_may_be_later(ready: Shop) -> None:
    after = ready.screen("trigger", "charge-order", "--id", "a", "-p", "order=1", "--in", "10m")
    ready.ys("trigger", "charge-order", "--id", "b", "-p", "order=1", "--at", "13:30")
    both = ready.ys("trigger", "charge-order", "-p", "order=1", "--at", "13:30", "--in", "1m")

    assert after.out == "✓ Admitted a (charge-order). Due 12:10:00, in 10m00s.\n"
    assert record(ready, "a").due_at == NOON + 10 * MINUTE
    assert record(ready, "b").due_at == NOON + 90 * MINUTE
    assert both.code == 2


def test_a_dry_run_checks_and_stores_nothing(ready: Shop) -> None:
    ready.ys("trigger", "charge-order", "--id", "taken", "-p", "order=1")
    fine = ready.screen("trigger", "charge-order", "--id", "a", "-p", "order=1", "-n")
    document = ready.ys("trigger", "charge-order", "-p", "order=1", "-n", "--json").json
    wrong = ready.ys("trigger", "charge-order", "-p", "order=x", "-n")
    taken = ready.ys("trigger", "charge-order", "--id", "taken", "-p", "order=2", "-n")

    assert "Would admit a (charge-order), due now." in fine.out
    assert (document["created"], document["execution_id"]) == (False, None)
    assert (wrong.code, taken.code) == (5, 3)
    assert ready.ys("list", "-q").out == "taken\n"


def test_a_dry_run_makes_no_database(ready: Shop) -> None:
    said = ready.ys("trigger", "charge-order", "-p", "order=1", "-n")

    assert said.code == 0
    assert not ready.db.exists()


def test_waiting_gives_up_without_changing_anything(ready: Shop) -> None:
    """cases 109, 110."""
    words = ("trigger", "charge-order", "--id", "a", "-p", "order=1", "--wait", "--timeout")

    said = ready.ys(*words, "1ms")

    assert said.code == 8
    assert said.out == "a\n"
    assert said.err.count("No worker is running") == 1
    assert record(ready, "a").status is Status.ADMITTED


def test_waiting_on_a_terminal_says_first_what_was_admitted(ready: Shop) -> None:
    """cases 109, 110: when the time is up, it is known that the execution exists."""
    said = ready.screen(
        "trigger", "charge-order", "--id", "a", "-p", "order=1", "--wait", "--timeout", "1ms"
    )

    assert said.code == 8
    assert said.out == "✓ Admitted a (charge-order). Due now.\n"
    assert "it goes on" in said.err


def test_the_name_of_the_function_is_answered_with_that_of_the_workflow(ready: Shop) -> None:
    said = ready.ys("trigger", "charge_order", "-p", "order=1")

    assert said.code == 5
    assert "The function charge_order is the workflow charge-order" in said.err


def test_a_timeout_needs_wait(ready: Shop) -> None:
    assert ready.ys("trigger", "charge-order", "-p", "order=1", "--timeout", "1s").code == 2


# --- storage that refuses -------------------------------------------------------------------------


def test_a_held_write_lock_is_ten_and_nothing_is_stored(
    ready: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """case 33: retriable; the error says locked, not damaged."""
    monkeypatch.setattr("yieldstar_cli.storage.sqlite.connection.BUSY_TIMEOUT_MS", 10)
    ready.ys("trigger", "charge-order", "--id", "first", "-p", "order=1")
    with ready.storage.atomic():
        said = ready.ys("--json", "trigger", "charge-order", "--id", "a", "-p", "order=1")

    assert (said.code, said.error["code"]) == (10, "DATABASE_BUSY")
    assert ready.storage.executions.get("a") is None
    assert ready.ys("trigger", "charge-order", "--id", "a", "-p", "order=1").code == 0
