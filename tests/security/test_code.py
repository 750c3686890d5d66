"""No command that reads or steers runs code, and no name becomes a path or an import (K4)."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Shop
from tests.security.scene import Scene

PACKAGE = Path(__file__).parents[2] / "yieldstar_cli"
TRAP = "import pathlib\npathlib.Path(__file__).with_suffix('.ran').touch()\n"
#: Modules that the program itself imports, and files that some programs run unasked.
BAIT = ("json", "apsw", "typer", "msgspec", "sitecustomize", "usercustomize", "conftest", "ys")
STEERING = (
    ("wake", "order-46"),
    ("send", "order-46", "go", "a=1"),
    ("pause", "order-44"),
    ("pause", "order-49"),
    ("resume", "order-49"),
    ("cancel", "order-46"),
    ("store", "delete", "Stock", "widget", "--yes"),
    ("wait", "order-44"),
)


def ran(shop: Shop) -> list[str]:
    return [str(path) for path in shop.root.rglob("*.ran")]


def test_a_reading_or_steering_command_loads_no_workflow_module(scene: Scene) -> None:
    """security S1; spec K4: a module of the very name that the database holds lies in wait."""
    scene.plant()
    for name in ("charge_order", "square", "x"):
        scene.shop.module(f"{name}.py", TRAP)
        (scene.shop.root / f"{name}.py").write_text(TRAP)

    lines = [line for line in scene.lines(some=True) if line[0] != "workflows"]
    said = [scene.shop.ys(*line) for line in (*lines, *STEERING)]

    assert {one.code for one in said} <= {0, 2, 6, 7, 8, 9}
    assert ran(scene.shop) == []
    scene.shop.ys("workflows")
    assert any("charge_order" in path for path in ran(scene.shop))


@pytest.mark.parametrize(
    "name", ["../evil", "/tmp/evil", "os.system", "a.b", "__main__", "evil\x00", "evil/..", "%2e"]
)
def test_a_name_becomes_neither_a_path_nor_an_import(scene: Scene, name: str) -> None:
    """security S2: from the command line it is refused; from a record it is only looked up."""
    (scene.shop.root / "evil.py").write_text(TRAP)
    scene.plant((NAME, lambda _: name))

    triggered = [] if "\x00" in name else [scene.shop.ys("trigger", name, "--id", "a")]
    scene.shop.ys("show", "order-48")
    worked = scene.shop.process("worker", "--until-idle")

    assert [said.code for said in triggered] in ([], [4], [5])
    assert worked.code == 0
    assert ran(scene.shop) == []
    assert scene.shop.ys("show", "order-48", "--json").json["status"] == "admitted"


NAME = """
UPDATE executions SET workflow_id = planted(0), poisoned_at = NULL, deaths = 0, due_at = 0
 WHERE execution_id = 'order-48'
"""


def test_nothing_in_the_current_directory_is_imported_or_run(scene: Scene) -> None:
    """security S5, S26: neither modules beside you, nor what other programs take for settings."""
    scene.plant()
    for name in BAIT:
        (scene.shop.root / f"{name}.py").write_text(TRAP)
    (scene.shop.root / ".env").write_text("YS_DB=/nowhere/else.db\n")
    script = Path(sys.executable).with_name("ys")

    for words in (["list"], ["doctor", "--json"], ["show", "order-42"], ["worker", "--until-idle"]):
        done = subprocess.run(
            [str(script), *words], cwd=scene.shop.root, capture_output=True, check=False, timeout=60
        )
        assert done.returncode in (0, 7), done

    assert ran(scene.shop) == []


def test_a_plugin_that_offers_itself_is_not_loaded(shop: Shop, tmp_path: Path) -> None:
    """security S6: an installed distribution with entry points of any name runs nothing."""
    info = tmp_path / "site" / "evil-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    groups = ("yieldstar_cli", "yieldstar_cli.workflows", "ys.plugins", "ys")
    (info / "entry_points.txt").write_text(
        "".join(f"[{group}]\nevil = evil_plugin:run\n" for group in groups)
    )
    (tmp_path / "site" / "evil_plugin.py").write_text(TRAP)
    shop.admit()
    shop.close()

    for words in (("list",), ("worker", "--until-idle")):
        shop.process(*words, env={"PYTHONPATH": os.pathsep.join((str(tmp_path / "site"),))})

    assert ran(shop) == []


# --- what the source never uses ------------------------------------------------------------------


def calls() -> Iterator[tuple[str, ast.Call, str]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                yield path.name, node, ast.unparse(node.func)


def imported() -> set[str]:
    found: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found.add((node.module or "").partition(".")[0])
    return found


def test_no_pattern_comes_from_data() -> None:
    """security S18: nobody's text is a regular expression or a pattern of file names."""
    functions = ("compile", "match", "fullmatch", "search", "sub", "split", "findall", "finditer")
    patterns = [
        (name, ast.unparse(call.args[0]), call.args[0])
        for name, call, called in calls()
        if called in {f"re.{function}" for function in functions}
    ]

    assert len(patterns) > 10
    assert [
        (name, text) for name, text, node in patterns if not isinstance(node, ast.Constant)
    ] == []
    assert not imported() & {"fnmatch", "glob"}


def test_nothing_is_unpacked() -> None:
    """security S15, S17: no archive and no compressed value is opened, so none is a bomb."""
    assert "msgspec" in imported()
    assert not imported() & {
        "zlib", "gzip", "bz2", "lzma", "zipfile", "tarfile", "shutil", "pickle", "marshal",
        "shelve", "yaml", "dill", "cloudpickle", "jsonpickle",
    }  # fmt: skip


def test_no_program_is_run_through_a_shell() -> None:
    """security S2: no name reaches a shell."""
    assert [
        (name, called)
        for name, call, called in calls()
        if called in ("os.system", "os.popen") or any(word.arg == "shell" for word in call.keywords)
    ] == []
