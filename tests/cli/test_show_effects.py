"""`ys show`, `explain`, `list` and `doctor` of effects: in doubt, in other hands, disputed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.cli.conftest import MINUTE, NOON, Shop
from tests.cli.family import rest
from yieldstar_cli.errors import Fatal
from yieldstar_cli.failures import encode_error
from yieldstar_cli.model import (
    Action,
    Attempt,
    Completed,
    Delivery,
    Entry,
    Failed,
    HoldEffect,
    LetGoEffect,
    Outcome,
    Round,
    SettleEffect,
    Suspended,
    Wait,
)

ID = "order-41"
INPUT = '{"cents":500,"api_key":"k-1"}'
EVIL = "\x1b[2J\x9b31m\x07\u202e[red]x[/red]\u200b\u2028"


def hold(operation: str = "charge", given: str = INPUT, effect_id: str = ID) -> HoldEffect:
    """Ask for the right to try it."""
    return HoldEffect("charge", NOON, effect_id, operation, given)


def settle(result: str, effect_id: str = ID) -> SettleEffect:
    """It was done, with this result."""
    return SettleEffect("charge", NOON, effect_id, result, started_at=NOON, attempt=2)


def wait(state: str, *, due_at: int | None = None, attempt: int = 1) -> Wait:
    """What the file knows of an effect that is open."""
    effect = ID if state == "waiting" else None
    return Wait("effect", "charge", ID, NOON, due_at, state, attempt, effect=effect)


def holding(shop: Shop, execution_id: str = "order-42", *actions: Action) -> None:
    """An execution whose delivery, still open, has the right to try the effect."""
    shop.admit(execution_id)
    shop.deliver(execution_id, actions=actions or (hold(),), took=0)


def told(
    shop: Shop,
    execution_id: str,
    *,
    waits: Sequence[Wait] = (),
    actions: Sequence[Action] = (),
    outcome: Outcome | None = None,
) -> None:
    """A further round of the open delivery, which is the first of its execution."""
    record = shop.storage.executions.get(execution_id)
    assert record is not None
    shop.storage.deliveries.record(
        Delivery(execution_id, 1, record.number),
        Round(waits=tuple(waits), actions=tuple(actions), outcome=outcome),
    )


def doing(
    shop: Shop, execution_id: str, actions: Sequence[Action], outcome: Outcome | None = None
) -> None:
    """One delivery that does this and completes."""
    shop.admit(execution_id)
    shop.deliver(execution_id, actions=actions, outcome=outcome or Completed(), took=0)


def in_doubt(shop: Shop, *errors: str) -> None:
    """order-42 waits half a minute before it looks; its tries ended in these errors, or said."""
    rest(
        shop,
        "order-42",
        [wait("retrying", due_at=NOON + 30_000, attempt=len(errors) + 1)],
        attempts=tuple(
            Attempt(
                "charge", "effect", number, NOON, NOON, "error" if error else "empty",
                encode_error(ConnectionError(error)) if error else None, NOON + 30_000,
            )
            for number, error in enumerate(errors, 1)
        ),
    )  # fmt: skip


def begun(shop: Shop) -> None:
    """The effect is in the file, of who has ended without knowing what became of it."""
    doing(shop, "first", (hold(),))


def shown(shop: Shop, execution_id: str = "order-42", *words: str) -> str:
    said = shop.screen("show", execution_id, *words)
    assert said.code == 0, said.err
    return " ".join(said.out.split())


def explained(shop: Shop, execution_id: str = "order-42") -> str:
    said = shop.screen("explain", execution_id)
    assert said.code == 0, said.err
    return " ".join(said.out.split())


# --- in other hands, in doubt ---------------------------------------------------------------------


def test_who_tries_an_effect_stands_below_its_line(shop: Shop) -> None:
    """case 354; spec F1: one at a time; the other one says whom it waits for."""
    holding(shop, "order-40")
    rest(shop, "order-42", [wait("waiting")])

    text, document = shown(shop), shop.ys("show", "order-42", "--json").json

    assert "charge order-41" in text
    assert "effect order-41 (charge): another execution tries it (order-40)" in text
    (step,) = document["steps"]
    assert (step["kind"], step["effect_id"], step["state"]) == ("effect", ID, "waiting")
    assert step["note"].endswith("another execution tries it (order-40)")
    assert document["waiting_for"][0]["effect_id"] == ID
    (effect,) = document["effects"]
    assert (effect["status"], effect["held_by"], effect["begun_by"]) == (
        "pending", "order-40", "order-40",
    )  # fmt: skip
    assert effect["input"] == {"cents": 500, "api_key": "k-1"}


def test_explain_follows_who_tries_it(shop: Shop) -> None:
    """spec F1, E5: what that one does stands behind it, in words and in the document."""
    holding(shop, "order-40")
    rest(shop, "order-42", [wait("waiting")])

    text, document = explained(shop), shop.ys("explain", "order-42", "--json").json

    assert "Waiting for effect order-41 (charge): order-40 tries it; it is running since" in text
    on = document["waits"][0]["on"]
    assert (on["effect_id"], on["held_by"]["execution_id"]) == (ID, "order-40")
    assert on["held_by"]["status"] == "admitted"
    assert document["verdict"] == "fine"


def test_two_that_wait_for_each_other_are_no_endless_tale(shop: Shop) -> None:
    """spec F1, E5: one for an effect, the other for an end; each is followed once."""
    holding(shop, "order-40")
    rest(shop, "order-42", [wait("waiting")])
    target = Wait("child", "child", "order-42", NOON, None, "waiting", target="order-42")
    told(shop, "order-40", waits=[target])

    assert "order-40 tries it" in explained(shop)
    assert "It is running since" in explained(shop, "order-40")


def test_a_pause_says_when_it_is_looked_up_and_why(shop: Shop) -> None:
    """case 354; spec F1: unknown, or an error, and then a look; never given up."""
    begun(shop)
    in_doubt(shop, "no answer", "")
    shop.clock.advance(5_000)

    text = shown(shop)

    assert "effect order-41 (charge): in doubt, looks again in 25 s" in text
    assert "ConnectionError: no answer" in text
    assert "again in 30s" in text
    said = explained(shop)
    assert "Waiting to look effect order-41 (charge) up again (try 3); 12:00:30, in 25 s." in said
    assert "Nobody knows yet whether it was done; the last error: ConnectionError: no answer." in (
        said
    )
    assert shop.ys("show", "order-42", "--json").json["steps"][0]["attempt"] == 3


def test_a_doubt_without_an_error_names_none(shop: Shop) -> None:
    """case 354; spec F1: all look-ups have said unknown."""
    begun(shop)
    in_doubt(shop, "")

    assert "Nobody knows yet whether it was done." in explained(shop)
    assert "last error" not in explained(shop)


def test_the_doubt_of_a_child_says_why_too(shop: Shop) -> None:
    """spec E5, F1: followed to the end."""
    begun(shop)
    in_doubt(shop, "no answer")
    target = Wait("child", "c", "order-42", NOON, None, "waiting", target="order-42")
    rest(shop, "parent", [target])

    text = explained(shop, "parent")

    assert "it looks effect order-41 (charge) up again at 12:00:30 (try 2)" in text
    assert "when order-42 looks effect order-41 (charge) up again" in text


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (settle('"r-1"'), "settled by order-40"),
        (LetGoEffect("charge", NOON, ID), "nobody tries it any more"),
    ],
)
def test_what_has_become_of_it_since_is_said(action: Action, words: str, shop: Shop) -> None:
    """case 358; spec F1: who waits for it is due then, and told so."""
    holding(shop, "order-40")
    rest(shop, "order-42", [wait("waiting")])

    told(shop, "order-40", actions=[action], outcome=Suspended())

    assert f"effect order-41 (charge): {words}" in shown(shop)
    assert "It is due now" in explained(shop)


def test_a_result_that_another_brought_names_it(shop: Shop) -> None:
    """case 353; spec F1: one operation for all executions."""
    doing(shop, "order-40", (hold(), settle('{"receipt":"r-1"}')))
    doing(shop, "order-42", (hold(),))

    assert "effect order-41 (charge): settled by order-40" in shown(shop)
    assert "settled by" not in shown(shop, "order-40")


def test_an_operation_that_gave_up_leaves_the_effect_open_and_says_so(shop: Shop) -> None:
    """spec F1, O1: Fatal ends the operation, not the effect; a mismatch leaves nothing open."""
    begun(shop)
    error = encode_error(Fatal("card declined"))
    entry = Entry(0, "effect", "charge", False, error, NOON, NOON, 1, label=ID)
    shop.admit()
    shop.deliver(entries=[entry], outcome=Failed(error), took=0)
    doing(shop, "order-43", (hold("refund"),))

    left_open = "effect order-41 (charge): it stays open; whoever asks next looks it up"
    assert left_open in shown(shop)
    assert "EffectMismatch" in shown(shop, "order-43")
    assert "stays open" not in shown(shop, "order-43")


def test_an_effect_is_listed_by_its_operation_and_id(shop: Shop) -> None:
    """spec F1."""
    begun(shop)
    in_doubt(shop, "no answer")

    assert "charge order-41" in shop.screen("list").out


# --- disputed -------------------------------------------------------------------------------------


def dispute(shop: Shop, effect_id: str = ID, *, by: str = "") -> None:
    """Three executions that do not agree about one effect."""
    doing(shop, f"{by}late", (hold(effect_id=effect_id),))
    doing(shop, f"{by}order-40", (hold(effect_id=effect_id), settle('"r-1"', effect_id)))
    doing(shop, f"{by}order-42", (settle('"r-2"', effect_id),))
    doing(shop, f"{by}order-43", (hold(given='{"cents":9,"api_key":"k-2"}', effect_id=effect_id),))
    shop.storage.effects.late(effect_id, f"{by}late", '"r-3"')
    shop.storage.effects.late(effect_id, f"{by}order-43", '"r-1"')


def test_both_results_and_both_inputs_are_shown(shop: Shop) -> None:
    """cases 356, 357; spec F1: nothing replaces the first; nothing is hidden either."""
    dispute(shop)

    for name in ("order-40", "order-42", "order-43"):
        text = shown(shop, name)
        assert "effect order-41 (charge) is disputed; settled by order-40 at 12:00:00:" in text
        assert "order-42 brought another result: r-2; what stands is r-1." in text
        assert (
            "order-43 asked for charge of cents=9, api_key=****; this ID is charge of "
            "cents=500, api_key=****." in text
        )
        assert "late brought another result after its delivery was over: r-3;" in text
        assert text.count("brought another result") == 2
    assert "api_key=k-2" in shown(shop, "order-43", "--reveal")


def test_no_secret_of_an_input_is_in_the_refusal(shop: Shop) -> None:
    """security S25; spec F1: neither the one that stands nor the one that was asked for."""
    dispute(shop)

    for words in ((), ("--history",)):
        said = shop.screen("show", "order-43", *words, columns=200)
        assert "is 'charge' of another input" in said.out
        assert "k-1" not in said.out
        assert "k-2" not in said.out


def test_programs_get_every_report(shop: Shop) -> None:
    """cases 356, 357; spec F1."""
    dispute(shop)

    (effect,) = shop.ys("show", "order-42", "--json").json["effects"]
    fields = [line.split("\t") for line in shop.ys("show", "order-42").out.splitlines()]

    assert effect["disputed"] is True
    assert [report["kind"] for report in effect["reports"]] == [
        "conflict", "mismatch", "late", "late",
    ]  # fmt: skip
    assert [report["result"] for report in effect["reports"]] == ["r-2", None, "r-3", "r-1"]
    assert effect["reports"][1]["input"] == {"cents": 9, "api_key": "k-2"}
    assert ["effect", ID, "charge", "settled", ""] in fields
    assert [line[2] for line in fields if line[0] == "report"] == ["conflict", "mismatch", "late"]


def test_an_effect_that_all_agree_about_is_not_disputed(shop: Shop) -> None:
    """case 357; spec F1: the same result twice is one."""
    doing(shop, "order-40", (hold(), settle('"r-1"')))
    doing(shop, "order-42", (settle('"r-1"'),))
    shop.storage.effects.late(ID, "order-42", '"r-1"')

    assert "disputed" not in shown(shop)
    assert shop.ys("show", "order-42", "--json").json["effects"][0]["disputed"] is False
    assert shop.ys("doctor").code == 0


def test_doctor_names_disputed_effects_and_who_to_ask(shop: Shop) -> None:
    """cases 356, 357; spec F1: a warning for each of the latest, the others counted."""
    for number in range(7):
        dispute(shop, f"effect-{number}", by=f"{number}-")

    said = shop.screen("doctor", columns=200)
    found = shop.ys("doctor", "--json").json["findings"]

    assert said.code == 7
    assert "effect effect-6 (charge) is disputed (4 reports): 6-late brought another result" in (
        " ".join(said.out.split())
    )
    assert "→ ys show 6-order-40" in said.out
    assert [finding["code"] for finding in found] == ["DISPUTED_EFFECT"] * 6
    assert {finding["level"] for finding in found} == {"warning"}
    assert found[-1]["text"] == "2 older effects are disputed, 7 in all."
    for finding in found[:-1]:
        name = finding["remedy"].removeprefix("ys show ")
        assert "is disputed" in shown(shop, name)


def test_nothing_of_an_effect_reaches_the_terminal_raw(shop: Shop) -> None:
    """security S16; spec F1: what others have written in its operation, input and result."""
    doing(shop, "order-40", (hold(EVIL, f'"{EVIL[:-1]}"'.replace("\x1b", "e")),))
    doing(shop, "order-42", (hold("other"),))
    doing(shop, "order-43", (settle('"r-1"'), settle('"r\\u001b[2J"')))
    shop.clock.advance(MINUTE)

    for words in (("show", "order-42"), ("show", "order-43"), ("doctor",), ("explain", "order-43")):
        said = shop.screen(*words)
        assert not set("\x1b\x9b\x07\u202e\u200b\u2028") & set(said.out)
        piped = shop.ys(*words)
        assert not set("\x1b\x9b\x07\u202e\u2028") & set(piped.out)
