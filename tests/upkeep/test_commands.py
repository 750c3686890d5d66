"""`ys prune`, `delete`, `backup` and `restore`: words, streams, exit statuses."""

from __future__ import annotations

import pytest

from tests.cli.conftest import MINUTE, Shop
from yieldstar_cli.model import Completed, Failed, Status
from yieldstar_cli.storage.sqlite.storage import SqliteStorage
from yieldstar_cli.storage.upkeep import Chosen

DAY = 24 * 60 * MINUTE


def ended(shop: Shop, execution_id: str, outcome: Completed | Failed | None = None) -> None:
    """An execution that ends now."""
    shop.admit(execution_id)
    shop.deliver(execution_id, outcome=outcome or Completed('"secret"'))


def old_and_new(shop: Shop) -> None:
    """Two that ended ten days ago, one that ended now, one that is open."""
    ended(shop, "old-1")
    ended(shop, "old-2", Failed('{"name":"E","message":"secret"}'))
    shop.clock.advance(10 * DAY)
    ended(shop, "new")
    shop.admit("open")


def pruned(shop: Shop) -> dict[str, bool]:
    """Which are pruned."""
    found = shop.storage.reader.find(limit=None)
    return {record.execution_id: record.pruned_at is not None for record in found}


# --- prune ---------------------------------------------------------------------------------------


def test_a_dry_run_says_how_many_and_how_much_and_changes_nothing(shop: Shop) -> None:
    """b.4: `ys.plan/1`; case 339."""
    old_and_new(shop)

    drawn, piped = shop.screen("prune", "--older", "7d", "-n"), shop.ys("prune", "--older=7d", "-n")
    document = shop.ys("prune", "--older", "7d", "-n", "--json").json

    assert (drawn.code, piped.code) == (0, 0)
    assert drawn.out.startswith("Would prune 2 executions, ")
    assert drawn.out.endswith(" of history and values. Nothing was changed.\n")
    assert piped.out == "old-1\tpruned\nold-2\tpruned\n"
    assert document["schema"] == "ys.plan/1"
    assert document["would"] == [
        {"execution_id": "old-1", "change": "pruned"},
        {"execution_id": "old-2", "change": "pruned"},
    ]
    assert document["kept"] == []
    assert document["bytes"] > 0
    assert not any(pruned(shop).values())


def test_pruning_does_what_the_dry_run_said(shop: Shop) -> None:
    """case 339: the same count and bytes."""
    old_and_new(shop)
    plan = shop.ys("prune", "--older", "7d", "-n", "--json").json

    said = shop.ys("prune", "--older", "7d", "--yes", "--json")

    assert said.code == 0
    assert said.json == {
        "schema": "ys.pruned/1",
        "executions": 2,
        "bytes": plan["bytes"],
        "kept": [],
    }
    assert pruned(shop) == {"old-1": True, "old-2": True, "new": False, "open": False}
    assert shop.ys("check").code == 0
    again = shop.screen("prune", "--older", "7d")
    assert (again.code, again.out) == (0, "✓ Nothing to prune.\n")


def test_it_asks_and_without_a_terminal_it_needs_yes(shop: Shop) -> None:
    """b.4: nobody's data goes by accident."""
    old_and_new(shop)

    said = shop.ys("prune", "--older", "7d")

    assert said.code == 2
    assert "--yes" in said.err
    assert not any(pruned(shop).values())


def test_status_and_keep_narrow_it(shop: Shop) -> None:
    """b.4."""
    old_and_new(shop)

    shop.ys("prune", "--older", "7d", "--status", "failed", "--yes")
    assert pruned(shop) == {"old-1": False, "old-2": True, "new": False, "open": False}

    shop.ys("prune", "--keep", "1", "--yes")
    assert pruned(shop) == {"old-1": True, "old-2": True, "new": False, "open": False}


@pytest.mark.parametrize(
    "words",
    [(), ("--status", "failed"), ("--older", "7"), ("--older", "7d", "--status", "suspended")],
)
def test_words_that_do_not_fit_are_usage(shop: Shop, words: tuple[str, ...]) -> None:
    """b.0: 2."""
    shop.admit()

    assert shop.ys("prune", *words).code == 2


def test_what_is_kept_is_named_with_its_reason(shop: Shop) -> None:
    """spec C2."""
    ended(shop, "child")
    shop.admit("parent")
    shop.storage.db.rows(
        "UPDATE executions SET parent = (SELECT n FROM executions WHERE execution_id = 'parent')"
        " WHERE execution_id = 'child'"
    )

    drawn = shop.screen("prune", "--keep", "1", "-n")
    document = shop.ys("prune", "--older", "0s", "-n", "--json").json
    shop.clock.advance(5)
    document = shop.ys("prune", "--older", "1ms", "-n", "--json").json

    assert drawn.code == 0
    assert document["would"] == []
    assert document["kept"] == [
        {"execution_id": "child", "why": "its parent parent is open"},
    ]
    said = shop.screen("prune", "--older", "1ms", "--yes")
    assert "child is kept: its parent parent is open." in said.err


def test_erased_bytes_are_nowhere(shop: Shop) -> None:
    """S27."""
    old_and_new(shop)

    said = shop.screen("prune", "--older", "7d", "--yes", "--erase")
    shop.ys("delete", "new", "--yes", "--erase")
    shop.close()

    assert said.code == 0
    assert "Backups, and copies beside the file, still hold what they held." in said.err
    assert all(b"secret" not in path.read_bytes() for path in shop.root.glob("ys.db*"))


# --- what a pruned one looks like ----------------------------------------------------------------


def test_a_pruned_one_says_so_wherever_it_is_shown(shop: Shop) -> None:
    """spec E3: its ID, workflow, status and moments, and that the rest is gone."""
    old_and_new(shop)
    shop.ys("prune", "--older", "7d", "--yes")

    drawn, piped = shop.screen("show", "old-1").out, shop.ys("show", "old-1").out
    document = shop.ys("show", "old-2", "--json").json

    assert "old-1    charge-order    ✓ completed" in drawn
    assert "its history and values are no longer kept" in drawn
    assert "no step has ended" not in drawn
    assert "result" not in drawn
    assert "status\tcompleted\npruned\t2026-" in piped
    assert document["outcome"] == {"status": "failed"}
    assert document["pruned_at"].startswith("2026-")
    assert (document["params"], document["context"], document["steps"]) == (None, {}, [])


def test_its_history_and_messages_are_not_said_never_to_have_been(shop: Shop) -> None:
    """spec E3: gone is another word than never there."""
    old_and_new(shop)
    shop.ys("prune", "--older", "7d", "--yes")

    history = shop.screen("show", "old-1", "--history")
    messages = shop.screen("messages", "old-1")

    assert history.out.splitlines()[1] == "  it is no longer kept"
    assert messages.out == ""
    assert messages.err == "old-1 was pruned; its messages are no longer kept.\n"
    assert shop.ys("messages", "old-1", "--json").json == []


def test_its_result_is_not_made_up(shop: Shop) -> None:
    """spec C2: neither by `show --result` nor by `wait`."""
    old_and_new(shop)
    shop.ys("prune", "--older", "7d", "--yes")

    said = shop.ys("show", "old-1", "--result", "--json")
    waited = shop.ys("wait", "old-1")

    assert (said.code, said.error["code"]) == (6, "OUTCOME_PRUNED")
    assert (waited.code, waited.out) == (0, "old-1\tcompleted\t\n")
    assert shop.ys("wait", "old-1", "--json").json["status"] == "completed"
    assert "result" not in shop.ys("wait", "old-1", "--json").json
    assert "no longer kept" in shop.ys("wait", "old-1", "--result").err
    assert "no longer kept" in shop.screen("wait", "old-2").out


def test_a_list_leaves_it_out_unless_it_is_asked_for(shop: Shop) -> None:
    """case 331: gone from the list, and still accounted for."""
    old_and_new(shop)
    shop.ys("prune", "--older", "7d", "--yes")

    assert set(shop.ys("list", "-q").out.split()) == {"new", "open"}
    assert set(shop.ys("list", "-q", "--pruned").out.split()) == {"new", "open", "old-1", "old-2"}
    assert "2 of 2" in shop.screen("list").out
    assert "4 of 4" in shop.screen("list", "--pruned").out


@pytest.mark.parametrize("how", ["fail", "show", "same"])
def test_its_id_is_never_used_again(shop: Shop, how: str) -> None:
    """spec E3; case 336: nobody can say any more whether the params are the same."""
    old_and_new(shop)
    shop.ys("prune", "--older", "7d", "--yes")

    said = shop.ys(
        *("trigger", "charge-order", "--id", "old-1", "-p", "order:=42", "--if-exists", how)
    )

    assert said.code == (0 if how == "show" else 3)
    if how != "show":
        assert "params that are no longer kept" in said.err


# --- delete --------------------------------------------------------------------------------------


def test_deleting_forgets_one_and_keeps_its_id(shop: Shop) -> None:
    """b.4: the same rule as prune; cases 331, 333, 334."""
    ended(shop, "done")
    ended(shop, "other")

    said = shop.ys("delete", "done", "--yes")
    again = shop.ys("delete", "done", "--yes", "--json")

    assert (said.code, said.out) == (0, "done\tdeleted\n")
    assert again.json == {
        "schema": "ys.answer/1",
        "execution_id": "done",
        "answer": "unchanged",
    }
    assert pruned(shop) == {"done": True, "other": False}
    assert shop.ys("delete", "nobody", "--yes").code == 4


def test_of_several_all_are_deleted_or_none(shop: Shop) -> None:
    """case 332: what is open is refused; `ys cancel --now` first."""
    ended(shop, "done")
    shop.admit("open")

    refused = shop.ys("delete", "done", "open", "--yes", "--json")
    assert (refused.code, refused.error["code"]) == (6, "EXECUTION_NEEDED")
    assert "ys cancel open --now" in refused.error["remedy"][1]
    assert not any(pruned(shop).values())

    shop.ys("cancel", "open", "--now")
    assert shop.ys("delete", "done", "open", "--yes").code == 0
    assert all(pruned(shop).values())


def test_what_an_open_one_needs_is_not_deleted(shop: Shop) -> None:
    """spec C2; case 219."""
    ended(shop, "parent")
    shop.admit("child")
    shop.storage.db.rows(
        "UPDATE executions SET detached = 1, parent = (SELECT n FROM executions"
        " WHERE execution_id = 'parent') WHERE execution_id = 'child'"
    )

    said = shop.ys("delete", "parent", "--yes")

    assert said.code == 6
    assert "its child child is open" in said.err
    assert not any(pruned(shop).values())


def test_deleting_asks(shop: Shop) -> None:
    """b.4: without a terminal it needs --yes."""
    ended(shop, "done")

    assert shop.ys("delete", "done").code == 2
    assert not any(pruned(shop).values())


# --- backup and restore --------------------------------------------------------------------------


def test_a_backup_and_its_restore(shop: Shop) -> None:
    """b.4; case 321."""
    ended(shop, "done")
    shop.admit("open")

    copied = shop.ys("backup", "copy.db")
    document = shop.ys("backup", "copy.db", "--force", "--json").json
    shop.admit("later")
    shop.clock.advance(MINUTE)  # The worker's lease has ended.
    shop.close()
    checked = shop.ys("--db", "copy.db", "check")
    asked = shop.ys("restore", "copy.db")
    restored = shop.ys("restore", "copy.db", "--yes", "--json")

    assert (copied.code, copied.out.split("\t")[0]) == (0, "copy.db")
    assert document["schema"] == "ys.backup/1"
    assert document["bytes"] == (shop.root / "copy.db").stat().st_size
    assert (checked.code, asked.code, restored.code) == (0, 2, 0)
    assert restored.json == {
        "schema": "ys.restored/1",
        "executions": 2,
        "open": 1,
        "returned": 0,
        "kept": str(shop.root / "ys.db.before-restore.bak"),
    }
    assert set(shop.ys("list", "-q").out.split()) == {"done", "open"}
    assert shop.storage.executions.get("open").status is Status.ADMITTED  # type: ignore[union-attr]


def test_for_a_person_it_says_what_comes_next(shop: Shop) -> None:
    """b.4."""
    ended(shop, "done")
    shop.storage.workers.stop(shop.worker_number or 0, "stopped")

    copied = shop.screen("backup", "a copy.db")
    restored = shop.screen("restore", "a copy.db", "--yes")

    assert copied.out.splitlines()[1] == "  Back again:  ys restore 'a copy.db'"
    assert restored.out.splitlines()[0] == "✓ Restored 1 execution, 0 of them open."


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("backup", "ys.toml"), 6),
        (("backup", "nowhere/copy.db"), 10),
        (("backup", "ys.db", "--force"), 6),
        (("restore", "nowhere.db", "--yes"), 10),
        (("restore", "ys.toml", "--yes"), 10),
        (("restore", "ys.db", "--yes"), 6),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(
    shop: Shop, words: tuple[str, ...], code: int
) -> None:
    """b.4: 6 for a file in the way, 10 for what is no database."""
    shop.admit()
    shop.close()
    (shop.root / "ys.toml").write_text("# " + "x" * 600)

    said = shop.ys(*words)

    assert said.code == code, said.err
    assert "Traceback" not in said.err
    assert set(shop.ys("list", "-q").out.split()) == {"order-42"}


def test_a_restore_waits_for_the_workers_to_leave(shop: Shop) -> None:
    """b.4: refused while workers live."""
    shop.admit()
    shop.ys("backup", "copy.db")
    shop.start_worker()
    shop.close()

    said = shop.ys("restore", "copy.db", "--yes", "--json")

    assert (said.code, said.error["code"]) == (6, "WORKERS_ALIVE")


# --- doctor --------------------------------------------------------------------------------------


def test_the_doctor_checks_the_file_and_says_what_can_be_pruned(shop: Shop) -> None:
    """b.4: a quick check, and the fix for each finding."""
    ended(shop, "done")
    shop.clock.advance(31 * DAY)
    assert "can be pruned: ys prune --older 30d" in shop.screen("doctor").out

    shop.storage.db.rows("UPDATE executions SET token = token + 1")
    found = shop.ys("doctor", "--json").json["findings"]

    assert [f["code"] for f in found] == ["STATUS_UNEARNED"]
    assert found[0]["execution_id"] == "done"


def test_it_goes_on_while_the_file_is_written(shop: Shop) -> None:
    """case 323: what is admitted meanwhile is there, and what is open is untouched."""
    old_and_new(shop)
    other = SqliteStorage(shop.db, clock=shop.clock)

    def write() -> None:
        other.executions.admit(workflow_id="w")

    done = list(shop.storage.upkeep.prune(Chosen(), pause=write))

    assert len(done) == 3
    assert shop.storage.reader.counts()["admitted"] == 2
    assert shop.ys("check").code == 0
    other.close()


def test_a_backup_that_others_may_write_is_not_restored(shop: Shop) -> None:
    """spec K5: unless its directory is trusted by name."""
    shop.admit()
    shop.ys("backup", "copy.db")
    shop.close()
    (shop.root / "copy.db").chmod(0o666)

    refused = shop.ys("restore", "copy.db", "--yes")
    trusted = shop.ys("restore", "copy.db", "--yes", "--trust-dir", str(shop.root))

    assert (refused.code, trusted.code) == (10, 0), (refused.err, trusted.err)


def test_nothing_is_restored_where_there_is_no_project(
    shop: Shop, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """spec K8: a command that writes makes no database just anywhere."""
    shop.admit()
    shop.ys("backup", "copy.db")
    elsewhere = tmp_path_factory.mktemp("elsewhere")

    said = shop.ys("-C", str(elsewhere), "restore", "copy.db", "--yes")

    assert said.code == 10
    assert list(elsewhere.iterdir()) == []
