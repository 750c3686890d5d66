"""What a runtime remembers of its workflow directory, and when it looks again (K4, K5)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

from tests.workflow_files import ONE, own_directory, write
from yieldstar_cli.checking_kept import BELIEVED_MS, look
from yieldstar_cli.clock import ManualClock, SystemClock
from yieldstar_cli.errors import InvalidParams, UnknownWorkflow, UntrustedPath
from yieldstar_cli.project import find_project
from yieldstar_cli.runtime import Runtime, open_storage

#: Longer ago than any file system's clock takes to move on, and what is found is not old yet.
LATER_MS = 60_000

GREET = """
    from yieldstar_cli import workflow

    @workflow
    async def greet(step, {param}) -> str:
        return "hello"
"""


@dataclass
class Shop:
    """A runtime whose clock says that its files were written a while ago."""

    runtime: Runtime
    directory: Path
    clock: ManualClock


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with own_directory(tmp_path) as directory:
        write(directory, "greet.py", GREET.format(param="name: str"))
        project = find_project(tmp_path, env={})
        clock = ManualClock(SystemClock().now_ms() + LATER_MS)
        storage = open_storage(project, create=True, clock=clock)
        with Runtime(storage, project, clock=clock) as runtime:
            yield Shop(runtime, directory, clock)


def test_a_directory_that_was_not_touched_still_stands(tmp_path: Path) -> None:
    """spec K4: what was found there is not asked for again."""
    write(tmp_path / "workflows", "greet.py", GREET.format(param="name: str"))
    now = SystemClock().now_ms() + LATER_MS

    seen = look(tmp_path / "workflows", now)

    assert seen.settled
    assert seen.stands(now)
    assert seen.stands(now + BELIEVED_MS - 1)


def test_what_was_seen_is_not_believed_for_long(tmp_path: Path) -> None:
    """spec K5: who is in a group, for one, is written in no entry that a look compares."""
    now = SystemClock().now_ms() + LATER_MS

    seen = look(tmp_path, now)

    assert not seen.stands(now + BELIEVED_MS)
    assert not seen.stands(now - 1)


def test_what_has_just_changed_may_change_again_unseen(tmp_path: Path) -> None:
    """spec K4: two changes within a tick of the file system's clock leave the same moment."""
    written = write(tmp_path, "greet.py", GREET.format(param="name: str"))
    changed_at = written.stat().st_ctime_ns // 1_000_000

    seen = look(tmp_path, changed_at)

    assert not seen.settled


@pytest.mark.parametrize("change", ["content", "new file", "lost file", "mode", "mode above"])
def test_every_change_is_seen(tmp_path: Path, change: str) -> None:
    """spec K4, K5."""
    directory = tmp_path / "workflows"
    written = write(directory, "greet.py", GREET.format(param="name: str"))
    now = SystemClock().now_ms() + LATER_MS
    seen = look(directory, now)

    if change == "content":
        write(directory, "greet.py", GREET.format(param="name: int"))
    elif change == "new file":
        write(directory, "other.py", ONE.format(name="other"))
    elif change == "lost file":
        written.unlink()
    elif change == "mode":
        written.chmod(0o666)
    else:
        tmp_path.chmod(0o777)

    assert not seen.stands(now)


def test_another_directory_behind_the_same_link_is_seen(tmp_path: Path) -> None:
    """spec K5: what counts is what the link leads to."""
    for name in ("one", "two"):
        write(tmp_path / name, "greet.py", GREET.format(param="name: str"))
    link = tmp_path / "workflows"
    link.symlink_to("one")
    now = SystemClock().now_ms() + LATER_MS
    seen = look(link, now)

    link.unlink()
    link.symlink_to("two")

    assert not seen.stands(now)


def test_a_target_is_found_once_while_nothing_changes(shop: Shop) -> None:
    """spec K4: the cache in the file is not read again for every one of many triggers."""
    shop.runtime.trigger("greet", {"name": "Ann"})
    shop.runtime.trigger("greet", {"name": "Ben"})
    with closing(open_storage(shop.runtime.project)) as other:
        other.catalog.put(str(shop.directory.resolve()), [])

        third = shop.runtime.trigger("greet", {"name": "Cid"})

        assert shop.runtime.get(third) is not None
        assert other.catalog.modules(str(shop.directory.resolve())) == []


def test_a_changed_module_is_seen_by_the_next_trigger(shop: Shop) -> None:
    """spec K4: only a module that changed since is loaded."""
    for name in ("Ann", "Ben", "Cid"):
        shop.runtime.trigger("greet", {"name": name})

    write(shop.directory, "greet.py", GREET.format(param="name: int"))

    with pytest.raises(InvalidParams):
        shop.runtime.trigger("greet", {"name": "Dot"})
    assert shop.runtime.trigger("greet", {"name": 4})


def test_a_module_that_was_added_or_lost_is_seen_by_the_next_trigger(shop: Shop) -> None:
    """spec K4."""
    for name in ("Ann", "Ben"):
        shop.runtime.trigger("greet", {"name": name})

    write(shop.directory, "other.py", ONE.format(name="other"))
    (shop.directory / "greet.py").unlink()

    assert shop.runtime.trigger("other")
    with pytest.raises(UnknownWorkflow):
        shop.runtime.trigger("greet", {"name": "Cid"})


def test_a_directory_that_others_may_write_by_now_is_refused(shop: Shop) -> None:
    """spec K5."""
    for name in ("Ann", "Ben"):
        shop.runtime.trigger("greet", {"name": name})

    shop.directory.chmod(0o777)

    with pytest.raises(UntrustedPath):
        shop.runtime.trigger("greet", {"name": "Cid"})


def test_defaults_of_a_remembered_type_are_not_shared(shop: Shop) -> None:
    """spec E4: each execution's params are its own, however often the type is used."""
    text = dedent(GREET.format(param="names: list[str] = []"))
    write(shop.directory, "greet.py", text)

    made = [shop.runtime.trigger("greet") for _ in range(3)]
    made.append(shop.runtime.trigger("greet", {"names": ["Ann"]}))
    made.append(shop.runtime.trigger("greet"))

    records = [shop.runtime.get(reference) for reference in made]
    texts = [record.params_json for record in records if record is not None]
    assert texts == ['{"names":[]}'] * 3 + ['{"names":["Ann"]}', '{"names":[]}']
