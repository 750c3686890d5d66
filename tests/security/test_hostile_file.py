"""A database that somebody else has made runs nothing, is refused, or is read as what it is."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scripts.shapes import shapes
from tests.cli.conftest import Shop
from tests.security.scene import NASTY, Scene, acted_upon
from yieldstar_cli.errors import CorruptFile, ForeignFile
from yieldstar_cli.storage.sqlite import schema
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

REWRITE = """
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, {0}, {1}) WHERE name = 'executions';
PRAGMA writable_schema = RESET
"""
#: What a file may hold beside or instead of what ours do, and what it is then.
HOSTILE: dict[str, tuple[str, type[Exception]]] = {
    "a trigger": (
        "CREATE TRIGGER steal AFTER INSERT ON executions BEGIN DELETE FROM executions; END",
        ForeignFile,
    ),
    "a view": ("CREATE VIEW everything AS SELECT * FROM executions", ForeignFile),
    "a view in a table's place": (
        "ALTER TABLE logs RENAME TO hidden; CREATE VIEW logs AS SELECT * FROM hidden",
        ForeignFile,
    ),
    "a table": ("CREATE TABLE more (a)", ForeignFile),
    "an index on an expression": (
        "CREATE INDEX slow ON executions (length(replace(params, 'a', 'aaaaaaaa')))",
        ForeignFile,
    ),
    "statistics": ("ANALYZE", ForeignFile),
    "a generated column": (
        "ALTER TABLE executions ADD COLUMN evil BLOB AS (zeroblob(1000000000)) VIRTUAL",
        CorruptFile,
    ),
    "another generated column": (
        REWRITE.format("'ELSE max(due_at, held_until)'", "'ELSE length(hex(zeroblob(999999)))'"),
        CorruptFile,
    ),
    "a CHECK that calls a function": (
        REWRITE.format("'CHECK ((needs IS NULL)'", "'CHECK (load_extension(''x'') OR (1=1)'"),
        CorruptFile,
    ),
    "no CHECK": (REWRITE.format("'BETWEEN 1 AND 255'", "'> 0'"), CorruptFile),
    "a table less": ("DROP TABLE logs", CorruptFile),
    "a table twice": (
        """
        PRAGMA writable_schema = ON;
        INSERT INTO sqlite_schema SELECT * FROM sqlite_schema WHERE name = 'logs';
        PRAGMA writable_schema = OFF
        """,
        CorruptFile,
    ),
}


@pytest.mark.parametrize("what", HOSTILE)
@pytest.mark.parametrize("readonly", [True, False])
def test_a_file_that_is_not_built_as_ours_is_refused_untouched(
    tmp_path: Path, what: str, readonly: bool
) -> None:
    """security S9; spec K7: before a row of it is read, and before anything is written."""
    path = tmp_path / "ys.db"
    SqliteStorage(path, create=True).close()
    statement, refusal = HOSTILE[what]
    raw = apsw.Connection(str(path))
    raw.execute(statement)
    raw.close()
    before = path.read_bytes()

    with pytest.raises(refusal):
        SqliteStorage(path, readonly=readonly)

    assert path.read_bytes() == before


def test_it_is_known_of_every_schema_how_a_file_is_built() -> None:
    """security S9; spec K7: after a new migration run `python scripts/shapes.py`."""
    made = {file.name: text for file, text in shapes()}

    assert made == {file.name: file.read_text("utf-8") for file, _ in shapes() if file.exists()}
    assert len(made) == schema.SCHEMA_VERSION


# --- rows that our own code would not write ------------------------------------------------------

Change = tuple[str, str, object]
NUMBERS = (-1, 0, 10**15, 2**63 - 1, -(2**63))
DEEP = '{"a":' * 5_000 + "1" + "}" * 5_000
TEXTS = (
    "", "null", "{", "[1]", "[[1,2]]", '["$ys"]', '["$ys","int","zz"]', '["$ys","timedelta",9e9]',
    "[" * 100_000, DEEP, "9" * 5_000, "1e999", "NaN", NASTY,
)  # fmt: skip


def plant(scene: Scene, changes: list[Change]) -> None:
    def to(value: object) -> Callable[[object], object]:
        return lambda _: value

    scene.plant(*((f"UPDATE OR IGNORE {t} SET {c} = planted({c})", to(v)) for t, c, v in changes))


def odd(data: st.DataObject, scene: Scene) -> Change:
    kind = data.draw(st.sampled_from(("INTEGER", "TEXT")))
    table, column = data.draw(st.sampled_from(scene.columns(kind)))
    return table, column, data.draw(st.sampled_from(NUMBERS if kind == "INTEGER" else TEXTS))


def read(scene: Scene, changes: list[Change]) -> None:
    """Every reading command answers or refuses; none has a bug, none lets a control through."""
    plant(scene, changes)
    for line, how, said in scene.said(scene.lines(some=True)):
        assert said.code in (0, 2, 4, 6, 7, 8, 9, 10), (changes, line, how, said)
        assert not acted_upon(said.out + said.err), (changes, line, how, said)


#: Each once made a command end as a bug, or was let through to the terminal.
FOUND: tuple[Change, ...] = (
    ("workers", "workflows", "NaN"),
    ("workers", "broken", "[[1,2]]"),
    ("workers", "tags", "[" * 100_000),
    ("waits", "store_name", "Stock"),
    ("effects", "result", '["$ys","int","zz"]'),
    ("executions", "poisoned_at", 2**63 - 1),
    ("executions", "updated_at", -(2**63)),
    ("executions", "status", "[1]"),
    ("executions", "outcome", "[" * 100_000),
    ("modules", "workflows", "null"),
)


@pytest.mark.parametrize("change", FOUND, ids=lambda change: f"{change[0]}.{change[1]}")
def test_a_planted_row_that_was_once_a_bug_is_none(scene: Scene, change: Change) -> None:
    """security S9, S17, S19."""
    read(scene, [change])


@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_no_planted_row_makes_a_reading_command_fail_otherwise_than_in_words(
    scene: Scene, data: st.DataObject
) -> None:
    """security S9, S17, S19: huge, deep, odd and hostile values in any column of any table."""
    read(scene, [odd(data, scene) for _ in range(data.draw(st.integers(1, 3)))])


# --- data stays data -----------------------------------------------------------------------------

MARKED = {
    "__class__": "os.system",
    "py/object": "subprocess.Popen",
    "$type": "System.Diagnostics.Process",
    "__reduce__": ["os.system", ["touch pwned"]],
    "pickled": pickle.dumps({"a": 1}).hex(),
}


def test_what_looks_like_an_object_to_be_made_is_plain_data(shop: Shop) -> None:
    """security S15: it comes back as it was given, key for key."""
    shop.admit("order-42", params=MARKED)

    assert shop.ys("show", "order-42", "--json").json["params"] == MARKED
    assert not (shop.root / "pwned").exists()
