"""What the documents say is so: their commands print what they show, their programs run.

Every fenced block of README.md is used: `console` blocks in a terminal of 80 columns, `sh` and
`crontab` lines by the shell, `python` blocks as the files that their first lines name.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pexpect
import pyte
import pytest

from scripts import cases
from yieldstar_cli import Step, Store
from yieldstar_cli.cli import exits
from yieldstar_cli.cli.app import build
from yieldstar_cli.cli.options import global_options
from yieldstar_cli.cli.verbs import NAMES
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.engine.authoring import Workflow
from yieldstar_cli.model import Suspended
from yieldstar_cli.storage.sqlite.storage import SqliteStorage
from yieldstar_cli.testing import Bench, run

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
DOCUMENTS = (
    *("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"),
    *("docs/commands.md", "docs/waiting.md", "docs/stores.md", "docs/effects.md"),
    "docs/upkeep.md",
    "docs/reliability.md",
    "docs/security.md",
    "tests/README.md",
)
COLUMNS = 80

#: Lines that make the place in which the others run; `test_demo` and `make test` run them.
SETTING_UP = {"make demo", ". .venv/bin/activate", "make test"}


@dataclass(frozen=True)
class Block:
    """One fenced block: the heading above it, its language, its lines."""

    section: str
    language: str
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """The block as a file."""
        return "\n".join(self.lines) + "\n"


def blocks(path: Path) -> list[Block]:
    """Every fenced block of a document, in order."""
    found: list[Block] = []
    section, language, lines = "", None, []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            if language is not None:
                found.append(Block(section, language, tuple(lines)))
                language = None
            else:
                language, lines = line[3:].strip(), []
        elif language is not None:
            lines.append(line)
        elif line.startswith("## "):
            section = line[3:]
    assert language is None, f"{path}: a block is not closed"
    return found


BLOCKS = blocks(README)
SECTIONS = list(dict.fromkeys(block.section for block in BLOCKS))


# --- a terminal ---------------------------------------------------------------------------------


def forenoon() -> str:
    """A zone in which it is about ten now: what wakes in an hour or two wakes on the same day."""
    hours = 10 - datetime.now(UTC).hour
    return f"PAGE{-hours:+d}"


class Place:
    """A project with the examples, and a terminal of 80 columns in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.cwd = root
        shutil.copytree(
            ROOT / "workflows", root / "workflows", ignore=shutil.ignore_patterns("__pycache__")
        )
        self.env = {
            "HOME": str(root.parent),
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
            "TERM": "xterm-256color",
            "TZ": forenoon(),
        }

    def write(self, block: Block) -> Path:
        """The block as the file that its first line names."""
        path = self.root / block.lines[0].removeprefix("# ")
        path.parent.mkdir(exist_ok=True)
        path.write_text(block.text, encoding="utf-8")
        return path

    def type(self, command: str, expected: list[str]) -> tuple[list[str], int]:
        """What a person sees after `command`, and its status; Ctrl-C where `expected` has it."""
        if command.startswith("cd "):
            self.cwd = self.cwd / command[3:]
            return [], 0
        # Wider than the terminal, so that a long path or name wraps no line.
        screen = pyte.Screen(3 * COLUMNS, 200)
        stream = pyte.Stream(screen)
        child = pexpect.spawn(
            "/bin/sh",
            # Without exec the shell would die of the Ctrl-C.
            ["-c", f"exec {command}" if "^C" in expected else command],
            cwd=str(self.cwd),
            env=self.env,
            dimensions=(200, COLUMNS),
            encoding="utf-8",
            timeout=60,
        )
        last = normal(expected)[-1] if "^C" in expected else None
        while True:
            try:
                stream.feed(child.read_nonblocking(4096, timeout=60))
            except pexpect.EOF:
                break
            if last in normal(shown(screen)):
                last = None
                child.sendintr()
        child.wait()
        child.close()
        return shown(screen), child.exitstatus

    def shell(self, command: str) -> subprocess.CompletedProcess[str]:
        """What a program or a crontab gets of `command`."""
        return subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=self.cwd,
            env=self.env,
            capture_output=True,
            encoding="utf-8",
            stdin=subprocess.DEVNULL,
            timeout=60,
        )


def shown(screen: pyte.Screen) -> list[str]:
    """The lines of the screen, without the empty ones at its end."""
    lines = [line.rstrip() for line in screen.display]
    while lines and not lines[-1]:
        lines.pop()
    return lines


_SPAN = r"\d+d\d\dh|\d+h\d\dm|\d+m\d\ds|\d+(\.\d+)? ?(ms|s)\b"


def normal(lines: list[str]) -> list[str]:
    """Lines without what differs each time: moments, spans, names of workers, bars, paths."""
    text = "\n".join(lines)
    for pattern, word in (
        (r"\d\d:\d\d:\d\d(\.\d+)?", "TIME"),
        (_SPAN, "SPAN"),
        (r"\d+(\.\d+)? [kM]B\b", "SIZE"),
        (r"\S+/ys\.db", "DATABASE"),
        (r"(worker|running) [\w.-]+:\d+", r"\1 NAME"),
        (r"\d+ workflows?, \d+ slots?", "N workflows"),
        (r"[━┄▏▎▍▌▋▊▉█▕]+", ""),
        (r"[ ]+", " "),
        (r" +\n", "\n"),
        # The status line is gone by the end; a Ctrl-C is echoed where the cursor stood.
        (r"(?m)^──.*$", ""),
        (r"(?m)^\^C", ""),
    ):
        text = re.sub(pattern, word, text)
    return [line.strip() for line in text.splitlines() if line.strip()]


def typed(block: Block) -> Iterator[tuple[str, list[str]]]:
    """Each command of a console block with what it prints."""
    command, printed = "", []
    for line in block.lines:
        if line.startswith("$ "):
            if command:
                yield command, printed
            command, printed = line[2:], []
        else:
            printed.append(line)
    yield command, printed


# --- README.md ------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=SECTIONS, ids=lambda name: name or "first screen")
def told(request: pytest.FixtureRequest) -> list[str]:
    """What a section says that is not so."""
    with tempfile.TemporaryDirectory(prefix="ys-") as home:
        place = Place(Path(home) / "shop")
        used = [use(block, place) for block in BLOCKS if block.section == request.param]
    return [wrong for found in used for wrong in found]


def use(block: Block, place: Place) -> list[str]:
    """Use a block as a reader would, and say what was not as it says."""
    match block.language:
        case "python":
            return use_python(block, place)
        case "console":
            return [wrong for pair in typed(block) for wrong in use_console(*pair, place)]
        case "sh":
            return [wrong for line in block.lines for wrong in use_shell(line, place)]
        case "crontab":
            return [wrong for line in block.lines for wrong in use_crontab(line, place)]
        case "toml":
            (place.root / "ys.toml").write_text(block.text, encoding="utf-8")
            ran = place.shell("ys workflows")
            return [] if ran.returncode == 0 else [ran.stderr]
        case language:
            return [f"nothing says how a block of {language!r} is tested"]


def use_python(block: Block, place: Place) -> list[str]:
    first = block.lines[0]
    if first.startswith("# from "):
        source = (ROOT / first.removeprefix("# from ")).read_text(encoding="utf-8")
        parts = "\n".join(block.lines[1:]).split("\n\n\n")
        return [f"not in {first[7:]}: {part}" for part in parts if part.strip() not in source]
    assert re.fullmatch(r"# [\w/]+\.py", first), f"a python block names no file: {first}"
    place.write(block)
    return []


def use_console(command: str, expected: list[str], place: Place) -> list[str]:
    printed, status = place.type(command, expected)
    wrong = []
    if normal(printed) != normal(expected):
        wrong.append(
            "\n".join(("", f"$ {command}", *normal(printed), "but says", *normal(expected)))
        )
    refused = bool(expected) and expected[0].startswith("✗")
    if (status != 0) != refused:
        wrong.append(f"$ {command}: exit {status}")
    return wrong


def use_shell(line: str, place: Place) -> list[str]:
    command = line.partition("  #")[0].strip()
    if command in SETTING_UP:
        return []
    ran = place.shell(command)
    return [] if ran.returncode == 0 else [f"$ {command}: exit {ran.returncode}: {ran.stderr}"]


def use_crontab(line: str, place: Place) -> list[str]:
    """Under cron: by sh, with `%` written `\\%`; silent unless something failed."""
    match = re.fullmatch(r"((?:[\d*/,-]+\s+){5})(.+)", line)
    assert match is not None, line
    command = match.group(2).replace(r"\%", "%")
    command = command.replace("/srv/shop", str(place.root)).replace("/usr/local/bin/ys", "ys")
    ran = place.shell(command.replace("--for 55s", "--for 1s"))
    said = f"{ran.stdout}{ran.stderr}"
    return [] if (ran.returncode, said) == (0, "") else [f"{command}: {ran.returncode} {said}"]


def test_what_the_readme_shows_is_what_happens(told: list[str]) -> None:
    """Each section in a project of its own, block after block, as a reader would go."""
    assert told == []


def test_the_readme_names_the_three_calls_word_for_word() -> None:
    """The main job, as it is promised."""
    commands = [
        command
        for block in BLOCKS[:3]
        if block.language == "console"
        for command, _ in typed(block)
    ]

    assert commands == [
        "ys trigger charge-order --id order-42 -p order=42",
        "ys worker",
        "ys show order-42",
    ]


#: Every workflow that README.md defines: its params, and what it gives.
RESULTS: Mapping[str, tuple[Mapping[str, object], object]] = {
    "remind": ({"to": "ann", "text": "drink", "days": 3}, 3),
    "publish": ({"article": "news"}, "published under"),
    "first_quote": ({"item": "chair"}, "509 from Near & Co"),
    "all_quotes": ({"item": "pen", "suppliers": ["a", "bcd"]}, [301, 303]),
    "patient_quote": ({"item": "pen", "supplier": "a"}, 301),
    "careful_quote": ({"item": "pen"}, [309, 307]),
    "backup_list": ({}, 2),
    "charge_or_cancel": ({"order": 7}, "charged"),
    "rent_van": ({"days": 2}, "van-2"),
    "book_seat": ({"show": "faust"}, "A1"),
}

#: The same for the page on waiting.
WAITED: Mapping[str, tuple[Mapping[str, object], object]] = {
    "watch_oven": ({"most": 6}, "done"),
    "collect_votes": ({}, {"yes": 1, "no": 1}),
    "garage": ({"car": "van"}, "van runs again"),
    "tow_car": ({"car": "van", "owner": "ann"}, None),
    "own_car": ({"car": "wreck"}, "sold for scrap: beyond repair"),
    "count_visitors": ({}, {"visitors": 10}),
}

#: The same for the page on stores.
STORED: Mapping[str, tuple[Mapping[str, object], object]] = {
    "check": ({"version": "1.0", "name": "size"}, None),
    "release": ({"version": "1.0"}, "1.0 is out"),
    "edit_page": ({"title": "home", "wish": "Be kind"}, 1),
}

#: What is sent to them before they begin.
SENT: Mapping[str, Mapping[str, object]] = {
    "rent_van": {"back": None},
    "watch_oven": {"bell": None},
    "collect_votes": {
        "votes": [
            {"by": "ann", "choice": "no"},
            {"by": "bob", "choice": "no"},
            {"by": "eve", "choice": "perhaps"},
            {"by": "ann", "choice": "yes"},
        ]
    },
    "count_visitors": {"doors": [1, 2, 3, 4]},
}


def written_workflows(folder: Path, written: list[Block]) -> dict[str, Workflow[..., Any]]:
    """The workflows of a document's modules, by function name."""
    found = {}
    for block in written:
        if block.language == "python" and block.lines[0].startswith("# workflows/"):
            path = folder / Path(block.lines[0]).name
            path.write_text(block.text, encoding="utf-8")
            module = load(path)
            found |= {
                k: v
                for k, v in vars(module).items()
                if isinstance(v, Workflow) and v.fn.__module__ == module.__name__
            }
    return found


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"readme_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_every_workflow_of_the_readme_runs_to_its_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In skipped time."""
    # As in a project: modules may import each other.
    example = load(ROOT / "workflows" / "charge_order.py")
    monkeypatch.setitem(sys.modules, "charge_order", example)
    workflows = written_workflows(tmp_path, BLOCKS)
    assert set(workflows) == set(RESULTS)
    listed = tmp_path / "listed"
    listed.mkdir()
    (listed / "a").touch()
    (listed / "b").touch()

    for name, (params, result) in RESULTS.items():
        if name == "backup_list":
            params = {"source": listed, "target": tmp_path / "list"}
        done = run(workflows[name], params, messages=SENT.get(name))

        if isinstance(result, str):
            assert str(done.result).startswith(result)
        else:
            assert done.result == result, name
    assert (tmp_path / "list").read_text() == "a\nb"


@pytest.mark.parametrize(
    ("page", "results"), [("waiting", WAITED), ("stores", STORED)], ids=["waiting", "stores"]
)
def test_every_workflow_of_a_page_runs_to_its_result(
    page: str, results: Mapping[str, tuple[Mapping[str, object], object]], tmp_path: Path
) -> None:
    """In skipped time, with what is sent to it and with its children."""
    workflows = written_workflows(tmp_path, blocks(ROOT / "docs" / f"{page}.md"))
    assert set(workflows) == set(results)

    for name, (params, result) in results.items():
        done = run(workflows[name], params, messages=SENT.get(name))

        assert msgspec.to_builtins(done.result) == result, name


@pytest.mark.parametrize("page", ["stores.md", "effects.md", "upkeep.md"])
def test_what_a_page_shows_is_what_happens(page: str) -> None:
    """In one project, block after block."""
    with tempfile.TemporaryDirectory(prefix="ys-") as home:
        place = Place(Path(home) / "shop")
        used = [use(block, place) for block in blocks(ROOT / "docs" / page)]

    assert [wrong for found in used for wrong in found] == []


def test_a_slow_edit_that_met_another_is_made_anew(tmp_path: Path) -> None:
    """The page on stores: of two that began with one text, the second begins again."""
    workflows = written_workflows(tmp_path, blocks(ROOT / "docs" / "stores.md"))
    edit = workflows["edit_page"]

    with Bench(edit, duration=lambda call: 1_000) as bench:
        for wish in ("Be kind", "Be brief"):
            params = {"title": "home", "wish": wish}
            bench.admit(edit, params, execution_id=wish.replace(" ", "-"))
        bench.run()

        page = bench.storage.stores.get("Page", "home")
        versions = [bench.result(name).result for name in ("Be-kind", "Be-brief")]
    assert page is not None
    assert msgspec.json.decode(page.state) in (
        {"text": "Be kind. Be brief."},
        {"text": "Be brief. Be kind."},
    )
    assert sorted(versions) == [1, 2]


def test_checks_that_come_too_late_are_named(tmp_path: Path) -> None:
    """The page on stores: the deadline of `when` passes."""
    workflows = written_workflows(tmp_path, blocks(ROOT / "docs" / "stores.md"))
    release = workflows["release"]

    with Bench(release, workflows["check"]) as bench:
        bench.admit(release, {"version": "2.0"}, execution_id="r")
        bench.run_to(bench.clock.now_ms() + 15 * 60_000)
        bench.cancel("r/check#3", now=True)
        bench.run()

        assert bench.result("r").result == "only licences, tests passed"


def test_the_exit_statuses_are_those_of_the_command() -> None:
    """spec V3: the table is a contract, and is written twice."""
    text = README.read_text(encoding="utf-8").partition("## Exit statuses")[2].partition("## ")[0]
    rows = re.findall(r"(?m)^\| (\d+) \| (.+) \|$", text)

    assert [(code, meaning.replace("`", "")) for code, meaning in rows] == list(exits.TABLE)


def test_the_files_are_those_that_a_worker_makes(tmp_path: Path) -> None:
    """spec K5: with mode 0600."""
    text = README.read_text(encoding="utf-8").partition("## Files")[2]
    named = set(re.findall(r"`(ys\.db[\w-]*)`", text.partition("```")[0]))
    place = Place(tmp_path / "project")
    worker = subprocess.Popen(["ys", "worker", "--for", "1s"], cwd=place.root, env=place.env)

    seen: dict[str, int] = {}
    while worker.poll() is None:
        for path in place.root.glob("ys.db*"):
            with contextlib.suppress(FileNotFoundError):
                seen[path.name] = stat.S_IMODE(path.stat().st_mode)

    assert worker.returncode == 0
    # SQLite's journal of the moment in which the file becomes a database in WAL mode.
    assert set(seen) - {"ys.db-journal"} == named
    assert set(seen.values()) == {0o600}


# --- all documents -------------------------------------------------------------------------------


def text_of(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def options_of(verb: str) -> set[str]:
    parameters = [*build(verb).params, *global_options(hidden=True)]
    return {"-h", "--help", *(name for p in parameters for name in (*p.opts, *p.secondary_opts))}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_no_document_names_a_command_or_option_that_is_not_there(document: str) -> None:
    """A reader who types what is written gets what was meant."""
    wrong = []
    # What is listed as waiting for another capability is not there, and says so.
    text = text_of(document).partition("### Cases that wait")[0]
    for verb, rest in re.findall(r"(?:[`$\n(/]| {4})ys ([a-z][a-z-]*)([^`\n|;&]*)", text):
        if verb not in NAMES:
            wrong.append(f"ys {verb}")
        else:
            options = re.findall(r"(?<=\s)--?[a-z][a-z-]*", rest.partition("  #")[0])
            wrong += [f"ys {verb} {option}" for option in set(options) - options_of(verb)]

    assert wrong == []


def test_every_command_is_in_the_readme() -> None:
    """Issue: a test holds that every command is documented."""
    assert [name for name in NAMES if f"`ys {name}" not in text_of("README.md")] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_file_that_a_document_names_is_there(document: str) -> None:
    """Links and paths in code quotes; a path may be short of the package's name."""
    text = text_of(document)
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    paths = re.findall(r"`([\w/]+\.(?:py|sql|toml|md|sh))`", text)
    homes = (ROOT, ROOT / "yieldstar_cli", ROOT / "tests", ROOT / Path(document).parent)

    missing = [
        path
        for path in (*links, *paths)
        if path not in ("ys.toml", "CASES.md", "workflows/hello.py")
        and "NNNN" not in path
        and not any((home / path).exists() for home in homes)
    ]

    assert missing == []


def test_every_operation_that_the_readme_names_is_one() -> None:
    """Only what is built."""
    named = set(re.findall(r"\bstep\.(\w+)", text_of("README.md")))

    assert named - set(dir(Step)) == set()
    assert {name for name in dir(Step) if not name.startswith("_")} - named == set()


@pytest.mark.parametrize("document", ["README.md", "docs/stores.md"])
def test_every_operation_on_a_store_is_named_and_no_other(document: str) -> None:
    """Only what is built, and all of it."""
    named = set(re.findall(r"\bstore\.(\w+)\(", text_of(document)))
    operations = {
        name for name, value in vars(Store).items() if not name.startswith("_") and callable(value)
    }

    assert named == operations


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_target_of_make_that_a_document_names_is_one(document: str) -> None:
    """What `make` is told to do in the documents, it can do."""
    targets = set(re.findall(r"(?m)^([a-z]+):", text_of("Makefile")))
    lines = re.findall(r"(?:`|^)make ((?:[a-z]+ ?)+)(?:`|  +#|$)", text_of(document), re.M)

    assert {name for line in lines for name in line.split()} - targets == set()


def test_the_test_that_contributing_shows_is_a_test(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """CONTRIBUTING.md says how tests look."""
    (shown,) = (b for b in blocks(ROOT / "CONTRIBUTING.md") if b.language == "python")
    module: dict[str, Any] = {"Suspended": Suspended}
    exec(shown.text, module)
    (test,) = (value for name, value in module.items() if name.startswith("test_"))

    test(storage, clock)

    record = storage.executions.get("order-42")
    assert record is not None
    assert record.deliveries == 2


def test_the_table_of_cases_is_current() -> None:
    """`make cases` writes it."""
    text = text_of("tests/README.md")

    assert cases.written(text) == text


def test_a_table_of_cases_finds_spans_lists_and_reports() -> None:
    """What the table is made from."""
    text = "cases 13, 14 and B96; cases 113-115. B21: x; case S3, but no case of this. spec E12"

    assert cases.cited(text) == {"13", "14", "B96", "113", "114", "115", "B21", "S3"}
