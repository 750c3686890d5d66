"""Every rule finds what it is for: breaches planted in a copy of a sound file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.upkeep import scene
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.errors import CorruptFile, ForeignFile
from yieldstar_cli.storage.sqlite import checks
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

N = "(SELECT n FROM executions WHERE execution_id = '{}')"
SLEEPER, LISTENER, PARENT = N.format("sleeper"), N.format("listener"), N.format("parent")
WATCHER, ETERNAL, TRIER = N.format("watcher"), N.format("eternal"), N.format("trier")
DONE, ASLEEP, LATER = N.format("done"), N.format("asleep"), N.format("later")


class Planted(NamedTuple):
    """A breach: the code that tells it, of which execution, and how it is made."""

    code: str
    execution_id: str | None
    statements: Sequence[str]


def of(execution_id: str, code: str, settings: str) -> Planted:
    """A breach made by changing one record."""
    change = f"UPDATE executions SET {settings} WHERE execution_id = '{execution_id}'"
    return Planted(code, execution_id, [change])


PLANTED = {
    # I3, I10: whatever is open is due, claimed, or waits.
    "an admission without its first wake": of("later", "NEVER_DUE", "due_at = NULL"),
    "a claim of a worker that never was": of(
        "later",
        "CLAIM_OF_NOBODY",
        "due_at = NULL, covered_due_at = 5, claimed_by = 99, claimed_at = 5, token = 1",
    ),
    "a claim of a worker that stopped": Planted(
        "CLAIM_OF_NOBODY",
        "later",
        [
            "UPDATE workers SET stopped_at = 5, how = 'stopped' WHERE n = 1",
            (
                "UPDATE executions SET due_at = NULL, covered_due_at = 5, claimed_by = 1, "
                f"claimed_at = 5, token = 1 WHERE n = {LATER}"
            ),
        ],
    ),
    "a sleep without a wake": of("sleeper", "TIMER_WITHOUT_WAKE", "due_at = NULL"),
    "a sleep with a late wake": of("sleeper", "TIMER_WITHOUT_WAKE", "due_at = due_at + 1"),
    "an end that was marked and woke nobody": Planted(
        "READY_WITHOUT_WAKE", "parent", [f"UPDATE waits SET ready_at = 5 WHERE n = {PARENT}"]
    ),
    "a message that woke nobody": Planted(
        "MESSAGE_WITHOUT_WAKE", "listener", ["UPDATE messages SET queue = 'never' WHERE m = 3"]
    ),
    "a cancellation that woke nobody": of("parent", "CANCEL_WITHOUT_WAKE", "cancel_at = 5"),
    "a step that nobody will run": Planted(
        "STEP_WITHOUT_WAKE",
        "listener",
        [f"UPDATE waits SET kind = 'step', queue = NULL WHERE n = {LISTENER}"],
    ),
    "an end that nobody was told of": Planted(
        "END_UNTOLD",
        "parent",
        [
            f"UPDATE waits SET target = 'done', target_n = {DONE}",
            f"DELETE FROM waits WHERE n <> {PARENT} AND target IS NOT NULL",
        ],
    ),
    "a wait for what is not there": Planted(
        "WAIT_FOR_NOBODY", "parent", [f"UPDATE waits SET target_n = 999 WHERE n = {PARENT}"]
    ),
    "a wait for another than it says": Planted(
        "WAIT_FOR_NOBODY", "parent", [f"UPDATE waits SET target_n = {LATER} WHERE n = {PARENT}"]
    ),
    "a store that changed and woke nobody": Planted(
        "STORE_UNTOLD", "watcher", ["UPDATE stores SET state = '{\"count\":9}'"]
    ),
    "a store that was deleted and woke nobody": Planted(
        "STORE_UNTOLD", "watcher", ["DELETE FROM stores"]
    ),
    # I5, I4: what has ended is quiet.
    "a wake of what has ended": of("done", "ENDED_NOT_QUIET", "due_at = 5"),
    "a hold of what has ended": of("done", "ENDED_NOT_QUIET", "held_since = 5, held_code = 'X'"),
    "a pause of what has ended": of("done", "ENDED_NOT_QUIET", "paused = '{}'"),
    "a wait of what has ended": Planted(
        "ENDED_WITH_WAITS", "done", [f"UPDATE waits SET n = {DONE} WHERE n = {ASLEEP}"]
    ),
    "an end without an outcome": of("done", "OUTCOME_AND_STATUS", "outcome = NULL"),
    "an outcome without an end": of("sleeper", "OUTCOME_AND_STATUS", "outcome = '1'"),
    # I6: tokens.
    "an acknowledgement of a claim to come": of("sleeper", "TOKENS", "acked_token = token + 1"),
    "a recording of a claim to come": of("sleeper", "TOKENS", "progress_token = token + 1"),
    "a claim under a token that is spent": of(
        "sleeper", "TOKENS", "claimed_by = 1, covered_due_at = 5, due_at = NULL"
    ),
    "a lost delivery of a claim to come": Planted(
        "TOKENS",
        "sleeper",
        [f"INSERT INTO lost_deliveries VALUES ({SLEEPER}, 99, 'w', 1, 2, 'died')"],
    ),
    "a claim that covers nothing": of(
        "later", "COVERED_AND_CLAIMED", "due_at = NULL, claimed_by = 1, claimed_at = 5, token = 1"
    ),
    "covered wakes without a claim": of("sleeper", "COVERED_AND_CLAIMED", "covered_due_at = 5"),
    # I20: how a status is reached.
    "an end that no delivery acknowledged": of(
        "later", "STATUS_UNEARNED", "status = 'completed', outcome = '1', due_at = NULL"
    ),
    "an end that was claimed once more": of("done", "STATUS_UNEARNED", "token = token + 1"),
    "a suspension before any delivery": of("later", "STATUS_UNEARNED", "status = 'suspended'"),
    "a suspended one that was never begun": of("sleeper", "STATUS_UNEARNED", "status = 'admitted'"),
    "a change before the admission": of("done", "MOMENTS_OF_RECORD", "updated_at = 5"),
    "a wake beyond the year 9999": of("later", "MOMENTS_OF_RECORD", "due_at = 1 << 50"),
    "a hold without a reason": of("sleeper", "HOLDS", "held_since = 5"),
    "a poisoned one that never died": of("sleeper", "HOLDS", "poisoned_at = 5"),
    "a cancellation told and not asked for": of("sleeper", "HOLDS", "cancel_told = 1"),
    # I16: attempts and deaths.
    "more deaths than claims": of("sleeper", "DEATHS", "deaths = 9"),
    "an attempt that is missing": Planted(
        "ATTEMPTS", "trier", [f"DELETE FROM attempts WHERE n = {TRIER}"]
    ),
    "a count of attempts without them": Planted(
        "ATTEMPTS",
        "sleeper",
        [f"INSERT INTO retries VALUES ({SLEEPER}, 1, 'step', 'x', 3, 3, 5)"],
    ),
    # I7: each operation is recorded once.
    "a step recorded twice": Planted(
        "RECORDED_TWICE",
        "listener",
        [f"UPDATE history SET step_key = 'mail' WHERE n = {LISTENER}"],
    ),
    "a step recorded and open": Planted(
        "RECORDED_AND_OPEN",
        "sleeper",
        [f"UPDATE history SET kind = 'timer', step_key = 'sleep' WHERE n = {SLEEPER}"],
    ),
    # I14: incarnations.
    "a resolution that is missing": Planted(
        "HISTORY_GAP", "parent", [f"DELETE FROM history WHERE n = {PARENT} AND position = 1"]
    ),
    "a resolution too many": of("done", "HISTORY_GAP", "operations = 0"),
    "a resolution of an earlier incarnation missing": Planted(
        "HISTORY_GAP", "eternal", [f"DELETE FROM history WHERE n = {ETERNAL} AND incarnation = 4"]
    ),
    "an incarnation that is missing": Planted(
        "INCARNATIONS",
        "eternal",
        [f"DELETE FROM incarnations WHERE n = {ETERNAL} AND incarnation = 4"],
    ),
    "an incarnation to come": Planted(
        "INCARNATIONS",
        "eternal",
        [f"INSERT INTO incarnations VALUES ({ETERNAL}, 7, 1, 1, 1, 0, '{{}}')"],
    ),
    "a history of no incarnation": Planted(
        "OF_NO_INCARNATION",
        "done",
        [f"INSERT INTO history VALUES ({DONE}, 7, 0, 'step', 'x', 1, '1', 1, 1, 1, '', 0)"],
    ),
    # I9: moments never go back.
    "a moment before the one ahead": Planted(
        "MOMENTS", "listener", [f"UPDATE history SET at = 5 WHERE n = {LISTENER} AND position = 1"]
    ),
    "a moment after the last one": of("sleeper", "MOMENTS", "last_moment = 5"),
    "a timer that ended before it began": Planted(
        "MOMENTS", "starter", ["UPDATE history SET started_at = at + 1 WHERE kind = 'timer'"]
    ),
    # I12: messages.
    "a message read at no moment": Planted(
        "MESSAGE_SHAPE", "listener", ["UPDATE messages SET consumed_at = NULL WHERE m = 1"]
    ),
    "a message read and waiting": Planted(
        "MESSAGE_SHAPE", "listener", ["UPDATE messages SET consumed_at = 5 WHERE m = 3"]
    ),
    "a message that its admission left behind": Planted(
        "MESSAGE_LEFT_BEHIND",
        "done",
        ["UPDATE messages SET execution_id = 'done' WHERE m = 4"],
    ),
    "a message read out of turn": Planted(
        "OUT_OF_TURN",
        "listener",
        ["UPDATE messages SET state = 'waiting', consumed_at = NULL WHERE m = 1"],
    ),
    # I13, I15: children.
    "a child whose parent is not there": of("done", "PARENT_WRONG", "parent = 999"),
    "a child older than its parent": of("sleeper", "PARENT_WRONG", "parent = 4"),
    "a start without a child": Planted(
        "CHILD_LOST", "parent", [f"UPDATE executions SET parent = NULL WHERE n = {ASLEEP}"]
    ),
    "a child that nobody started": of("done", "CHILD_UNSTARTED", "parent = 1"),
    "a result that its child did not have": Planted(
        "CHILD_OUTCOME",
        "parent",
        ["UPDATE executions SET outcome = '3' WHERE execution_id = 'adder'"],
    ),
    "a child that was not asked to end": Planted(
        "CHILD_NOT_ASKED", "detached", ["UPDATE executions SET detached = 0"]
    ),
    # I11: stores.
    "a store at an impossible version": Planted(
        "STORE_SHAPE", None, ["UPDATE stores SET version = -1"]
    ),
    "two stores of one instance": Planted(
        "STORE_SHAPE",
        None,
        [
            """
            INSERT INTO stores (name, store_id, instance, version, created_at, updated_at, state)
            SELECT name, 'two', instance, version, created_at, updated_at, state FROM stores
            """
        ],
    ),
    "an update that the store does not have": Planted(
        "STORE_VERSIONS", "watcher", ["UPDATE stores SET version = 1"]
    ),
    "one version made twice": Planted(
        "STORE_VERSIONS",
        "watcher",
        [
            (
                "UPDATE history SET value = (SELECT value FROM history WHERE kind = 'store-update'"
                " ORDER BY position LIMIT 1) WHERE kind = 'store-update'"
            )
        ],
    ),
    # I17: the file and what is in it.
    "params that are not JSON": of("sleeper", "VALUES", "params = '{'"),
    "an outcome that is not JSON": of("done", "VALUES", "outcome = '{'"),
    "an entry that is not JSON": Planted(
        "VALUES", "sleeper", [f"UPDATE history SET value = '{{' WHERE n = {SLEEPER}"]
    ),
    "a message that is not JSON": Planted(
        "VALUES", "listener", ["UPDATE messages SET value = 'x' WHERE m = 1"]
    ),
    "a state that is not JSON": Planted("VALUES", None, ["UPDATE stores SET state = 'x'"]),
    "a record that is gone": Planted(
        "WITHOUT_RECORD", None, [f"DELETE FROM executions WHERE n = {DONE}"]
    ),
    "a file without a name": Planted("SCHEMA", None, ["DELETE FROM file"]),
    # E3: what is pruned.
    "an open one that was pruned": of("sleeper", "PRUNED_AND_THERE", "pruned_at = 5"),
    "a pruned one with a history": of("done", "PRUNED_AND_THERE", "pruned_at = 5, operations = 0"),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound file with something of every kind in it."""
    return scene.build(tmp_path_factory.mktemp("sound"))


def test_the_file_without_them_is_sound(sound: Path) -> None:
    """case 348."""
    storage = SqliteStorage(sound, readonly=True, clock=ManualClock())

    assert list(storage.upkeep.breaches()) == []
    assert list(storage.upkeep.breaches(quick=True)) == []
    storage.close()


@pytest.mark.parametrize("what", PLANTED)
def test_a_planted_breach_is_found(sound: Path, tmp_path: Path, what: str) -> None:
    """case 348: with its code and its execution, in sentences that say what helps."""
    breach = PLANTED[what]
    storage = scene.planted(sound, tmp_path / "ys.db", *breach.statements)

    found = list(storage.upkeep.breaches())

    storage.close()
    assert (breach.code, breach.execution_id) in {(b.code, b.execution_id) for b in found}, found
    for one in found:
        assert one.text
        assert one.means.endswith(".")
        assert one.remedy


#: What is refused before anything of the file is asked.
BUILT_OTHERWISE = {
    "an index that is gone": ["DROP INDEX executions_claimable"],
    "an index that is another": [
        "DROP INDEX waits_ready",
        "CREATE INDEX waits_ready ON waits (kind)",
    ],
    "a table of somebody else": ["CREATE TABLE mine (x)"],
}


@pytest.mark.parametrize("what", BUILT_OTHERWISE)
def test_a_file_that_is_built_otherwise_is_not_even_opened(
    sound: Path, tmp_path: Path, what: str
) -> None:
    """case 348; spec K7; security S9."""
    with pytest.raises((ForeignFile, CorruptFile)):
        scene.planted(sound, tmp_path / "ys.db", *BUILT_OTHERWISE[what])


def test_damage_in_one_row_hides_no_other_breach(sound: Path, tmp_path: Path) -> None:
    """case 348: text that is not UTF-8 is told once, and the rest is asked all the same."""
    storage = scene.planted(
        sound,
        tmp_path / "ys.db",
        f"UPDATE waits SET step_key = CAST(x'ff' AS TEXT), ready_at = 5 WHERE n = {PARENT}",
        "UPDATE executions SET due_at = NULL WHERE execution_id = 'later'",
        f"UPDATE executions SET held_since = 5 WHERE n = {SLEEPER}",
    )

    found = [breach.code for breach in storage.upkeep.breaches()]

    storage.close()
    assert found.count("DAMAGED") == 1
    assert {"NEVER_DUE", "HOLDS"} <= set(found)


def test_every_rule_has_a_planted_breach() -> None:
    """A rule that finds nothing would be no rule."""
    assert {rule.code for rule in checks.RULES} <= {breach.code for breach in PLANTED.values()}


def test_the_page_on_upkeep_names_every_code_and_no_other() -> None:
    """Who meets a code finds there what helps."""
    page = Path(__file__).parents[2] / "docs" / "upkeep.md"
    table = page.read_text(encoding="utf-8").partition("## Forgetting")[0]

    named = set(re.findall(r"`([A-Z]+(?:_[A-Z]+)*)`", table))

    assert named == {rule.code for rule in checks.RULES} | {
        "DAMAGED",
        "SCHEMA",
        "OPEN_TO_OTHERS",
        "STORE_UNTOLD",
    }
