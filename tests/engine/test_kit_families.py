"""The test kit with children, messages and cancellations: what authors' tests say, and get."""

from __future__ import annotations

from types import ModuleType

import msgspec
import pytest

from yieldstar_cli import Cancelled, Step, workflow
from yieldstar_cli.errors import YieldstarError
from yieldstar_cli.testing import Bench, run


class Word(msgspec.Struct):
    text: str


def shout(text: str) -> str:
    return text.upper()


@workflow
async def echo(step: Step, text: str) -> str:
    """A child that takes an hour."""
    await step.sleep("1h")
    return await step.run(shout, text)


@workflow
async def choir(step: Step, voices: int = 2) -> list[str]:
    """A parent whose module names its child."""
    return await step.all([step.child(echo, {"text": f"la {n}"}) for n in range(voices)])


@workflow
async def by_name(step: Step, name: str) -> str:
    """A parent that only knows its child's name."""
    found: str = await step.child(name, {"text": "who"})
    return found


@workflow
async def listener(step: Step, words: int) -> list[str]:
    """Takes so many words, then waits for one more for ever."""
    heard = [(await step.message("words", Word)).text for _ in range(words)]
    try:
        return [*heard, (await step.message("more", Word)).text]
    except Cancelled:
        return [*heard, "cancelled"]


@workflow
async def counter(step: Step, n: int) -> int:
    """Begins anew for each number that it gets."""
    if n >= 3:
        return n
    return await step.continue_as({"n": n + await step.message("add", int)})


def test_children_that_the_module_names_run_in_the_same_test():
    """spec C1: with their own sleeps, skipped; fakes apply to them too."""
    done = run(choir, {"voices": 3}, fakes={shout: lambda text: f"({text})"})

    assert done.result == ["(la 0)", "(la 1)", "(la 2)"]
    assert done.record.updated_at - done.record.admitted_at == 3_600_000


def test_a_child_that_the_function_sees_from_around_it_is_found():
    """A test's own workflows are local."""

    @workflow
    async def inner(step: Step) -> str:
        return await step.run(shout, "in")

    @workflow
    async def outer(step: Step) -> str:
        return await step.child(inner)

    assert run(outer).result == "IN"


def test_a_child_in_a_module_that_the_module_imports_is_found(monkeypatch: pytest.MonkeyPatch):
    """`import songs`, then `step.child(songs.echo, …)`."""
    songs = ModuleType("songs")
    songs.echo = echo  # type: ignore[attr-defined]
    space: dict[str, object] = {"Step": Step, "workflow": workflow, "songs": songs}
    source = """
@workflow
async def far(step: Step) -> str:
    return await step.child(songs.echo, {"text": "far"})
"""
    exec(source, space)
    far = space["far"]

    assert run(far).result == "FAR"  # type: ignore[arg-type]


def test_a_child_known_by_name_only_is_given_or_asked_for():
    """The error says what to write."""

    @workflow
    async def stranger(step: Step, text: str) -> str:
        return f"{text}?"

    with pytest.raises(YieldstarError) as refused:
        run(by_name, {"name": "stranger"})
    done = run(by_name, {"name": "stranger"}, workflows=[stranger])

    assert "'test/stranger' is of workflow 'stranger'" in str(refused.value)
    assert str(refused.value).endswith("write: run(..., workflows=[stranger])")
    assert done.result == "who?"


def test_of_two_versions_only_the_one_given_is_used():
    """spec R11: a test of version 1 is not continued by version 2 that stands beside it."""

    @workflow(id="twice")
    async def first(step: Step, n: int = 0) -> str:
        if n:
            return "first"
        return await step.continue_as({"n": 1})

    @workflow(id="twice", version=2)
    async def second(step: Step, n: int = 0) -> str:
        return "second"

    @workflow(id="twice-seen")
    async def sees_both(step: Step) -> list[str]:
        return [first.workflow_id, second.workflow_id]

    assert run(first).result == "first"
    assert run(first, workflows=[second]).result == "second"
    assert run(sees_both).result == ["twice", "twice"]


def test_messages_are_there_before_it_begins_one_or_several_for_a_queue():
    """spec M1: in the order of the list."""
    several = run(
        listener, {"words": 2}, messages={"words": [Word("a"), Word("b")], "more": Word("c")}
    )
    one = run(listener, {"words": 1}, messages={"words": {"text": "a"}})

    assert several.result == ["a", "b", "c"]
    assert one.status == "suspended"


def test_a_bench_sends_and_cancels_while_it_stands_still():
    """spec M1, C6: as `ys send` and `ys cancel` do."""
    with Bench(listener) as bench:
        early = bench.send("ear", "words", Word("early"))
        bench.admit(listener, {"words": 2}, execution_id="ear")
        bench.run()
        sent = bench.send("ear", "words", Word("late"), idempotency_key="once")
        again = bench.send("ear", "words", Word("late"), idempotency_key="once")
        bench.run()
        asked = bench.cancel("ear", "enough")
        bench.run()

        done = bench.result("ear")
        refused = bench.send("ear", "words", Word("too late"))
        ignored = bench.cancel("ear")
    assert (early, sent, again, refused) == ("buffered", "delivered", "delivered", "refused")
    assert (asked, ignored) == ("requested", "ignored")
    assert done.result == ["early", "late", "cancelled"]


def test_a_step_of_a_test_may_send():
    """What it sends is heard while the bench runs."""

    @workflow
    async def asks(step: Step) -> str:
        await step.run(shout, "anybody")
        return await step.message("answer", str)

    def answered(text: str) -> str:
        bench.send("asks", "answer", "here")
        return text

    with Bench(asks, fakes={shout: answered}) as bench:
        bench.admit("asks", execution_id="asks")
        bench.run()

        assert bench.result("asks").result == "here"


@pytest.mark.parametrize("key", ["echo", "echo#2"])
def test_a_crash_after_the_start_of_a_child_starts_it_once(key: str):
    """spec C3: the key of a child names its start first."""
    done = run(choir, crash_after=key)

    assert done.result == ["LA 0", "LA 1"]
    assert [entry.kind for entry in done.history].count("start") == 2


def test_a_crash_after_a_message_reads_it_once():
    """spec M2: consumption is recorded with the history."""

    @workflow
    async def repeat(step: Step) -> str:
        word = await step.message("words", Word)
        return await step.run(shout, word.text)

    done = run(repeat, messages={"words": [Word("a"), Word("b")]}, crash_after="words")

    assert done.result == "A"
    assert done.calls == (("shout", 1),)


def test_a_crash_is_found_in_earlier_incarnations_too():
    """spec C7: the key was recorded before the history began anew."""
    done = run(counter, {"n": 0}, messages={"add": [1, 1, 1]}, crash_after="add")

    assert done.result == 3
    assert done.record.incarnation == 4


def test_a_crash_after_what_is_never_recorded_is_refused():
    """A misspelt key would test nothing."""
    with pytest.raises(YieldstarError) as refused:
        run(choir, crash_after="eco")

    assert (
        str(refused.value) == "crash_after: nothing was recorded as 'eco'; what was: echo, echo#2"
    )


def test_a_bench_asked_for_what_it_has_not_loaded_says_what_to_write():
    """Bench has the workflows that it was given, and no others."""
    with Bench(choir) as bench:
        bench.admit("choir", execution_id="c")
        bench.run()

        assert bench.result("c").status == "suspended"
        with pytest.raises(YieldstarError) as refused:
            bench.result("c/echo")
    assert str(refused.value).endswith("write: Bench(..., echo)")
