"""Who may change what we run and keep (spec K5). People are made up: tests may run as root."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from yieldstar_cli.errors import UntrustedPath
from yieldstar_cli.trust import SystemPeople, Trust

YOU, STRANGER, ROOT = 1000, 1001, 0
YOUR_GROUP, STAFF = 1000, 50


@dataclass(frozen=True)
class Town:
    """A machine where you are user 1000 and, mostly, have a group of your own."""

    private: int | None = YOUR_GROUP

    def user(self) -> int:
        return YOU

    def private_group(self) -> int | None:
        return self.private

    def name(self, user: int) -> str:
        return {YOU: "you", STRANGER: "eve", ROOT: "root"}[user]


def found(*, mode: int, owner: int = YOU, group: int = YOUR_GROUP) -> os.stat_result:
    return os.stat_result((mode, 1, 1, 1, owner, group, 0, 0, 0, 0))


@pytest.mark.parametrize(
    ("mode", "owner", "group"),
    [
        (0o100600, YOU, YOUR_GROUP),
        (0o100644, ROOT, ROOT),
        (0o040755, YOU, STAFF),
        (0o040775, YOU, YOUR_GROUP),  # umask 002 with a private group
        (0o100664, YOU, YOUR_GROUP),
    ],
)
def test_what_only_you_or_root_can_write_is_safe(mode, owner, group):
    """security S3; spec K5."""
    assert Trust(people=Town()).fault(found(mode=mode, owner=owner, group=group)) is None


@pytest.mark.parametrize(
    ("mode", "owner", "group", "reason"),
    [
        (0o100644, STRANGER, YOUR_GROUP, "belongs to eve, not to you or root"),
        (0o100666, YOU, YOUR_GROUP, "can be written by everybody (mode 0666)"),
        (0o041777, ROOT, ROOT, "can be written by everybody (mode 1777)"),  # sticky /tmp
        (0o100664, YOU, STAFF, "can be written by its group (mode 0664)"),
        (0o040775, ROOT, STAFF, "can be written by its group (mode 0775)"),
    ],
)
def test_what_others_can_write_is_refused_with_the_reason(mode, owner, group, reason):
    """security S3; spec K5: a sticky bit makes a world-writable directory no safer."""
    assert Trust(people=Town()).fault(found(mode=mode, owner=owner, group=group)) == reason


def test_a_primary_group_that_others_share_is_not_private():
    """spec K5: your primary group, named like you, no other members."""
    group_writable = found(mode=0o100664)

    assert Trust(people=Town(private=None)).fault(group_writable) is not None


def test_a_path_is_refused_with_its_reason_and_its_remedies(tmp_path: Path):
    """spec K5: what, why, and what to type."""
    module = tmp_path / "pay.py"
    module.touch()
    module.chmod(0o666)

    with pytest.raises(UntrustedPath) as refused:
        Trust().check(module)

    assert refused.value.message == f"{module} can be written by everybody (mode 0666)"
    assert refused.value.remedy == (f"chmod go-w {module}", f"--trust-dir {tmp_path}")
    assert refused.value.exit_code == 10


def test_a_file_is_as_safe_as_the_directory_that_holds_it(tmp_path: Path):
    """security S3; spec K5: who may write the directory may replace the file."""
    module = tmp_path / "pay.py"
    module.touch(mode=0o644)
    tmp_path.chmod(0o1777)

    with pytest.raises(UntrustedPath, match="everybody"):
        Trust().check(module)


def test_a_link_counts_where_it_leads_and_where_it_stands(tmp_path: Path):
    """security S4; spec K5."""
    safe, shared = tmp_path / "safe", tmp_path / "shared"
    safe.mkdir(mode=0o755)
    shared.mkdir()
    (safe / "there.py").touch(mode=0o644)
    (safe / "out.py").symlink_to(shared / "evil.py")
    (shared / "evil.py").touch(mode=0o644)
    (shared / "in.py").symlink_to(safe / "there.py")
    shared.chmod(0o777)

    Trust().check(safe / "there.py")
    for link in (safe / "out.py", shared / "in.py"):
        with pytest.raises(UntrustedPath):
            Trust().check(link)


def test_a_named_directory_is_trusted_with_all_in_it_and_nothing_beside_it(tmp_path: Path):
    """spec K5: `--trust-dir`."""
    named, beside = tmp_path / "named", tmp_path / "named-not"
    for directory in (named, beside):
        directory.mkdir()
        (directory / "pay.py").touch()
        (directory / "pay.py").chmod(0o666)

    trust = Trust((named,))

    trust.check(named)
    trust.check(named / "pay.py")
    with pytest.raises(UntrustedPath):
        trust.check(beside / "pay.py")


def test_a_database_about_to_be_made_is_judged_by_its_directory(tmp_path: Path):
    """spec K5: whoever can write there can put another file in its place."""
    Trust().check_database(tmp_path / "ys.db")
    tmp_path.chmod(0o777)

    with pytest.raises(UntrustedPath):
        Trust().check_database(tmp_path / "ys.db")


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-lock"])
def test_a_database_and_the_files_beside_it_are_checked(tmp_path: Path, suffix: str):
    """spec K5: a WAL that others wrote would be read into the database."""
    beside = tmp_path / f"ys.db{suffix}"
    beside.touch()
    beside.chmod(0o666)

    with pytest.raises(UntrustedPath, match="everybody"):
        Trust().check_database(tmp_path / "ys.db")


def test_a_database_may_lie_in_a_sticky_directory(tmp_path: Path):
    """spec K5: in /tmp nobody else can replace your file; for modules see security S3."""
    tmp_path.chmod(0o1777)
    (tmp_path / "ys.db").touch(mode=0o600)

    Trust().check_database(tmp_path / "ys.db")


def test_the_machines_people_are_asked_without_error():
    """spec K5: also where a user has no name."""
    people = SystemPeople()

    assert people.user() == os.geteuid()
    assert people.private_group() in (None, os.getegid())
    assert people.name(4_000_000_001) == "4000000001"
