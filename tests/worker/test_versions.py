"""Old and new versions of a workflow, in one worker and in several, in virtual time (spec R11)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.worker.site import SECOND, Site
from yieldstar_cli.engine.authoring import Workflow, workflow
from yieldstar_cli.engine.step import Step


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Callable[..., Site]]:
    made: list[Site] = []

    def make(*workflows: Workflow[..., Any]) -> Site:
        made.append(Site(tmp_path / f"{len(made)}.db", *(w.definition for w in workflows)))
        return made[-1]

    yield make
    for one in made:
        one.close()


def mark(text: str) -> str:
    return text


# --- one execution -------------------------------------------------------------------------------


@workflow(id="nap")
async def nap_1(step: Step) -> str:
    await step.run(mark, "1")
    await step.sleep("10s")
    return "old"


@workflow(id="nap", version=2)
async def nap_2(step: Step) -> str:
    await step.sleep("10s")
    return "new"


def test_what_runs_stays_on_its_version_across_deliveries_and_deaths(
    site: Callable[..., Site],
) -> None:
    """case 137; spec R11: a worker that has both replays each history with the code it began in."""
    x = site(nap_1, nap_2)
    x.hire("first", has=(nap_1,))
    x.admit("old", "nap")
    x.to(1 * SECOND)
    x.bench.crash()

    x.hire("both", has=(nap_1, nap_2))
    x.admit("new", "nap", version=2)
    x.to(60 * SECOND)

    assert [x.bench.result(name).result for name in ("old", "new")] == ["old", "new"]
    assert [x.bench.record(name).version for name in ("old", "new")] == [1, 2]


def test_workers_with_one_version_each_share_a_file_and_take_only_their_own(
    site: Callable[..., Site],
) -> None:
    """cases 89, 137; spec R11: no claim is spent on the other's, whoever looks first."""
    x = site(nap_1, nap_2)
    for number in range(3):
        x.admit(f"old-{number}", "nap")
        x.admit(f"new-{number}", "nap", version=2)
    new, old = x.hire("new", has=(nap_2,)), x.hire("old", has=(nap_1,))

    x.to(60 * SECOND)

    assert [x.bench.result(f"old-{n}").result for n in range(3)] == ["old"] * 3
    assert [x.bench.result(f"new-{n}").result for n in range(3)] == ["new"] * 3
    assert (new.delivered, old.delivered) == (6, 6)


def test_a_version_that_no_worker_has_parks_and_comes_back_with_it(
    site: Callable[..., Site],
) -> None:
    """case 137; spec R11, E12: unclaimed and without a problem; due since its timer's moment."""
    x = site(nap_1, nap_2)
    x.admit("old", "nap")
    x.hire("old", has=(nap_1,))
    x.to(1 * SECOND)
    x.bench.crash()

    x.hire("new", has=(nap_2,))
    x.to(3_600 * SECOND)
    parked = x.bench.record("old")
    assert (parked.status, parked.deliveries, parked.held) == ("suspended", 1, None)
    assert parked.problem is None or parked.problem.code == "WORKER_DIED"

    x.hire("old again", has=(nap_1,))
    x.to(3_600 * SECOND)
    assert x.bench.result("old").result == "old"


# --- continue-as-new -----------------------------------------------------------------------------


@workflow(id="count")
async def count_1(step: Step, n: int = 0) -> str:
    await step.sleep("1s")
    return await step.continue_as({"n": n + 1})


@workflow(id="count", version=3)
async def count_3(step: Step, n: int = 0, by: str = "default") -> str:
    await step.run(mark, "3")
    if n < 10:
        return await step.continue_as({"n": 10})
    return f"{n} {by}"


def test_the_next_incarnation_runs_the_latest_version_that_is_loaded(
    site: Callable[..., Site],
) -> None:
    """case 137; spec R11, C7: with its new params' defaults; the old one's version is kept."""
    x = site(count_1, count_3)
    x.admit("c", "count", params={"n": 0})
    worker = x.hire("both", has=(count_1,))
    x.to(2_500)
    before = x.bench.record("c")
    assert (before.incarnation, before.version) == (3, 1)

    worker.use({d.key: d for d in (count_1.definition, count_3.definition)})
    x.to(60 * SECOND)

    after = x.bench.record("c")
    assert x.bench.result("c").result == "10 default"
    assert (after.incarnation, after.version) == (5, 3)
    kept = x.bench.storage.family.incarnations(after.number)
    assert [(one.incarnation, one.version) for one in kept] == [(2, 1), (3, 1), (4, 3)]


def test_a_worker_without_the_new_version_goes_on_with_the_old_one(
    site: Callable[..., Site],
) -> None:
    """spec R11: the latest is the latest that it has; another worker's code is not its."""
    x = site(count_1, count_3)
    x.hire("new", has=(count_3,))
    x.hire("old", has=(count_1,))
    x.admit("c", "count", params={"n": 0})

    x.to(3_500)

    record = x.bench.record("c")
    assert (record.incarnation, record.version) == (4, 1)


def test_continued_into_a_version_that_is_taken_away_it_parks_until_it_is_back(
    site: Callable[..., Site],
) -> None:
    """case 245; spec R11, C7: it does not fall back, and `version` says which one is missing."""
    x = site(count_1, count_3)
    x.admit("c", "count", params={"n": 0})
    x.hire("both", has=(count_1, count_3))
    x.bench.run(until=lambda: x.bench.record("c").incarnation == 2)
    x.bench.crash()

    x.hire("old", has=(count_1,))
    x.to(3_600 * SECOND)
    parked = x.bench.record("c")
    assert (parked.status, parked.version, parked.incarnation) == ("suspended", 3, 2)
    assert (parked.held, x.bench.history("c")) == (None, [])

    x.hire("new", has=(count_3,))
    x.to(3_600 * SECOND)
    assert x.bench.result("c").result == "10 default"


# --- children ------------------------------------------------------------------------------------


@workflow(id="child")
async def child_1(step: Step, a: int) -> str:
    await step.sleep("10s")
    return f"old {a}"


@workflow(id="child", version=2)
async def child_2(step: Step, b: str) -> int:
    return int(b)


@workflow
async def by_name(step: Step) -> str:
    child = step.child("child", {"a": 1})
    return str(await child)


@workflow
async def by_object(step: Step) -> str:
    return await step.child(child_1, {"a": 1})


@workflow
async def by_name_after(step: Step) -> int:
    await step.sleep("5s")
    return int(await step.child("child", {"b": "7"}))


def test_a_child_by_name_takes_the_latest_and_by_object_its_own(
    site: Callable[..., Site],
) -> None:
    """case 137; spec R11, C3."""
    everything = (child_1, child_2, by_object, by_name_after)
    x = site(*everything)
    x.hire("all", has=everything)
    x.admit("named", "by-name-after")
    x.admit("object", "by-object")

    x.to(60 * SECOND)

    assert (x.bench.result("named").result, x.bench.result("object").result) == (7, "old 1")
    assert x.bench.record("named/child").version == 2
    assert x.bench.record("object/child").version == 1


@pytest.mark.parametrize("dies", [False, True])
@pytest.mark.parametrize("parent", [by_name, by_object])
def test_a_child_that_was_started_stays_what_it_was_when_a_newer_version_comes(
    site: Callable[..., Site], parent: Workflow[..., Any], dies: bool
) -> None:
    """case 137; spec R11, R2: on replay neither params nor result are the new version's."""
    old, both = (child_1, parent), (child_1, child_2, parent)
    x = site(*both)
    worker = x.hire("old", has=old)
    x.admit("p", parent.workflow_id)
    x.to(1 * SECOND)
    assert x.bench.record("p/child").version == 1

    if dies:
        x.bench.crash()
        x.hire("new", has=both)
    else:
        worker.use({w.definition.key: w.definition for w in both})
    x.to(60 * SECOND)

    assert x.bench.result("p").result == "old 1"
    assert x.bench.record("p").held is None


@workflow(id="newer")
async def newer_by_object_1(step: Step) -> Any:
    return await step.child(child_1, {"a": 1})


@workflow(id="newer")
async def newer_by_object_2(step: Step) -> Any:
    return await step.child(child_2, {"b": "1"})


def test_a_child_by_object_whose_version_was_raised_stays_what_it_was(
    site: Callable[..., Site],
) -> None:
    """case 137; spec R11, R5: the parent was edited to take the new one; what runs is the old."""
    x = site(child_1, child_2, newer_by_object_2)
    x.hire("old", has=(child_1, newer_by_object_1))
    x.admit("p", "newer")
    x.to(1 * SECOND)
    x.bench.crash()

    x.hire("new", has=(child_1, child_2, newer_by_object_2))
    x.to(60 * SECOND)

    assert x.bench.result("p").result == "old 1"
    assert x.bench.record("p/child").version == 1


def test_the_start_of_a_newer_version_is_known_on_replay(site: Callable[..., Site]) -> None:
    """spec R11, R2: the history says which version a child was checked with."""
    everything = (child_1, child_2, by_name_after)
    x = site(*everything)
    x.hire("all", has=everything)
    x.admit("p", "by-name-after")
    x.bench.run(until=lambda: len(x.bench.history("p")) == 2)
    x.bench.crash()

    x.hire("all again", has=everything)
    x.to(60 * SECOND)

    assert x.bench.result("p").result == 7
    assert [entry.value for entry in x.bench.history("p")][1] == '["child",2]'
