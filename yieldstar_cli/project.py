"""Finds the project: which database, which workflow directory, which settings (spec K8)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from yieldstar_cli.errors import UsageError
from yieldstar_cli.json_text import MAX_VALUE
from yieldstar_cli.nouns import dataclass, field

CONFIG = "ys.toml"
DATABASE = "ys.db"
WORKFLOWS = "workflows"

Durability = Literal["full", "normal"]


@dataclass(frozen=True, slots=True)
class Settings:
    """What `ys.toml` may set, with the defaults of what it does not. Spans are milliseconds."""

    durability: Durability = "full"
    #: The largest value that is stored, in bytes (spec V2).
    max_value: int = MAX_VALUE
    #: How many suspended coroutines a worker keeps in memory (spec R6).
    residents: int = 10_000
    #: Sync steps at once; None is as many as there are cores, at least 4 (spec K1).
    jobs: int | None = None
    lease_ms: int = 30_000
    grace_ms: int = 10_000
    message_ttl_ms: int = 86_400_000
    #: The keys that a file set, and that file.
    origins: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Project:
    """Where a command or a program works."""

    #: The directory that was found, or the one looked from if there is none.
    root: Path
    db: Path
    #: Who named the database: "--db", "$YS_DB", "ys.toml" or "default".
    db_origin: str
    #: The workflow directory; None if none is named and there is no `workflows/`.
    workflows: Path | None
    workflows_origin: str
    settings: Settings
    #: The `ys.toml` that was read, if any.
    config: Path | None
    #: Whether a command that writes may create the database (spec K8).
    may_create: bool


def find_project(
    start: Path | None = None,
    *,
    env: Mapping[str, str] | None = None,
    home: Path | None = None,
    db: str | Path | None = None,
    workflows: str | Path | None = None,
) -> Project:
    """The project seen from `start` (default: the current directory).

    `db` and `workflows` are what the caller named; such paths, and those in the environment, are
    relative to `start`, those in `ys.toml` to that file. Raises UsageError for a `ys.toml` that
    cannot be used. Source: spec K8.
    """
    env = os.environ if env is None else env
    start = _directory(start)
    found = _nearest(start, _home(env) if home is None else Path(os.path.realpath(home)))
    root = found or start
    config = root / CONFIG if os.path.isfile(root / CONFIG) else None
    written: dict[str, Any] = _read(config) if config is not None else {}
    settings = _settings(written, config) if config is not None else Settings()
    db_path, db_origin = _chosen(
        ("--db", db, start),
        ("$YS_DB", env.get("YS_DB"), start),
        (CONFIG, written.get("db"), root),
        default=root / DATABASE,
    )
    workflows_path, workflows_origin = _chosen(
        ("--workflows", workflows, start),
        ("$YS_WORKFLOWS", env.get("YS_WORKFLOWS"), start),
        (CONFIG, written.get("workflows"), root),
        default=root / WORKFLOWS,
    )
    found_there = workflows_origin != "default" or os.path.isdir(workflows_path)
    return Project(
        root=root,
        db=utf8_path(db_path),
        db_origin=db_origin,
        workflows=utf8_path(workflows_path) if found_there else None,
        workflows_origin=workflows_origin,
        settings=settings,
        config=config,
        may_create=_may_create(db_path, db_origin, root),
    )


def _may_create(db: Path, db_origin: str, root: Path) -> bool:
    if not os.path.isdir(db.parent):
        return False
    project = os.path.isfile(root / CONFIG) or os.path.isdir(root / WORKFLOWS)
    return project or db_origin in ("--db", "$YS_DB")


def _home(env: Mapping[str, str]) -> Path | None:
    home = env.get("HOME")
    return Path(os.path.realpath(home)) if home else None


def _nearest(start: Path, home: Path | None) -> Path | None:
    """The nearest directory upwards that looks like a project.

    The walk ends with your home, and before a directory of another owner or file system: what
    stands there is not yours to run.
    """
    here = start
    while True:
        if _marked(here):
            return here
        above = here.parent
        if here in (home, above):
            return None
        try:
            this, that = here.stat(), above.stat()
        except OSError:
            return None
        if this.st_uid != that.st_uid or this.st_dev != that.st_dev or here.is_mount():
            return None
        here = above


def _marked(here: Path) -> bool:
    # os.path, since what may not be looked into has no project for us, and is no error.
    return (
        os.path.isfile(here / CONFIG)
        or os.path.isdir(here / WORKFLOWS)
        or os.path.isfile(here / DATABASE)
    )


def _directory(start: Path | None) -> Path:
    try:
        found = Path(os.path.realpath(os.getcwd() if start is None else start))
    except (OSError, ValueError) as error:
        where = "the current directory" if start is None else repr(str(start))
        raise UsageError(f"{where} cannot be used: {error}") from None
    if not os.path.isdir(found):
        raise UsageError(f"{found} is not a directory", remedy=("-C DIR",))
    return found


def _chosen(*offers: tuple[str, str | Path | None, Path], default: Path) -> tuple[Path, str]:
    for origin, value, base in offers:
        if value is not None and str(value):
            if "\0" in str(value):
                raise UsageError(f"{origin}: {str(value)!r} is not a path")
            return Path(os.path.normpath(base / os.path.expanduser(value))), origin
    return default, "default"


def utf8_path(path: Path) -> Path:
    """`path`, if it is UTF-8: the database names it, and SQLite opens no other."""
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError:
        raise UsageError(
            f"the path {str(path)!r} is not UTF-8",
            why=("SQLite opens no such file. Nothing was done.",),
            remedy=("rename the directory", "--db PATH"),
        ) from None
    return path


# --- ys.toml ---------------------------------------------------------------------------------


def _read(config: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(config.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{config} is not TOML: {error}") from None
    except OSError as error:
        raise UsageError(f"{config} cannot be read: {error.strerror}") from None


def _settings(written: Mapping[str, Any], config: Path) -> Settings:
    values: dict[str, Any] = {}
    for key, value in written.items():
        reader = _KEYS.get(key)
        if reader is None:
            raise _unknown(key, config)
        try:
            name, read = reader(key, value)
        except ValueError as error:
            raise UsageError(f"{config}: {key}: {error}", why=("Nothing was done.",)) from None
        values[name] = read
    origins = {key: str(config) for key in written}
    paths = ("db", "workflows")
    return Settings(**{k: v for k, v in values.items() if k not in paths}, origins=origins)


def _unknown(key: str, config: Path) -> UsageError:
    import difflib

    near = difflib.get_close_matches(key, _KEYS, n=1, cutoff=0.5)
    return UsageError(
        f"{config}: unknown key {key!r}",
        why=(f"It may hold {', '.join(_KEYS)}.",),
        remedy=(f"{near[0]} = …",) if near else (),
    )


def _path(key: str, value: object) -> tuple[str, object]:
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError(f'expected a path such as "data/ys.db", got {_shown(value)}')
    return key, value


def _durability(key: str, value: object) -> tuple[str, object]:
    if value not in ("full", "normal"):
        raise ValueError(f'expected "full" or "normal", got {_shown(value)}')
    return key, value


def _count(key: str, value: object) -> tuple[str, object]:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"expected a whole number, got {_shown(value)}")
    least = 0 if key == "residents" else 1
    if not least <= value < 2**31:
        wanted = f"{least} or more" if value < least else f"at most {2**31 - 1}"
        raise ValueError(f"expected {wanted}, got {value}")
    return key, value


def _span(key: str, value: object) -> tuple[str, object]:
    from yieldstar_cli import clock

    if not isinstance(value, str):
        raise ValueError(f'expected a duration such as "30s", got {_shown(value)}')
    span = clock.span_ms(value, what="a duration")
    if span <= 0 and key != "grace":
        raise ValueError(f"must be longer than nothing, not {value!r}")
    if span < 0:
        raise ValueError(f"must not be negative: {value!r}")
    return f"{key}_ms", span


def _shown(value: object) -> str:
    return repr(value) if len(repr(value)) <= 60 else type(value).__name__


_KEYS = {
    "db": _path,
    "workflows": _path,
    "durability": _durability,
    "max_value": _count,
    "residents": _count,
    "jobs": _count,
    "lease": _span,
    "grace": _span,
    "message_ttl": _span,
}
