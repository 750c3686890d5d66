"""How operations get their keys (spec R3)."""

from __future__ import annotations

from functools import partial

import pytest

from tests.engine.helpers import MakeRig, called, keys
from yieldstar_cli.engine import naming
from yieldstar_cli.engine.retry import RetryPolicy
from yieldstar_cli.engine.step import Step


def load_order(n: int = 0) -> int:
    return n


def pack(n: int = 0) -> int:
    return n


async def _send(n: int = 0) -> int:
    return n


class Shop:
    def close_up(self) -> str:
        return "closed"

    def __call__(self) -> str:
        return "called"


def test_a_key_is_the_name_of_the_function_with_hyphens(rig: MakeRig) -> None:
    """spec R3: the function's name with `-` for `_`; `sleep`, `timer` for the rest."""

    async def w(step: Step) -> None:
        await step.run(load_order)
        await step.run(_send)
        await step.run(Shop().close_up)
        await step.sleep("1s")
        await step.sleep_until(step.now())
        await step.timer("1s")
        await step.poll(pack, 1)

    found = rig(w).go()

    assert keys(found) == [
        "load-order",
        "send",
        "close-up",
        "sleep",
        "sleep-until",
        "timer",
        "pack",
    ]


def test_a_loop_needs_no_hand_made_keys(rig: MakeRig) -> None:
    """case 125, B60; spec R3: `key#2` from the second use on, each with its own result."""

    async def w(step: Step) -> list[int]:
        return [await step.run(load_order, n) for n in range(4)]

    found = rig(w).go()

    assert keys(found) == ["load-order", "load-order#2", "load-order#3", "load-order#4"]
    assert found.result == [0, 1, 2, 3]


def test_the_counted_keys_of_a_loop_replay_to_their_own_results(rig: MakeRig) -> None:
    """case 125, B60; spec R2, R3: after a crash no step gets another one's result."""

    async def w(step: Step) -> list[int]:
        first = [await step.run(load_order, n) for n in range(3)]
        await step.sleep("1m")
        return first + [await step.run(load_order, n) for n in range(3, 5)]

    x = rig(w)
    x.to(1_000)
    x.restart()
    found = x.go()

    assert found.result == [0, 1, 2, 3, 4]
    assert len(called(found)) == 5


def test_another_step_between_shifts_nothing(rig: MakeRig) -> None:
    """spec R3: names are counted apart."""

    async def w(step: Step) -> None:
        await step.run(load_order)
        await step.run(pack)
        await step.run(load_order)
        await step.run(pack)

    assert keys(rig(w).go()) == ["load-order", "pack", "load-order#2", "pack#2"]


def test_a_given_key_used_twice_is_counted(rig: MakeRig) -> None:
    """case 124; spec R3: from its second use a key is `key#2`, given or not."""

    async def w(step: Step) -> list[int]:
        eu = step.using(key="charge-eu")
        return [await eu.run(load_order, 1), await eu.run(pack, 2)]

    found = rig(w).go()

    assert keys(found) == ["charge-eu", "charge-eu#2"]
    assert found.result == [1, 2]


def test_a_key_may_be_given_to_every_kind_of_operation(rig: MakeRig) -> None:
    """spec, operations table: `using(key=)` may stand before any operation."""

    async def branch(step: Step) -> None:
        await step.run(load_order)

    async def w(step: Step) -> None:
        k = step.using
        await k(key="a").run(load_order)
        await k(key="b").sleep(0)
        await k(key="c").sleep_until(step.now())
        await k(key="d").timer(0)
        await k(key="e").timer_until(step.now())
        await k(key="f").poll(pack, 1)
        await k(key="g").spawn(branch(step))
        await k(key="h").spawn(step.run(pack))
        await step.timeout(k(key="i").run(pack), "1s")

    assert keys(rig(w).go()) == ["a", "b", "c", "d", "e", "f", "g:load-order", "h", "i"]


def test_options_may_be_given_one_after_the_other(rig: MakeRig) -> None:
    """spec, operations table: a second `using` adds to the first, it takes nothing away."""

    async def w(step: Step) -> int:
        twice = step.using(retry=RetryPolicy(attempts=2)).using(timeout="1s")
        return await twice.using(key="slow").run(load_order, 1)

    found = rig(w, duration=lambda call: 5_000).go()

    assert found.calls == (("slow", 1), ("slow", 2))
    assert "longer than 1 s" in str(found.error)


def test_kinds_of_one_name_do_not_collide(rig: MakeRig) -> None:
    """spec R3: keys of different kinds never collide."""

    def sleep() -> str:
        return "a step"

    async def w(step: Step) -> list[str]:
        key = step.using(key="same")
        await key.sleep(1)
        await key.spawn(step.run(sleep))
        a = await key.run(sleep)
        b = await key.poll(sleep)
        await step.sleep(1)
        return [a, b, await step.run(sleep)]

    x = rig(w)
    found = x.go()

    assert [(e.kind, e.step_key) for e in found.history] == [
        ("timer", "same"),
        ("step", "same"),
        ("step", "same#2"),
        ("poll", "same"),
        ("timer", "sleep"),
        ("step", "sleep"),
    ]
    assert found.result == ["a step"] * 3


def test_a_branch_and_a_step_of_one_name_do_not_count_each_other(rig: MakeRig) -> None:
    """spec R3: keys of different kinds never collide, nor shift each other."""

    async def branch(step: Step) -> None:
        await step.run(pack)

    async def w(step: Step) -> None:
        await step.using(key="load-order").spawn(branch(step))
        await step.run(load_order)
        await step.using(key="load-order").spawn(branch(step))
        await step.run(load_order)

    assert keys(rig(w).go()) == [
        "load-order:pack",
        "load-order",
        "load-order#2:pack",
        "load-order#2",
    ]


def test_the_keys_of_a_branch_begin_with_its_own(rig: MakeRig) -> None:
    """spec R3: branches do not shift each other's counts; a branch in a branch adds its own."""

    async def ship(step: Step, n: int) -> None:
        await step.sleep(n)
        await step.run(pack)
        await step.run(pack)

    async def both(step: Step) -> None:
        await step.all([ship(step, 4), ship(step, 3)])

    async def w(step: Step) -> None:
        await step.run(pack)
        await step.all([ship(step, 2), ship(step, 1), both(step)])
        await step.run(pack)

    assert keys(rig(w).go()) == [
        "pack",
        "ship#2:sleep",
        "ship#2:pack",
        "ship#2:pack#2",
        "ship:sleep",
        "ship:pack",
        "ship:pack#2",
        "both:ship#2:sleep",
        "both:ship#2:pack",
        "both:ship#2:pack#2",
        "both:ship:sleep",
        "both:ship:pack",
        "both:ship:pack#2",
        "pack#2",
    ]


def test_an_operations_own_coroutine_is_no_branch(rig: MakeRig) -> None:
    """spec R3: in `spawn`, `all` and `timeout` it keeps the key it would have had, in order."""

    async def w(step: Step) -> list[int]:
        held = step.spawn(step.run(pack, 1))
        some = await step.all([step.run(pack, 2), step.run(load_order, 3), step.run(pack, 4)])
        return [await held, *some, await step.timeout(step.run(pack, 5), "1m")]

    found = rig(w).go()

    assert found.result == [1, 2, 3, 4, 5]
    assert called(found) == ["pack", "pack#2", "load-order", "pack#3", "pack#4"]


def test_other_coroutines_are_branches_named_after_their_function(rig: MakeRig) -> None:
    """spec R3: any other coroutine is a branch whose key is its function's name."""

    async def _look_up(step: Step) -> int:
        return await step.run(pack, 7)

    async def w(step: Step) -> list[int]:
        won = step.spawn(step.all([step.run(pack, 1)]))
        return [
            await step.timeout(_look_up(step), "1m"),
            *await step.all([_look_up(step)]),
            *await won,
        ]

    found = rig(w).go()

    assert found.result == [7, 7, 1]
    assert sorted(keys(found)) == ["all:pack", "look-up#2:pack", "look-up:pack"]


def test_a_key_is_assigned_at_the_first_await_and_by_spawn_at_once(rig: MakeRig) -> None:
    """spec R3: a handle that is made and awaited later counts later."""

    async def w(step: Step) -> None:
        made_first = step.timer(2)
        made_second = step.timer(1)
        await made_second
        await made_first
        run_first, run_second = step.run(pack, 1), step.run(pack, 2)
        spawned = step.spawn(run_second)
        await run_first
        await spawned

    found = rig(w).go()

    assert [(e.step_key, e.label) for e in found.history[:2]] == [
        ("timer", "1s"),
        ("timer#2", "2s"),
    ]
    assert {e.step_key: e.value for e in found.history[2:]} == {"pack": "2", "pack#2": "1"}


def test_labels_are_no_part_of_keys(rig: MakeRig) -> None:
    """spec R3: durations are labels; another duration is the same operation."""

    async def long(step: Step) -> None:
        await step.sleep("10m")
        await step.sleep("1h")

    async def short(step: Step) -> None:
        await step.sleep("1s")
        await step.sleep("2s")

    x = rig(long)
    x.to(11 * 60_000)
    x.restart(short)
    found = x.go()

    assert found.status == "completed"
    assert keys(found) == ["sleep", "sleep#2"]


@pytest.mark.parametrize(
    "given", ["", " ", "a#b", "a/b", "a:b", "a~b", "a\nb", "a\x00", "é" * 51, " a", "a ", "\ud83d"]
)
def test_a_key_that_may_not_be_is_refused_at_the_call(rig: MakeRig, given: str) -> None:
    """spec R3: at most 100 bytes, printable, without `#`, `/`, `:` and `~`."""

    async def w(step: Step) -> str:
        try:
            step.using(key=given)
        except ValueError as error:
            return str(error)
        return "taken"

    found = rig(w).go()

    assert "key" in found.result
    assert found.result != "taken"


@pytest.mark.parametrize("given", ["x", "é" * 50, "charge eu", "a.b", "a-b_c", "日本"])
def test_every_other_key_is_kept_as_it_is(rig: MakeRig, given: str) -> None:
    """spec R3."""

    async def w(step: Step) -> None:
        await step.using(key=given).run(pack)

    assert keys(rig(w).go()) == [given]


def test_what_has_no_usable_name_needs_a_key(rig: MakeRig) -> None:
    """spec R3: a lambda, a partial, an object; the message says what to write."""
    nameless = [lambda: 1, partial(pack, 1), Shop()]

    async def w(step: Step) -> list[str]:
        said = []
        for fn in nameless:
            try:
                await step.run(fn)
            except ValueError as error:
                said.append(str(error))
            await step.using(key="named").run(fn)
        return said

    found = rig(w).go()

    assert len(found.result) == 3
    assert all('step.using(key="...").run(...)' in line for line in found.result)
    assert keys(found) == ["named", "named#2", "named#3"]


def test_what_cannot_be_called_is_refused(rig: MakeRig) -> None:
    """spec R3, R9: `step.run(f())` is the common slip."""

    async def w(step: Step) -> None:
        await step.using(key="k").run(pack(1))  # type: ignore[call-overload]

    found = rig(w).go()

    assert "takes a function and its arguments, not int" in str(found.error)


def test_a_function_that_cannot_be_hashed_runs_as_any_other(rig: MakeRig) -> None:
    """spec R1: a callable object runs under a given key."""

    class Unhashable:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self) -> int:
            return 5

    async def w(step: Step) -> int:
        return await step.using(key="k").run(Unhashable())

    assert rig(w).go().result == 5


@pytest.mark.parametrize("name", ["spawn", "timer", "sleep", "sleep_until", "timeout"])
def test_retry_and_timeout_belong_before_run_and_poll_only(rig: MakeRig, name: str) -> None:
    """spec, operations table: anything else is an error at the call."""

    async def w(step: Step) -> None:
        bounded = step.using(timeout="1s")
        calls = {
            "spawn": lambda: bounded.spawn(step.run(pack)),
            "timer": lambda: bounded.timer(1),
            "sleep": lambda: bounded.sleep(1),
            "sleep_until": lambda: bounded.sleep_until(step.now()),
            "timeout": lambda: bounded.timeout(step.timer(1), 1),
        }
        calls[name]()

    found = rig(w).go()

    assert isinstance(found.error, TypeError)
    assert "belong before run and poll" in str(found.error)


@pytest.mark.parametrize("name", ["now", "random", "uuid", "patched", "set_status", "all"])
def test_options_before_what_is_no_operation_are_an_error(rig: MakeRig, name: str) -> None:
    """spec, operations table: an option that would be ignored is an error at the call."""

    async def w(step: Step) -> str:
        given = {"patched": ["x"], "set_status": [1], "all": [[]]}.get(name, [])
        try:
            getattr(step.using(key="k"), name)(*given)
        except TypeError as error:
            return str(error)
        return "taken"

    assert "may not stand before" in rig(w).go().result


@pytest.mark.parametrize(
    ("option", "given", "said"),
    [
        ("retry", 3, "retry takes a RetryPolicy, not int"),
        ("timeout", "soon", "timeout must look like"),
        ("timeout", 0, "longer than nothing"),
        ("timeout", float("nan"), "must be a number"),
    ],
)
def test_options_of_a_wrong_kind_are_refused_at_the_call(
    rig: MakeRig, option: str, given: object, said: str
) -> None:
    """spec, operations table: an error at the call, not later in the worker."""

    async def w(step: Step) -> None:
        await step.using(**{option: given}).run(pack)  # type: ignore[arg-type]

    found = rig(w).go()

    assert found.status == "failed"
    assert said in str(found.error)


def test_the_longest_name_and_one_more_byte() -> None:
    """spec R3: a function's name is held to the same length as a given key."""
    fits = type("F", (), {"__call__": lambda self: 1, "__name__": "a" * 100})()
    too_long = type("F", (), {"__call__": lambda self: 1, "__name__": "a" * 101})()

    assert naming.function_key(fits) == "a" * 100
    with pytest.raises(ValueError, match="too long"):
        naming.function_key(too_long)
