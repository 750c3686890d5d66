"""What a worker may run of what it has loaded: names, tags, versions (spec K1, O5, R11)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.workflow_files import own_directory, write
from yieldstar_cli.errors import UsageError
from yieldstar_cli.project import find_project
from yieldstar_cli.storage.sqlite.storage import SqliteStorage
from yieldstar_cli.worker.code import Code
from yieldstar_cli.worker.options import WorkerOptions

MODULE = """
    from yieldstar_cli import Step, workflow

    @workflow
    async def bill(step: Step) -> None: ...

    @workflow(tags={"gpu"})
    async def fit(step: Step) -> None: ...

    @workflow(tags={"gpu", "ssd"})
    async def render(step: Step) -> None: ...
"""
VERSIONS = """
    from yieldstar_cli import Step, workflow

    @workflow(id="fit")
    async def old(step: Step) -> None: ...

    @workflow(version=2, tags={"gpu"})
    async def fit(step: Step) -> None: ...
"""


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    with own_directory(tmp_path) as made:
        yield made


@pytest.fixture
def said() -> list[str]:
    """What the worker says that it leaves to others."""
    return []


@pytest.fixture
def code(tmp_path: Path, directory: Path, said: list[str]) -> Callable[..., Code]:
    """Loads the directory as a worker with these options does."""

    def say(kind: str, text: str) -> None:
        if kind == "left out":
            said.append(text)

    def load(**options: tuple[str, ...]) -> Code:
        project = find_project(tmp_path, env={}, home=tmp_path)
        return Code(WorkerOptions(project=project, **options), say)  # type: ignore[arg-type]

    return load


@pytest.mark.parametrize(
    ("tags", "runs"),
    [
        ((), ["bill"]),
        (("ssd",), ["bill"]),
        (("gpu",), ["bill", "fit"]),
        (("ssd", "gpu"), ["bill", "fit", "render"]),
        (("GPU",), ["bill"]),
    ],
)
def test_a_worker_runs_what_asks_for_no_other_tags_than_its_own(
    directory: Path, code: Callable[..., Code], tags: tuple[str, ...], runs: list[str]
) -> None:
    """spec O5: each tag of a workflow is asked for; what asks for none runs anywhere."""
    write(directory, "shop.py", MODULE)

    found = code(tags=tags)

    assert sorted(name for name, _ in found.definitions()) == runs
    assert sorted(name for name, _ in found.loaded()) == ["bill", "fit", "render"]


def test_what_a_worker_leaves_to_others_is_said_with_the_tags_it_lacks(
    directory: Path, code: Callable[..., Code], said: list[str]
) -> None:
    """spec O5: and not what it was told to leave."""
    write(directory, "shop.py", MODULE)

    code(tags=("ssd",), except_=("fit",))
    code(except_=("render",))
    code(tags=("gpu", "ssd"))

    assert said == ["render asks for --tag gpu", "fit asks for --tag gpu"]


def test_versions_of_one_name_may_ask_for_different_tags(
    directory: Path, code: Callable[..., Code], said: list[str]
) -> None:
    """spec O5, R11: what runs on version 1 goes on where version 2 is left out."""
    write(directory, "fit.py", VERSIONS)

    assert sorted(code().definitions()) == [("fit", 1)]
    assert said == ["fit version 2 asks for --tag gpu"]
    assert sorted(code(tags=("gpu",)).definitions()) == [("fit", 1), ("fit", 2)]
    assert sorted(code(only=("fit",)).definitions()) == [("fit", 1)]


def test_a_worker_for_one_workflow_alone_without_its_tag_is_refused(
    directory: Path, code: Callable[..., Code]
) -> None:
    """spec O5: it would wait for ever and say nothing."""
    write(directory, "shop.py", MODULE)

    with pytest.raises(UsageError) as refused:
        code(only=("bill", "render"), tags=("ssd",))

    assert refused.value.message == "without --tag gpu this worker cannot run render"
    assert refused.value.remedy == ("ys worker --only bill,render --tag gpu --tag ssd",)


def test_a_worker_that_can_run_nothing_for_want_of_a_tag_is_refused(
    directory: Path, code: Callable[..., Code]
) -> None:
    """spec O5: what it was told to leave is no reason, what it lacks is."""
    write(directory, "shop.py", MODULE)

    with pytest.raises(UsageError) as refused:
        code(except_=("bill", "render"))

    assert refused.value.message == "without --tag gpu this worker cannot run fit"
    assert refused.value.remedy == ("ys worker --tag gpu",)


def test_a_tag_that_a_workflow_loses_is_noticed_by_a_running_worker(
    directory: Path, code: Callable[..., Code], said: list[str]
) -> None:
    """spec O5, K1: the changed file is loaded whole, and what is left out with it."""
    write(directory, "shop.py", MODULE)
    running = code()

    write(directory, "shop.py", MODULE.replace('{"gpu"}', "()"))
    assert running.reload()
    assert sorted(name for name, _ in running.definitions()) == ["bill", "fit"]

    write(directory, "shop.py", MODULE)
    assert running.reload()
    assert sorted(name for name, _ in running.definitions()) == ["bill"]
    assert said == [
        "fit asks for --tag gpu",
        "render asks for --tag gpu --tag ssd",
        "fit asks for --tag gpu",
    ]


def test_the_file_is_told_what_a_worker_can_claim_and_what_the_modules_hold(
    directory: Path, code: Callable[..., Code], storage: SqliteStorage
) -> None:
    """spec O5, K4, E12: so it can be said that no living worker has the tag."""
    write(directory, "shop.py", MODULE)
    worker = register(storage)

    code(tags=("gpu",)).telling(worker, 1_000, starts=True)(storage)

    (row,) = storage.workers.all()
    (module,) = storage.catalog.modules(str(directory))
    assert (row.workflows, row.tags) == ((("bill", 1), ("fit", 1)), ("gpu",))
    assert {info.workflow_id: info.tags for info in module.workflows} == {
        "bill": (),
        "fit": ("gpu",),
        "render": ("gpu", "ssd"),
    }


def register(storage: SqliteStorage) -> int:
    return storage.workers.register(
        name="shop:1",
        host="shop",
        pid=1,
        slot=0,
        nonce=b"n" * 16,
        boot_id="boot",
        device=0,
        inode=0,
        lease_until_at=31_000,
    )
