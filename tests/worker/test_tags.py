"""Steps for tags go to workers that have them, and back; in virtual time (spec O5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.helpers import START, definition_of
from tests.worker.site import SECOND, Site
from yieldstar_cli.engine.retry import RetryPolicy
from yieldstar_cli.engine.step import Step


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Callable[..., Site]]:
    made: list[Site] = []

    def make(body: Callable[[Step], Any]) -> Site:
        made.append(with_x(tmp_path / f"{len(made)}.db", body))
        return made[-1]

    yield make
    for one in made:
        one.close()


def with_x(path: Path, body: Callable[[Step], Any]) -> Site:
    """A site with one execution `x` of a workflow that is `body`."""
    site = Site(path, definition_of(body))
    site.admit("x", "w")
    return site


def needs(x: Site) -> tuple[str, ...]:
    """The tags, one of which a worker needs to go on with `x`."""
    return x.bench.record("x").needs


def load() -> str:
    return "rows"


def train() -> str:
    return "weights"


def upload() -> str:
    return "uploaded"


async def plain_then_gpu(step: Step) -> list[str]:
    rows = await step.run(load)
    weights = await step.using(tag="gpu").run(train)
    return [rows, weights, await step.run(upload)]


def test_a_step_for_a_tag_is_not_started_by_a_worker_without_it(site: Callable[..., Site]) -> None:
    """spec O5: the delivery suspends with its needs, once, and `show` can say which tag."""
    x = site(plain_then_gpu)
    x.hire("plain")

    x.to(3_600 * SECOND)

    assert x.ran == [("plain", "load")]
    assert needs(x) == ("gpu",)
    assert x.bench.record("x").deliveries == 1
    (wait,) = x.bench.storage.reader.waits(x.bench.record("x").number)
    assert (wait.step_key, wait.state, wait.tag, wait.attempt) == ("train", "tagged", "gpu", 1)


def test_a_worker_with_the_tag_takes_it_at_once_and_goes_on(site: Callable[..., Site]) -> None:
    """spec O5: no lease is waited out: on the virtual clock no time passes at all."""
    x = site(plain_then_gpu)
    x.hire("plain")
    x.to(0)

    x.hire("gpu", "gpu", "ssd")
    x.to(0)

    found = x.bench.result("x")
    assert found.result == ["rows", "weights", "uploaded"]
    assert x.ran == [("plain", "load"), ("gpu", "train"), ("gpu", "upload")]
    assert (found.record.deliveries, found.record.needs) == (2, ())
    assert x.bench.clock.now_ms() == START


def test_needs_are_reckoned_anew_at_every_suspension(site: Callable[..., Site]) -> None:
    """spec O5: after the tagged step it waits for a timer like any other, for any worker."""

    async def body(step: Step) -> str:
        await step.using(tag="gpu").run(train)
        await step.sleep("10s")
        return await step.run(upload)

    x = site(body)
    x.hire("plain")
    x.to(0)
    assert needs(x) == ("gpu",)
    gpu = x.hire("gpu", "gpu")
    x.to(1 * SECOND)
    assert needs(x) == ()

    gpu.stop()
    x.to(10 * SECOND)

    assert x.bench.result("x").result == "uploaded"
    assert x.ran == [("gpu", "train"), ("plain", "upload")]


def test_branches_with_different_tags_are_each_done_where_they_can(
    site: Callable[..., Site],
) -> None:
    """spec O5: any worker with one of the tags is good for the next delivery."""

    async def body(step: Step) -> list[str]:
        return await step.all(
            [step.using(tag="gpu").run(train), step.using(tag="net").run(upload), step.run(load)]
        )

    x = site(body)
    x.hire("plain")
    x.to(0)
    assert (x.ran, needs(x)) == ([("plain", "load")], ("gpu", "net"))

    x.hire("net", "net")
    x.to(0)
    assert (x.ran[1:], needs(x)) == ([("net", "upload")], ("gpu",))
    x.hire("gpu", "gpu")
    x.to(0)

    assert x.bench.result("x").result == ["weights", "uploaded", "rows"]
    assert x.ran[2:] == [("gpu", "train")]


def test_others_deliver_it_only_at_its_ordinary_wakes(site: Callable[..., Site]) -> None:
    """spec O5, E6: a timer beside the tagged step, and `ys wake`; neither makes it spin."""

    async def body(step: Step) -> str:
        job = step.spawn(step.using(tag="gpu").run(train))
        won = await step.select(job, step.timer("10s"))
        await step.run(load)
        return "gpu" if won is job else str(await job)

    x = site(body)
    x.hire("plain")
    x.to(9 * SECOND)
    assert x.bench.record("x").deliveries == 1

    x.to(3_600 * SECOND)
    assert (x.bench.record("x").deliveries, needs(x)) == (2, ("gpu",))
    assert x.ran == [("plain", "load")]
    x.bench.storage.executions.request_wake("x", x.bench.clock.now_ms())
    x.to(7_200 * SECOND)
    assert (x.bench.record("x").deliveries, needs(x)) == (3, ("gpu",))

    x.hire("gpu", "gpu")
    x.to(7_200 * SECOND)
    assert x.bench.result("x").result == "weights"


def test_a_poll_for_a_tag_polls_where_the_tag_is(site: Callable[..., Site]) -> None:
    """spec O5: its pauses are timers that any worker may find due; its tries are not."""
    answers = ["", "", "ready"]

    def ready() -> str:
        return answers.pop(0)

    async def body(step: Step) -> str:
        return await step.using(tag="gpu").poll(ready, every="5s")

    x = site(body)
    x.hire("plain")
    x.hire("gpu", "gpu")

    x.to(3_600 * SECOND)

    assert x.bench.result("x").result == "ready"
    assert x.ran == [("gpu", "ready")] * 3


def test_a_tagged_step_is_tried_again_where_its_tag_is(site: Callable[..., Site]) -> None:
    """spec O5, O1: after the pause; whoever finds it due hands it on and uses up no try."""
    tries: list[int] = []

    def flaky() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise OSError("no answer")
        return "weights"

    async def body(step: Step) -> str:
        options = step.using(tag="gpu", retry=RetryPolicy(attempts=3, first="10s", factor=1))
        return await options.run(flaky)

    x = site(body)
    x.hire("plain")
    x.hire("gpu", "gpu")

    x.to(3_600 * SECOND)

    assert x.bench.result("x").result == "weights"
    assert x.ran == [("gpu", "flaky")] * 3
    assert x.bench.record("x").updated_at == START + 20 * SECOND


def test_a_message_reaches_an_execution_that_waits_for_a_tag_too(
    site: Callable[..., Site],
) -> None:
    """spec O5, M4: the wait beside the tagged step wakes it for any worker."""

    async def body(step: Step) -> str:
        job = step.spawn(step.using(tag="gpu").run(train))
        order = step.message("orders", str)
        won = await step.select(job, order)
        if won is order:
            job.cancel()
            return str(order.result())
        return "weights"

    x = site(body)
    x.hire("plain")
    x.to(0)
    assert needs(x) == ("gpu",)

    x.bench.send("x", "orders", "stop")
    x.to(0)

    assert x.bench.result("x").result == "stop"
    assert x.ran == []


def test_a_cancel_reaches_an_execution_that_waits_for_a_tag(site: Callable[..., Site]) -> None:
    """spec O5, C6: no worker with the tag is needed to end it."""
    x = site(plain_then_gpu)
    x.hire("plain")
    x.to(0)

    x.bench.cancel("x", "no GPU to be had")
    x.to(0)

    assert x.bench.record("x").status == "cancelled"
    assert x.ran == [("plain", "load")]


def test_a_tagged_step_of_a_dead_worker_is_for_the_next_one_with_the_tag(
    site: Callable[..., Site],
) -> None:
    """spec O5, L5, E8: what a claim by tag covered is the need of that tag, and pends again."""
    x = site(plain_then_gpu)
    x.hire("plain")
    x.to(0)
    gpu = x.hire("gpu", "gpu")
    x.bench.run(until=lambda: any(row == ("gpu", "train") for row in x.ran))
    assert gpu.open_count == 1

    x.bench.crash()
    x.hire("plain again")
    x.to(0)
    assert x.ran[2:] == []
    assert needs(x) == ("gpu",)
    x.hire("gpu again", "gpu")
    x.to(0)

    assert x.bench.result("x").result == ["rows", "weights", "uploaded"]
    assert x.ran[2:] == [("gpu again", "train"), ("gpu again", "upload")]


def test_a_tagged_step_in_the_clean_up_of_a_cancelled_execution_goes_to_its_worker(
    site: Callable[..., Site],
) -> None:
    """spec O5, C6: clean-up may need the same machine."""
    from yieldstar_cli import Cancelled

    async def body(step: Step) -> None:
        try:
            await step.sleep("1h")
        except Cancelled:
            await step.using(tag="gpu").run(train)
            raise

    x = site(body)
    x.hire("plain")
    x.to(0)
    x.bench.cancel("x")
    x.to(0)
    assert (x.bench.record("x").status, needs(x)) == ("suspended", ("gpu",))

    x.hire("gpu", "gpu")
    x.to(0)

    assert x.bench.record("x").status == "cancelled"
    assert x.ran == [("gpu", "train")]


# --- any program, any crew -----------------------------------------------------------------------

TAGS = st.sampled_from([None, "a", "b", "c"])


def one() -> int:
    return 1


def program(tags: list[list[str | None]]) -> Callable[[Step], Any]:
    """Rounds of steps side by side, each for a tag or for none."""

    async def body(step: Step) -> int:
        total = 0
        for row in tags:
            total += sum(
                await step.all(
                    [(step if tag is None else step.using(tag=tag)).run(one) for tag in row]
                )
            )
            await step.sleep("1s")
        return total

    return body


@settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
@given(
    tags=st.lists(st.lists(TAGS, min_size=1, max_size=4), min_size=1, max_size=4),
    crew=st.lists(st.sets(st.sampled_from("abc")), max_size=3),
)
def test_whoever_works_every_step_runs_once_where_its_tag_is(
    tmp_path_factory: pytest.TempPathFactory,
    tags: list[list[str | None]],
    crew: list[set[str]],
) -> None:
    """spec O5, R4: the steps with a tag all in workers that have it, and nothing else is lost."""
    x = with_x(tmp_path_factory.mktemp("tags") / "ys.db", program(tags))
    hired = {"plain": set[str](), "last": {"a", "b", "c"}}
    try:
        x.hire("plain")
        x.to(0)
        for index, has in enumerate(crew):
            hired[str(index)] = has
            x.hire(str(index), *has)
            x.to(index * 700)
        x.hire("last", "a", "b", "c")
        x.to(3_600 * SECOND)

        flat = [tag for row in tags for tag in row]
        keys = ["one" if n == 0 else f"one#{n + 1}" for n in range(len(flat))]
        asked = dict(zip(keys, flat, strict=True))
        assert x.bench.result("x").result == len(flat)
        assert sorted(key for _, key in x.ran) == sorted(keys)
        assert all(asked[key] is None or asked[key] in hired[name] for name, key in x.ran)
        assert x.bench.record("x").deliveries <= 2 * len(flat) + len(tags) * 5 + 2
    finally:
        x.close()
