"""The house's rules hold in every module of the package, and each check can find what it is for."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import house
from tests.house import Module

ROOT = Path(__file__).resolve().parent.parent
MODULES = house.modules(ROOT / house.PACKAGE)

# --- what the rules are about --------------------------------------------------------------------

#: The rooms, by the beginnings of module names; the longest beginning counts.
ROOMS = {
    **dict.fromkeys(
        (
            *("_version", "errors", "model", "clock", "ids", "codec", "strict_json", "failures"),
            *("params", "project", "trust", "doorbell", "digests"),
            *("nouns", "json_text"),
        ),
        "ground",
    ),
    "storage": "contract",
    "storage.contract": "contract",
    "storage.sqlite": "adapter",
    "engine": "engine",
    "worker": "worker",
    "checking": "checking",
    "runtime": "runtime",
    "awaiting": "runtime",
    "worker.process": "process",
    # Replaces a database that no worker is at.
    "restoring": "process",
    "testing": "testing",
    "testing.conformance": "conformance",
    "cli": "cli",
    "": "face",
    "__main__": "cli",
}

#: What each room may know: everything below it.
BELOW = {
    "ground": set(),
    "contract": {"ground"},
    "adapter": {"ground", "contract"},
    "engine": {"ground", "contract"},
    "worker": {"ground", "contract", "engine"},
    "checking": {"ground", "contract", "engine"},
    # Chooses the adapter for programs and commands.
    "runtime": {"ground", "contract", "adapter", "engine", "checking"},
    # Wires a worker: the only module of the worker's that knows an adapter.
    "process": {"ground", "contract", "adapter", "engine", "worker", "checking", "runtime"},
    # What adapters are held to: knows none.
    "conformance": {"ground", "contract"},
    "testing": {"ground", "contract", "adapter", "engine", "worker", "checking", "conformance"},
    # What an author imports: names of other rooms, resolved when asked for.
    "face": {"ground", "engine", "runtime"},
    "cli": {"ground", "contract", "engine", "worker", "checking", "runtime", "process", "face"},
}

#: The modules that may write a table.
WRITERS = {
    "file": {"storage.sqlite.schema"},
    "modules": {"storage.sqlite.catalog"},
    "lost_deliveries": {"storage.sqlite.lost", "storage.sqlite.pruning"},
    "history": {"storage.sqlite.history", "storage.sqlite.pruning"},
    "retries": {"storage.sqlite.history", "storage.sqlite.pruning"},
    "attempts": {"storage.sqlite.history", "storage.sqlite.pruning"},
    "waits": {"storage.sqlite.waits"},
    "incarnations": {"storage.sqlite.history", "storage.sqlite.pruning"},
    "pauses": {"storage.sqlite.steering"},
    "logs": {"storage.sqlite.history", "storage.sqlite.pruning"},
    "messages": {"storage.sqlite.inbox", "storage.sqlite.pruning"},
    "stores": {"storage.sqlite.stores"},
    "effects": {"storage.sqlite.effects"},
    "effect_reports": {"storage.sqlite.effects"},
    # The record's life, one module for each part of it: admission and wakes, claims, endings,
    # releases, holds of faults of the code, deaths of workers; what others do to it: messages,
    # a parent's and a sibling's actions, ends and cancels, pauses.
    "executions": {
        "storage.sqlite.executions",
        "storage.sqlite.claims",
        "storage.sqlite.endings",
        "storage.sqlite.together",
        "storage.sqlite.releases",
        "storage.sqlite.actions",
        "storage.sqlite.consequences",
        "storage.sqlite.steering",
        "storage.sqlite.deliveries",
        "storage.sqlite.workers",
        "storage.sqlite.inbox",
        # What has ended is forgotten, long after.
        "storage.sqlite.pruning",
    },
    # Row 0 comes with the schema; the writer numbers its batches in its worker's row.
    "workers": {"storage.sqlite.workers", "storage.sqlite.schema", "storage.sqlite.writer"},
}

#: Statements made of our own numbers, since a PRAGMA takes no bindings.
NUMBERED_STATEMENTS = {"storage.sqlite.schema.SIGN", "storage.sqlite.schema.set_version"}

#: Whole numbers that are neither instants nor spans.
COUNTS = {
    *("attempt", "attempts", "count", "deaths", "deliveries", "errors", "log_count"),
    *("number", "operations", "position", "first_position", "index", "line", "level", "size"),
    *("token", "incarnation", "version", "format", "pid", "slot", "device", "inode"),
    # Nanoseconds, as the operating system says them.
    "mtime_ns",
    # The word of spec R7; an instant.
    "last_moment",
}

#: What is larger than its ceiling, by how much at most, and why it is one job all the same.
EXCUSED: dict[str, tuple[int, str]] = {
    # Pages that are read from top to bottom: nouns, errors, promises. Mostly prose.
    "model": (810, "the frozen nouns, in one place since every room shares them"),
    "codec": (315, "values to JSON and back, and the proof that they come back"),
    "testing.kit": (310, "the bench: a file, a clock, workers, and what happened"),
    "errors": (505, "the catalogue of errors: code, sentence, exit status"),
    "storage.contract": (615, "the promises of an adapter; half of it says what they mean"),
    "storage.contract:Reader": (9, "one question of the reading commands each"),
    # What cannot be taken apart without passing its whole state around.
    "engine.driver": (580, "one scheduler: stepping, replay and cancelling share its queues"),
    "engine.driver:__init__": (46, "the state of one scheduler, field by field"),
    "engine.operations": (580, "what a function awaits: handles, branches, and how they wait"),
    "engine.step": (400, "the author's one handle; a method for each operation, mostly prose"),
    "worker.carrier": (600, "one delivery's rounds: collect, apply, commit, start"),
    "worker.carrier:pump": (48, "one round from beginning to end, and which of its ends it is"),
    "worker.waiting": (322, "what is open: which of it starts, waits or is told to the file"),
    "storage.sqlite.endings": (310, "how a delivery writes and ends, in one transaction each"),
    "worker.applying": (485, "one round: what is ready, in order, and how each kind is applied"),
    "worker.dispatcher:__init__": (54, "the ports of the claim loop, one by one"),
    "worker.dispatcher": (600, "the claim loop and its residents"),
    "worker.process": (420, "everything a worker process is wired of, in the order it is needed"),
    "storage.sqlite.claims": (355, "a claim's statements, each with what it asks of the indexes"),
    "storage.sqlite.history": (310, "the tables of a round, of one execution and of many"),
    "worker.performers": (352, "plain and async functions: one start, one way to call them off"),
    "checking": (
        315,
        "params, targets and stores checked by name, by object and by what is remembered",
    ),
    "cli.checkup": (310, "one finding of the doctor after the other"),
    "cli.showing": (310, "one record, told in every form"),
    "storage.sqlite.storage": (
        320,
        "one room after the other, each made when it is first asked for",
    ),
    "worker.carrier:Host": (9, "what one delivery needs of its worker, one question each"),
    # One value put together, field by field or case by case.
    "cli.worker:command": (50, "one call with the options of the worker, one by one"),
    "storage.sqlite.translate:translate": (45, "SQLite's result codes, one after the other"),
    "worker.process:_wire": (58, "one object after the other, each given the ones before it"),
}


def _read_only(only: Sequence[str]) -> list[Module]:
    return [module for module in MODULES if house.within(module.name, only)]


# --- the rules -----------------------------------------------------------------------------------

RULES: dict[str, house.Rule] = {
    "apsw is imported only in storage/sqlite": lambda m: house.imported_only_in(
        m, {"apsw"}, {"storage.sqlite."}
    ),
    "typer and rich are imported only in cli": lambda m: house.imported_only_in(
        m, {"typer", "rich", "click"}, {"cli."}
    ),
    "the wall clock is read only in clock.py": lambda m: (
        house.imported_only_in(m, {"time", "whenever"}, {"clock"})
        + house.called_only_in(
            m, r"(.+\.)?(date|datetime)\.(now|utcnow|today)|time\.(time|time_ns)", {"clock"}
        )
    ),
    "chance is drawn only in ids.py": lambda m: (
        house.imported_only_in(m, {"random", "secrets"}, {"ids"})
        + house.called_only_in(
            m, r"(uuid\.)?uuid[14]|os\.(urandom|getrandom)|(random\.)?SystemRandom", {"ids"}
        )
    ),
    "no sqlite3, and nothing that makes code of data": lambda m: (
        house.imported_only_in(m, {"sqlite3", "pickle", "marshal", "shelve", "dill", "yaml"}, ())
        + house.called_only_in(m, r"eval|exec|compile|__import__", ())
        # Modules are loaded by file: workflow modules. By name: our own, from lists of ours.
        + house.called_only_in(m, r".+\.exec_module", {"engine.modules"})
        + house.called_only_in(m, r"(importlib\.)?import_module", {"", "cli.app"})
    ),
    "every arrow points down": lambda m: house.arrows(m, ROOMS, BELOW),
    "the engine knows no loop, thread or clock of its own": lambda m: house.imported_only_in(
        [module for module in m if module.name.startswith("engine.")],
        {"asyncio", "concurrent", "multiprocessing", "subprocess", "socket", "selectors"},
        (),
    ),
    "the engine starts no thread": lambda m: house.called_only_in(
        [module for module in m if module.name.startswith("engine.")],
        r"(threading\.)?(Thread|Timer|Event|Condition|Lock|RLock)",
        (),
    ),
    "the driver reads no clock and does no I/O": lambda m: [
        finding
        for module in m
        if module.name == "engine.driver"
        for finding in (
            house.imported_only_in([module], {"os", "io", "pathlib", "datetime", "tempfile"}, ())
            + house.called_only_in([module], r"clock(\..+)?|open|SystemClock|monotonic_ms", ())
        )
    ],
    "a table is written only in its own modules": lambda m: house.written_elsewhere(m, WRITERS),
    "SQL is never put together from data": lambda m: house.sql_with_data(
        in_storage(m), NUMBERED_STATEMENTS
    ),
    "an UPDATE or DELETE says which rows": house.unguarded,
    "the database's files are opened by SQLite alone": lambda m: house.called_only_in(
        in_storage(m),
        r"open|os\.open|.+\.(read_bytes|write_bytes|read_text|write_text)",
        # They read migrations, and make or look at a file that no connection has open.
        {"storage.sqlite.schema", "storage.sqlite.files"},
    ),
    "nothing is printed outside cli": lambda m: house.called_only_in(
        m, r"print|sys\.std(out|err)\.write(lines)?", {"cli."}
    ),
    "no global state is changed": lambda m: house.changed_globals(
        # The package itself keeps the names that it has resolved.
        [module for module in m if module.name],
        # Mirrors what is the process's own: POSIX locks, one descriptor for each file.
        # `not_found` and `unknown` are answers that authors write, like None; they hold nothing.
        {
            "worker.liveness._registry",
            "engine.effect_answers.not_found",
            "engine.effect_answers.unknown",
        },
    ),
    "an execution is named execution_id, save for the id= of trigger, child, map and store": (
        lambda m: house.parameters_named(
            # What @workflow(id=) names is a workflow.
            m,
            {"id", "exec_id", "eid", "executionId"},
            {
                "runtime.trigger",
                "engine.authoring.workflow",
                "engine.children.child",
                "engine.children.map",
                "engine.storing.store",
            },
        )
    ),
    "every module opens with its one job": house.without_job,
    "nouns name instants _at and spans _ms": lambda m: [
        finding
        for module in m
        if module.name in ("model", "worker.ports")
        for finding in house.misnamed_numbers(module, COUNTS)
    ],
    "what is imported is declared": lambda m: (
        # Whoever runs the conformance suite on an adapter runs pytest.
        house.undeclared([module for module in m if not is_conformance(module)], declared())
        + house.undeclared([module for module in m if is_conformance(module)], declared("dev"))
    ),
    "nothing is larger than its ceiling": lambda m: house.too_large(m, EXCUSED),
}


def declared(extra: str = "") -> set[str]:
    """The projects that pyproject.toml depends on, and those of an extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = project["dependencies"] + project["optional-dependencies"].get(extra, [])
    return {re.split(r"[\s<>=!\[;]", line)[0] for line in lines}


def in_storage(modules: Sequence[Module]) -> list[Module]:
    """The modules below storage/."""
    return [module for module in modules if module.name.startswith("storage.")]


def is_conformance(module: Module) -> bool:
    """Whether it belongs to the suite that adapters are held to."""
    return module.name.startswith("testing.conformance.")


@pytest.mark.parametrize("rule", sorted(RULES))
def test_the_house_holds_that(rule: str) -> None:
    """design, Invariants; security S15 (no code from data); spec E13, V1."""
    assert RULES[rule](MODULES) == []


# --- each rule can find what it is for -----------------------------------------------------------

#: Rule, and modules that break it: (name, text).
BROKEN: list[tuple[str, str, str]] = [
    ("apsw is imported only in storage/sqlite", "engine.x", "import apsw.ext"),
    ("apsw is imported only in storage/sqlite", "cli.x", "def f():\n    from apsw import Error"),
    ("typer and rich are imported only in cli", "worker.x", "from rich.console import Console"),
    ("the wall clock is read only in clock.py", "worker.x", "import time\ntime.time()"),
    ("the wall clock is read only in clock.py", "cli.x", "datetime.datetime.now(UTC)"),
    ("the wall clock is read only in clock.py", "cli.x", "x = date.today()"),
    ("chance is drawn only in ids.py", "engine.x", "from random import random"),
    ("chance is drawn only in ids.py", "engine.x", "import uuid\nuuid.uuid4()"),
    ("chance is drawn only in ids.py", "engine.x", "os.urandom(8)"),
    ("no sqlite3, and nothing that makes code of data", "cli.x", "import sqlite3"),
    ("no sqlite3, and nothing that makes code of data", "codec", "import pickle"),
    ("no sqlite3, and nothing that makes code of data", "codec", "eval('1')"),
    (
        "no sqlite3, and nothing that makes code of data",
        "failures",
        "import importlib\nimportlib.import_module(name)",
    ),
    ("every arrow points down", "model", "from yieldstar_cli.runtime import Runtime"),
    ("every arrow points down", "engine.x", "from yieldstar_cli.worker import ports"),
    ("every arrow points down", "worker.x", "from yieldstar_cli.storage.sqlite import storage"),
    ("every arrow points down", "storage.sqlite.x", "import yieldstar_cli.cli.exits"),
    ("every arrow points down", "loose", "x = 1"),
    ("the engine knows no loop, thread or clock of its own", "engine.x", "import asyncio"),
    ("the engine starts no thread", "engine.x", "threading.Thread(target=f)"),
    ("the driver reads no clock and does no I/O", "engine.driver", "clock.SystemClock()"),
    ("the driver reads no clock and does no I/O", "engine.driver", "open('x')"),
    ("a table is written only in its own modules", "storage.sqlite.x", "A = 'UPDATE history SET'"),
    (
        "a table is written only in its own modules",
        "storage.sqlite.x",
        "A = 'INSERT OR REPLACE INTO nobodys VALUES (1)'",
    ),
    ("SQL is never put together from data", "storage.sqlite.x", "A = f'SELECT {x}'"),
    ("SQL is never put together from data", "storage.sqlite.x", "A = 'SELECT ' + x"),
    ("SQL is never put together from data", "storage.sqlite.x", "A = 'SELECT %s' % x"),
    ("SQL is never put together from data", "storage.sqlite.x", "A = 'SELECT {}'.format(x)"),
    ("SQL is never put together from data", "storage.sqlite.x", "db.rows(A + name)"),
    ("SQL is never put together from data", "storage.sqlite.x", "db.rows(joined(A, name))"),
    ("an UPDATE or DELETE says which rows", "storage.sqlite.x", "A = 'DELETE FROM history'"),
    (
        "an UPDATE or DELETE says which rows",
        "storage.sqlite.x",
        "_SET = 'UPDATE executions SET due_at = 1'\nA = _SET + ' RETURNING n'",
    ),
    ("the database's files are opened by SQLite alone", "storage.sqlite.x", "open(path)"),
    ("nothing is printed outside cli", "worker.x", "print('hello')"),
    ("nothing is printed outside cli", "worker.x", "sys.stderr.write('hello')"),
    ("no global state is changed", "worker.x", "SEEN = {}"),
    ("no global state is changed", "worker.x", "N = 0\ndef f():\n    global N\n    N = 1"),
    ("no global state is changed", "worker.x", "A = [1]\ndef f():\n    A.append(2)"),
    ("no global state is changed", "worker.x", "A = {1: 2}\ndef f():\n    A[1] = 3"),
    ("no global state is changed", "worker.x", "seen = Seen()"),
    (
        "an execution is named execution_id, save for the id= of trigger, child, map and store",
        "runtime",
        "def cancel(id): ...",
    ),
    ("every module opens with its one job", "worker.x", "x = 1"),
    ("every module opens with its one job", "worker.x", '"""stuff"""'),
    (
        "nouns name instants _at and spans _ms",
        "model",
        "@dataclass(frozen=True)\nclass A:\n    timeout: int | None = None",
    ),
    ("what is imported is declared", "cli.x", "import requests"),
    ("nothing is larger than its ceiling", "cli.x", "x = 1\n" * 301),
    ("nothing is larger than its ceiling", "cli.x", "def f():\n" + "    x = 1\n" * 41),
    (
        "nothing is larger than its ceiling",
        "cli.x",
        "class A(Protocol):\n" + "".join(f"    def f{n}(self): ...\n" for n in range(9)),
    ),
]


@pytest.mark.parametrize(("rule", "name", "text"), BROKEN)
def test_a_rule_finds_what_breaks_it(rule: str, name: str, text: str) -> None:
    """A check that cannot fail holds nothing."""
    broken = Module(name, text)

    found = RULES[rule]([*(m for m in MODULES if m.name != name), broken])

    assert any(finding.startswith((f"{name}:", f"{name} ")) for finding in found), found


def test_every_rule_is_tried_on_something_that_breaks_it() -> None:
    """A rule without a broken module to find might find nothing ever."""
    assert {rule for rule, _, _ in BROKEN} == set(RULES)


# --- the tests themselves ------------------------------------------------------------------------

SUITE = [m for m in house.modules(ROOT / "tests") if m.name not in ("house", "test_house")]

#: What no test may use, and tests that would: (rule, what is used, a test that uses it).
UNUSED = {
    "no test is skipped": (
        r"(pytest\.)?(mark\.(skip|skipif|xfail)|skip|xfail|importorskip)",
        "@pytest.mark.skip\ndef test_a(): ...",
    ),
    "no module of ours is mocked": (
        r"(unittest\.)?mock(\..+)?|(Magic|Async)?Mock|mocker(\..+)?",
        "from unittest import mock\nmock.patch('a')",
    ),
}


#: What these claim is that nothing is raised.
SILENT = {
    "test_the_wrapper_alone_breaks_nothing",
    "test_the_rooms_passed_through_break_nothing",
    "test_damaged_text_is_a_decode_error_and_nothing_else",
    "test_a_database_may_lie_in_a_sticky_directory",
}


@pytest.mark.parametrize("rule", sorted(UNUSED))
def test_of_the_tests_the_house_holds_that(rule: str) -> None:
    """style: real files, real code; nothing is skipped."""
    pattern, broken = UNUSED[rule]

    assert house.called_only_in(SUITE, pattern, ()) == []
    assert house.called_only_in([Module("test_x", broken)], pattern, ()) != []


def test_every_test_can_fail() -> None:
    """A test asserts, expects an error, or leaves both to a helper that it calls."""
    empty = Module("test_x", "def test_nothing():\n    x = 1\n")

    assert {line.split()[1] for line in house.without_claim(SUITE)} == SILENT
    assert house.without_claim([empty]) == ["test_x:1: test_nothing claims nothing"]


# --- exceptions stay few and needed --------------------------------------------------------------


def test_what_is_excused_for_its_size_still_needs_it() -> None:
    """An excuse that nothing needs any more would let the next one grow unseen."""
    assert set(EXCUSED) - set(house.sizes(MODULES)) == set()
    assert all(reason for _, reason in EXCUSED.values())


def test_every_writer_of_a_table_still_writes_it() -> None:
    """The list of who writes what is the list as it is."""
    unneeded = [
        (table, writer)
        for table, writers in WRITERS.items()
        for writer in writers
        if not house.written_elsewhere(
            _read_only([writer]), {t: set() if t == table else w for t, w in WRITERS.items()}
        )
    ]

    assert unneeded == []


def test_a_status_changes_only_under_a_guard() -> None:
    """design, Invariants: the WHERE names the states it may leave.

    An effect leaves "pending", and its right is taken only while it is that (spec F1). For an
    execution a live token is the guard: only an open delivery has one, and a terminal record has
    none. Only a cancellation at once needs no delivery; it leaves the open states alone.
    """
    changes = dict(house.status_changes(MODULES))

    at_once = changes.pop("storage.sqlite.consequences.CANCEL_NOW")
    assert "status IN ('admitted', 'suspended')" in at_once
    for name in ("TAKE", "SETTLE"):
        assert "status = 'pending'" in changes.pop(f"storage.sqlite.effects.{name}")
    assert set(changes) == {
        f"storage.sqlite.endings.{name}" for name in ("SUSPEND", "FINISH", "CONTINUE")
    }
    for guard in changes.values():
        assert "token = :token" in guard
        assert "claimed_by IS NOT NULL" in guard
