"""Which database, workflows and settings a command works with (spec K8)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from yieldstar_cli.errors import UsageError
from yieldstar_cli.project import Settings, find_project


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a project `shop` in it, which has `workflows/` and a sub-folder."""
    for part in ("home/shop/workflows", "home/shop/deep/er", "home/empty"):
        (tmp_path / part).mkdir(parents=True, exist_ok=True)
    return tmp_path / "home"


def find(start: Path, home: Path, env: dict[str, str] | None = None, **named: str):
    return find_project(start, env=env or {}, home=home, **named)


@pytest.mark.parametrize("marker", ["ys.toml", "ys.db", "workflows"])
def test_a_command_works_from_a_sub_folder(home: Path, marker: str):
    """spec K8: the nearest directory upwards with `ys.toml`, `workflows/` or `ys.db`."""
    (home / "shop" / "workflows").rmdir()
    made = home / "shop" / marker
    made.mkdir() if marker == "workflows" else made.touch()

    project = find(home / "shop" / "deep" / "er", home)

    assert project.root == home / "shop"
    assert project.db == home / "shop" / "ys.db"


def test_the_walk_looks_at_home_and_no_further(home: Path, tmp_path: Path):
    """spec K8: it stops at your home."""
    (tmp_path / "ys.db").touch()

    assert find(home / "empty", home).root == home / "empty"
    (home / "ys.toml").touch()
    assert find(home / "empty", home).root == home


def test_the_walk_stops_where_the_owner_changes(home: Path, monkeypatch: pytest.MonkeyPatch):
    """spec K8: what stands in another's directory is not yours to run."""
    real = Path.stat

    def owned(self: Path, **kw: bool):
        found = real(self, **kw)
        if self != home / "shop":
            return found
        values = list(found)
        values[4] = 4242
        return type(found)(values)

    monkeypatch.setattr(Path, "stat", owned)

    assert find(home / "shop" / "deep", home).root == home / "shop" / "deep"


def test_the_walk_stops_at_a_mount_point(home: Path, monkeypatch: pytest.MonkeyPatch):
    """spec K8."""
    monkeypatch.setattr(Path, "is_mount", lambda self: self == home / "shop" / "deep")

    assert find(home / "shop" / "deep" / "er", home).root == home / "shop" / "deep" / "er"


def test_the_database_is_named_by_option_then_environment_then_file_then_default(home: Path):
    """spec K8: `--db` > `$YS_DB` > `ys.toml` > `ys.db`; each relative to where it was said."""
    start = home / "shop" / "deep"
    (home / "shop" / "ys.toml").write_text('db = "data/x.db"\n')

    by_file = find(start, home)
    by_env = find(start, home, {"YS_DB": "e.db"})
    by_option = find(start, home, {"YS_DB": "e.db"}, db="../o.db")

    assert (by_file.db, by_file.db_origin) == (home / "shop/data/x.db", "ys.toml")
    assert (by_env.db, by_env.db_origin) == (start / "e.db", "$YS_DB")
    assert (by_option.db, by_option.db_origin) == (home / "shop/o.db", "--db")


def test_workflows_are_found_whatever_the_database_is(home: Path):
    """spec K8: `--workflows` > `$YS_WORKFLOWS` > `ys.toml` > `workflows/` there."""
    start = home / "shop" / "deep"

    assert find(start, home, db="/elsewhere/x.db").workflows == home / "shop/workflows"
    assert find(start, home, {"YS_WORKFLOWS": "e"}).workflows == start / "e"
    assert find(start, home, {"YS_WORKFLOWS": "e"}, workflows="o").workflows == start / "o"
    (home / "shop" / "ys.toml").write_text('workflows = "flows"\n')
    assert find(start, home).workflows == home / "shop/flows"


def test_without_a_workflow_directory_there_is_none(home: Path):
    """spec K4: then names are admitted unchecked."""
    (home / "empty" / "ys.db").touch()

    assert find(home / "empty", home).workflows is None


def test_an_empty_variable_is_no_variable(home: Path):
    """spec K8."""
    assert find(home / "shop", home, {"YS_DB": "", "YS_WORKFLOWS": ""}).db_origin == "default"


def test_a_database_may_be_made_in_a_project_or_where_it_is_named(home: Path):
    """spec K8: elsewhere it is `NO_DATABASE`."""
    empty = home / "empty"

    assert find(home / "shop", home).may_create
    assert not find(empty, home).may_create
    assert find(empty, home, db="x.db").may_create
    assert find(empty, home, {"YS_DB": "x.db"}).may_create
    assert not find(empty, home, db="nowhere/x.db").may_create
    (empty / "ys.toml").touch()
    assert find(empty, home).may_create


def test_ys_toml_sets_every_key_of_the_contract(home: Path):
    """spec K8."""
    (home / "shop" / "ys.toml").write_text(
        'db = "a.db"\nworkflows = "w"\ndurability = "normal"\nmax_value = 1000\n'
        'residents = 0\njobs = 8\nlease = "1m"\ngrace = "0s"\nmessage_ttl = "2d"\n'
    )

    settings = find(home / "shop", home).settings

    assert settings == Settings(
        durability="normal",
        max_value=1000,
        residents=0,
        jobs=8,
        lease_ms=60_000,
        grace_ms=0,
        message_ttl_ms=172_800_000,
        origins=settings.origins,
    )
    assert set(settings.origins.values()) == {str(home / "shop" / "ys.toml")}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("durabilty = 'full'", ["unknown key 'durabilty'"]),
        ("trust_dir = '/tmp'", ["unknown key 'trust_dir'"]),
        ("durability = 'fast'", ["durability", '"full" or "normal"', "'fast'"]),
        ("db = 3", ["db", "path", "3"]),
        ("db = ''", ["db", "path"]),
        ("jobs = 0", ["jobs", "1 or more"]),
        ("jobs = true", ["jobs", "whole number", "True"]),
        ("max_value = '16MiB'", ["max_value", "whole number"]),
        ("lease = 30", ["lease", "duration"]),
        ("lease = '30'", ["lease", "30s"]),
        ("lease = '-1s'", ["lease", "longer than nothing"]),
        ("grace = 'soon'", ["grace", "10m"]),
        ("lease = ", ["not TOML", "line 1"]),
    ],
)
def test_a_wrong_line_in_ys_toml_is_a_usage_error(home: Path, line: str, words: list[str]):
    """spec K8: an unknown key or wrong type is exit 2; trust is never read from the file."""
    (home / "shop" / "ys.toml").write_text(line + "\n")

    with pytest.raises(UsageError) as refused:
        find(home / "shop", home)

    assert refused.value.exit_code == 2
    for word in ["ys.toml", *words]:
        assert word in refused.value.message


def test_a_directory_that_is_not_there_is_a_usage_error(home: Path, monkeypatch):
    """case 34; spec V3: also the current one, when it was removed."""
    gone = home / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    for start in (home / "nowhere", home / "nul\0", None):
        with pytest.raises(UsageError):
            find_project(start, env={}, home=home)


def test_a_path_that_is_none_is_a_usage_error(home: Path):
    """spec V3."""
    for named in ({"db": "a\0b"}, {"workflows": "a\0b"}):
        with pytest.raises(UsageError, match="is not a path"):
            find(home / "shop", home, **named)


def test_a_home_in_ys_toml_is_meant_as_in_a_shell(home: Path, monkeypatch):
    """spec K8."""
    monkeypatch.setenv("HOME", str(home))
    (home / "shop" / "ys.toml").write_text('db = "~/x.db"\n')

    assert find(home / "shop", home).db == home / "x.db"


def test_the_nearest_key_is_offered(home: Path):
    """spec K8."""
    (home / "shop" / "ys.toml").write_text("durabilty = 'full'\n")

    with pytest.raises(UsageError) as refused:
        find(home / "shop", home)

    assert refused.value.remedy == ("durability = …",)


def test_bytes_that_are_no_text_in_ys_toml_are_a_usage_error(home: Path):
    """spec V3: no traceback for what a user can cause."""
    (home / "shop" / "ys.toml").write_bytes(b"db = \xff\n")

    with pytest.raises(UsageError, match="not TOML"):
        find(home / "shop", home)


def test_finding_the_project_loads_nothing_heavy(home: Path):
    """design.md: one-shot commands import neither asyncio nor rich, and TOML only to read it."""
    script = (
        "import sys, pathlib\n"
        "from yieldstar_cli.project import find_project\n"
        f"find_project(pathlib.Path({str(home / 'shop')!r}), env={{}})\n"
        "print(sorted({'asyncio', 'rich', 'typer', 'tomllib', 'msgspec'} & set(sys.modules)))\n"
    )

    ran = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[1],
    )

    assert ran.stdout == "[]\n"
