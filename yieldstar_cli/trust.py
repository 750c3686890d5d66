"""Who may change the code that we run and the file that we keep: the rule of spec K5.

Safe is what belongs to you or root and can be written by nobody else. A group may write if it
is your private one: your primary group, named like you, without other members.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from yieldstar_cli.errors import UntrustedPath
from yieldstar_cli.nouns import dataclass, field


class People(Protocol):
    """Whose process this is, and who is in which group."""

    def user(self) -> int:
        """The user this process acts as."""
        ...

    def private_group(self) -> int | None:
        """The group that is yours alone, or None if there is none."""
        ...

    def name(self, user: int) -> str:
        """The user's name, for people; the number as text if it has none."""
        ...


class SystemPeople:
    """The machine's users and groups."""

    def user(self) -> int:
        """The user this process acts as."""
        return os.geteuid()

    def private_group(self) -> int | None:
        """Your primary group, if it is named like you and has no other members."""
        import grp
        import pwd

        try:
            you = pwd.getpwuid(os.geteuid())
            group = grp.getgrgid(you.pw_gid)
        except KeyError:
            return None
        others = {*group.gr_mem} - {you.pw_name}
        others |= {
            p.pw_name for p in pwd.getpwall() if p.pw_gid == you.pw_gid and p.pw_uid != you.pw_uid
        }
        return you.pw_gid if group.gr_name == you.pw_name and not others else None

    def name(self, user: int) -> str:
        """The user's name, for people; the number as text if it has none."""
        import pwd

        try:
            return pwd.getpwuid(user).pw_name
        except KeyError:
            return str(user)


@dataclass(frozen=True, slots=True)
class Trust:
    """Whom to trust: the directories named by `--trust-dir`, and the people of this machine."""

    directories: tuple[Path, ...] = ()
    people: People = field(default_factory=SystemPeople)

    def check(self, path: Path) -> None:
        """Raise UntrustedPath if others could have written `path`, links followed (spec K5).

        For a file, the directories that hold it and its link count too: who may write there
        may replace it.
        """
        resolved = Path(os.path.realpath(path))
        if self._named(resolved) or self._named(path.absolute().parent / path.name):
            return
        self._check_one(resolved, path)
        if not os.path.isdir(resolved):
            self._check_one(resolved.parent, path)
        if path.absolute().parent != resolved.parent:
            self._check_one(Path(os.path.realpath(path.absolute().parent)), path)

    def check_database(self, path: Path) -> None:
        """Raise UntrustedPath if others could have written the database at `path` (spec K5).

        Its WAL, its shared memory and its lock file count too, and the directory where anyone
        may put other files in their place; in a sticky one (/tmp) nobody can.
        """
        resolved = Path(os.path.realpath(path))
        if self._named(resolved):
            return
        for suffix in ("", "-wal", "-shm", "-journal", "-lock"):
            self._check_one(Path(f"{resolved}{suffix}"), path)
        self._check_one(resolved.parent, path, sticky=True)

    def _named(self, path: Path) -> bool:
        return any(path.is_relative_to(os.path.realpath(named)) for named in self.directories)

    def _check_one(self, path: Path, asked: Path, *, sticky: bool = False) -> None:
        try:
            found = path.stat()
        except OSError:
            return  # What cannot be looked at cannot be opened: that says it, in its own words.
        reason = self.fault(found)
        ours = found.st_uid in (0, self.people.user())
        if reason is None or (sticky and ours and found.st_mode & stat.S_ISVTX):
            return
        trusted = path if stat.S_ISDIR(found.st_mode) else path.parent
        remedy = [f"chmod go-w {path}"] if ours else []
        raise UntrustedPath(
            f"{path} {reason}",
            why=(f"Whoever can write it decides what runs or is read from {asked}.",),
            remedy=(*remedy, f"--trust-dir {trusted}"),
        )

    def fault(self, found: os.stat_result) -> str | None:
        """Why what was found is not safe, as the end of a sentence; None if it is."""
        you = self.people.user()
        if found.st_uid not in (0, you):
            return f"belongs to {self.people.name(found.st_uid)}, not to you or root"
        mode = stat.S_IMODE(found.st_mode)
        if mode & stat.S_IWOTH:
            return f"can be written by everybody (mode {mode:04o})"
        if mode & stat.S_IWGRP and not self._group_is_safe(found.st_gid):
            return f"can be written by its group (mode {mode:04o})"
        return None

    def _group_is_safe(self, group: int) -> bool:
        return group == self.people.private_group()


def check(path: Path, *, trusted: Sequence[Path] = ()) -> None:
    """Raise UntrustedPath if `path` is not safe and not in a directory of `trusted`."""
    Trust(tuple(trusted)).check(path)
