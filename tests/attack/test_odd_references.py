"""IDs that no execution can have, used from within a workflow."""

from __future__ import annotations

from tests.process.shop import Shop

MODULE = """
    from yieldstar_cli import Step, workflow

    @workflow
    async def half(step: Step) -> list[str]:
        told = []
        for take in (step.attach, step.handle, lambda ref: step.child("half", id=ref)):
            try:
                await take("\\ud800")
            except Exception as error:
                told.append(f"{type(error).__name__}: {error}")
        return told

    @workflow
    async def long(step: Step) -> None:
        await step.child("half", id="x" * 300)

    @workflow
    async def nameless(step: Step) -> None:
        await step.child("no name", id="kid")
"""


def test_half_a_character_is_refused_and_holds_nothing_up(shop: Shop) -> None:
    """spec E2, V1: it never got as far as the file, where it would be no text."""
    shop.module("odd", MODULE)
    shop.ys("trigger", "half", "--id", "a", check=True)

    worked = shop.ys("worker", "--until-idle", check=True)

    assert shop.show("a")["outcome"]["result"] == [
        "ValueError: step.attach: half of a character is no valid text: '\\ud800'",
        "ValueError: step.handle: half of a character is no valid text: '\\ud800'",
        "InvalidExecutionEvent: execution_id: is not valid text: it holds a lone surrogate",
    ]
    assert "refused" not in worked.stderr


def test_a_refused_child_names_what_was_refused_once(shop: Shop) -> None:
    """spec C3, V3: the place is that of the event, not always the ID."""
    shop.module("odd", MODULE)
    shop.ys("trigger", "long", "--id", "a", check=True)
    shop.ys("trigger", "nameless", "--id", "b", check=True)

    shop.ys("worker", "--until-idle", check=True)

    assert (
        shop.show("a")["outcome"]["error"]["message"]
        == "execution_id: has 300 bytes; the most is 255"
    )
    assert shop.show("b")["outcome"]["error"]["message"].startswith("workflow_id: must be letters")
