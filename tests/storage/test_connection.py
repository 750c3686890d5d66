"""Opening a database: what is asserted, what is refused, and that refusing touches nothing."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from yieldstar_cli.clock import ManualClock
from yieldstar_cli.errors import (
    CorruptFile,
    DatabaseBusy,
    DatabaseReadOnly,
    ForeignFile,
    NoDatabase,
    SchemaTooNew,
    StorageError,
    UnsafeFilesystem,
    UntrustedPath,
)
from yieldstar_cli.storage.sqlite import schema
from yieldstar_cli.storage.sqlite.connection import open_connection
from yieldstar_cli.storage.sqlite.database import Database
from yieldstar_cli.storage.sqlite.files import filesystem_type
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

ROOT = Path(__file__).parents[2]


def raw(path: Path, *statements: str) -> None:
    """Another program writes to `path`."""
    connection = apsw.Connection(str(path))
    for statement in statements:
        connection.execute(statement).fetchall()
    connection.close()


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def pragma(storage: SqliteStorage, name: str) -> object:
    return storage.db.rows(f"PRAGMA {name}")[0][0]


# --- what is asserted at every open ----------------------------------------------------------


def test_every_open_has_write_ahead_log_and_full_durability(db_path: Path) -> None:
    """spec E13; invariant I17: journal_mode=wal and synchronous=2, asserted at every open."""
    for options in ({"create": True}, {}, {"readonly": True}):
        storage = SqliteStorage(db_path, **options)

        assert pragma(storage, "journal_mode") == "wal"
        assert pragma(storage, "synchronous") == 2
        assert pragma(storage, "fullfsync") == 1
        assert pragma(storage, "checkpoint_fullfsync") == 1
        storage.close()


def test_normal_durability_is_only_what_was_asked_for(db_path: Path) -> None:
    """spec E13: `normal` can be chosen and is never the default."""
    normal = SqliteStorage(db_path, create=True, durability="normal")
    default = SqliteStorage(db_path)

    assert pragma(normal, "synchronous") == 1
    assert pragma(default, "synchronous") == 2
    normal.close()
    default.close()


def test_the_connection_trusts_nothing_in_the_file(storage: SqliteStorage) -> None:
    """security S9: trusted schema, double-quoted strings, triggers, views, extensions: off."""
    connection = storage.db.connection

    assert pragma(storage, "trusted_schema") == 0
    assert pragma(storage, "cell_size_check") == 1
    assert connection.limit(apsw.SQLITE_LIMIT_ATTACHED, -1) == 0
    assert connection.limit(apsw.SQLITE_LIMIT_LENGTH, -1) < 1_000_000_000
    for option in (
        apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER,
        apsw.SQLITE_DBCONFIG_ENABLE_VIEW,
        apsw.SQLITE_DBCONFIG_DQS_DML,
        apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION,
    ):
        assert connection.config(option, -1) == 0
    assert connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, -1) == 1


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_files_are_for_the_owner_alone(db_path: Path, umask: int) -> None:
    """spec K5; security S11: mode 0600 for the file, its log and its index, whatever the umask."""
    before = os.umask(umask)
    try:
        storage = SqliteStorage(db_path, create=True)
        storage.executions.admit(workflow_id="w")
    finally:
        os.umask(before)

    modes = {file.name: file.stat().st_mode & 0o777 for file in db_path.parent.iterdir()}
    storage.close()

    assert modes == {"ys.db": 0o600, "ys.db-wal": 0o600, "ys.db-shm": 0o600}


def test_an_empty_file_becomes_a_database(db_path: Path) -> None:
    """A file of 0 bytes, as `touch` or a crash at its making leaves it, is set up."""
    db_path.touch()

    SqliteStorage(db_path).close()

    assert SqliteStorage(db_path, readonly=True).reader.counts() == {}


def test_the_file_says_what_it_is(storage: SqliteStorage) -> None:
    """spec K7: application_id and schema version are in the file from the first commit."""
    assert pragma(storage, "application_id") == schema.APPLICATION_ID
    assert pragma(storage, "user_version") == schema.SCHEMA_VERSION
    assert len(storage.db.rows("SELECT uuid FROM file")) == 1


def test_closing_leaves_one_whole_file(db_path: Path) -> None:
    """The last one out folds the log into the file: a copy of it alone is complete then."""
    storage = SqliteStorage(db_path, create=True)
    storage.executions.admit(workflow_id="w", execution_id="a")

    storage.close()
    storage.close()

    assert [file.name for file in db_path.parent.iterdir()] == ["ys.db"]


def test_a_closed_database_says_so(db_path: Path) -> None:
    """V3: an error of the program's own, also for what is used too late."""
    storage = SqliteStorage(db_path, create=True)
    storage.close()

    for use in (lambda: storage.executions.get("a"), storage.changes, storage.reader.counts):
        with pytest.raises(StorageError, match="was closed"):
            use()


def test_a_copy_of_the_file_alone_is_an_older_state(db_path: Path) -> None:
    """B27: without its log a copy taken beside a running worker is whole, and merely older."""
    storage = SqliteStorage(db_path, create=True)
    storage.executions.admit(workflow_id="w", execution_id="a")
    copy = db_path.with_name("copy.db")
    copy.write_bytes(subprocess.check_output(["cat", str(db_path)]))

    restored = SqliteStorage(copy, readonly=True)

    assert restored.db.rows("PRAGMA integrity_check") == [("ok",)]
    assert restored.reader.counts() in ({}, {"admitted": 1})
    restored.close()
    storage.close()


# --- what is refused ---------------------------------------------------------------------------


def test_another_program_s_database_is_refused_untouched(db_path: Path) -> None:
    """spec K7; G10: a foreign file is refused with not one byte written, whatever its mode."""
    for journal in ("DELETE", "WAL"):
        db_path.unlink(missing_ok=True)
        raw(
            db_path,
            f"PRAGMA journal_mode = {journal}",
            "CREATE TABLE t (a)",
            "INSERT INTO t VALUES (1)",
        )
        before = contents(db_path.parent)

        for options in ({"create": True}, {}, {"readonly": True}):
            with pytest.raises(ForeignFile, match="another program"):
                SqliteStorage(db_path, **options)

        assert contents(db_path.parent)["ys.db"] == before["ys.db"]


def test_another_program_s_log_is_not_folded_into_its_file(db_path: Path) -> None:
    """spec K7: refusing a file whose owner was killed leaves its log as it is."""
    script = (
        "import apsw, os, sys\n"
        "c = apsw.Connection(sys.argv[1])\n"
        "c.execute('PRAGMA journal_mode = WAL').fetchall()\n"
        "c.execute('CREATE TABLE t (a); INSERT INTO t VALUES (1)')\n"
        "os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(db_path)], check=True)
    before = contents(db_path.parent)
    assert before["ys.db-wal"]

    for options in ({"create": True}, {"readonly": True}):
        with pytest.raises(ForeignFile):
            SqliteStorage(db_path, **options)

    after = contents(db_path.parent)
    assert after["ys.db"] == before["ys.db"]
    assert after["ys.db-wal"] == before["ys.db-wal"]


def test_another_program_s_journal_is_not_rolled_back(db_path: Path) -> None:
    """spec K7: nor is a transaction rolled back that its owner's crash left open."""
    script = (
        "import apsw, os, sys\n"
        "c = apsw.Connection(sys.argv[1])\n"
        "c.execute('PRAGMA cache_size = 1; CREATE TABLE t (a)')\n"
        "rows = '[' + '1,' * 200 + '1]'\n"
        "c.execute('BEGIN; INSERT INTO t SELECT randomblob(5000) FROM json_each(?)', (rows,))\n"
        "os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(db_path)], check=True)
    before = contents(db_path.parent)
    assert before["ys.db-journal"]

    for options in ({"create": True}, {"readonly": True}):
        with pytest.raises(ForeignFile):
            SqliteStorage(db_path, **options)

    assert contents(db_path.parent) == before


def test_a_newer_file_is_refused_untouched(db_path: Path) -> None:
    """spec K7; B30: one line saying which schema it has, nothing written."""
    SqliteStorage(db_path, create=True).close()
    raw(db_path, f"PRAGMA user_version = {schema.SCHEMA_VERSION + 1}")
    before = contents(db_path.parent)["ys.db"]

    for options in ({"create": True}, {}, {"readonly": True}):
        with pytest.raises(SchemaTooNew, match=f"schema {schema.SCHEMA_VERSION + 1}") as refused:
            SqliteStorage(db_path, **options)
        assert refused.value.exit_code == 10
        assert refused.value.remedy

    assert contents(db_path.parent)["ys.db"] == before


@pytest.mark.parametrize(
    "garbage",
    [b"not a database, but text" * 400, b"\0" * 8192, b"x"],
    ids=["text", "zeros", "byte"],
)
def test_what_is_no_database_is_refused_untouched(db_path: Path, garbage: bytes) -> None:
    """case 34; G10: one line, no traceback, nothing written."""
    db_path.write_bytes(garbage)

    for options in ({"create": True}, {"readonly": True}):
        with pytest.raises(StorageError) as refused:
            SqliteStorage(db_path, **options)
        assert refused.value.code in {"CORRUPT_FILE", "FOREIGN_FILE"}

    assert db_path.read_bytes() == garbage


def test_a_damaged_page_is_reported_as_damage(db_path: Path) -> None:
    """B28: 4 KiB overwritten in the middle: CorruptFile, never a wrong answer."""
    storage = SqliteStorage(db_path, create=True)
    with storage.atomic():
        for n in range(300):
            storage.executions.admit(workflow_id="w", params="x" * 300, execution_id=f"e-{n}")
    storage.close()
    data = bytearray(db_path.read_bytes())
    # A page of the records themselves: what holds something else may not be asked for.
    middle = data.index(b"x" * 300, len(data) // 2) // 4096 * 4096
    data[middle : middle + 4096] = b"\xff" * 4096
    db_path.write_bytes(bytes(data))

    damaged = SqliteStorage(db_path)
    with pytest.raises(CorruptFile, match="damaged") as refused:
        damaged.reader.find(limit=None)

    assert isinstance(refused.value.__cause__, apsw.CorruptError)
    damaged.close()


def test_a_trigger_that_is_not_ours_is_refused(db_path: Path) -> None:
    """security S9: a file that would run its own statements on ours is refused before any write."""
    SqliteStorage(db_path, create=True).close()
    raw(
        db_path,
        "CREATE TRIGGER steal AFTER INSERT ON executions BEGIN DELETE FROM executions; END",
    )

    with pytest.raises(ForeignFile, match="trigger"):
        SqliteStorage(db_path)


def test_paths_that_lead_nowhere_say_so(tmp_path: Path) -> None:
    """case 34: missing directory, missing file, a directory: one line each, nothing created."""
    with pytest.raises(NoDatabase, match="no directory"):
        SqliteStorage(tmp_path / "missing" / "ys.db", create=True)
    with pytest.raises(NoDatabase, match="no database"):
        SqliteStorage(tmp_path / "ys.db")
    with pytest.raises(NoDatabase, match="no database"):
        SqliteStorage(tmp_path / "ys.db", create=True, readonly=True)
    with pytest.raises(ForeignFile, match="a directory"):
        SqliteStorage(tmp_path, create=True)
    with pytest.raises(NoDatabase):
        SqliteStorage("", create=True)

    assert list(tmp_path.iterdir()) == []


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    """security S13: a FIFO would block for ever when opened."""
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(ForeignFile, match="not a plain file"):
        SqliteStorage(tmp_path / "pipe", create=True)


@pytest.mark.parametrize("beside", ["", "-wal", "-shm", "-journal"])
def test_a_symbolic_link_is_refused(tmp_path: Path, beside: str) -> None:
    """security S10: the file and its side files are never links."""
    target = tmp_path / "target"
    target.write_bytes(b"")
    (tmp_path / f"ys.db{beside}").symlink_to(target)

    with pytest.raises(UntrustedPath, match="symbolic link"):
        SqliteStorage(tmp_path / "ys.db", create=True)

    assert target.read_bytes() == b""


def test_a_file_turned_into_a_link_while_it_is_checked_is_refused(
    tmp_path: Path, db_path: Path
) -> None:
    """security S14: whoever swaps the file between the check and the open gains nothing."""
    target = tmp_path / "target"
    SqliteStorage(target, create=True).close()
    before = target.read_bytes()
    SqliteStorage(db_path, create=True).close()

    def swap(_: str) -> str:
        db_path.unlink()
        db_path.symlink_to(target)
        return "ext4"

    with pytest.raises(UntrustedPath, match="symbolic link"):
        open_connection(db_path, create=True, filesystem_of=swap)

    assert target.read_bytes() == before


def test_a_link_among_the_directories_is_followed(tmp_path: Path) -> None:
    """Only the file itself may not be a link: homes and /tmp often are."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")

    SqliteStorage(tmp_path / "link" / "ys.db", create=True).close()

    assert (tmp_path / "real" / "ys.db").exists()


@pytest.mark.parametrize("name", ["a?mode=memory", "file:x.db", ":memory:", "x%20y", "a#b", "ü.db"])
def test_a_path_is_taken_literally(tmp_path: Path, name: str) -> None:
    """security S12: URI parsing is off."""
    SqliteStorage(tmp_path / name, create=True).close()

    assert [file.name for file in tmp_path.iterdir()] == [name]
    SqliteStorage(tmp_path / name, readonly=True).close()


def test_a_network_file_system_is_refused(db_path: Path) -> None:
    """B24; case 322: locks and shared memory do not work there; refused before it is created."""
    for kind in ("nfs4", "cifs", "fuse.sshfs"):
        with pytest.raises(UnsafeFilesystem, match=kind):
            open_connection(db_path, create=True, filesystem_of=lambda _, kind=kind: kind)

    assert not db_path.exists()
    open_connection(db_path, create=True, filesystem_of=lambda _: "ext4").close()


def test_the_innermost_mount_holds_a_directory() -> None:
    """B24: the longest mount point counts, of two at one place the later; spaces are escaped."""
    mounts = (
        "/dev/a / ext4 rw 0 0\nserver:/x /mnt nfs4 rw 0 0\n"
        "/dev/b /mnt/my\\040disk xfs rw 0 0\ntmpfs /mnt/my\\040disk tmpfs rw 0 0\n"
    )

    assert filesystem_type("/home/me", mounts) == "ext4"
    assert filesystem_type("/mnt", mounts) == "nfs4"
    assert filesystem_type("/mnt/sub", mounts) == "nfs4"
    assert filesystem_type("/mntx", mounts) == "ext4"
    assert filesystem_type("/mnt/my disk/db", mounts) == "tmpfs"


def test_a_reader_is_refused_a_write(db_path: Path) -> None:
    """B25: a writing call on a file that may only be read fails once, with its own code."""
    SqliteStorage(db_path, create=True).close()
    storage = SqliteStorage(db_path, readonly=True)

    with pytest.raises(DatabaseReadOnly):
        storage.executions.admit(workflow_id="w")
    with pytest.raises(DatabaseReadOnly):
        storage.executions.claim_due(1)

    storage.close()


AS_NOBODY = """
import sys
sys.path[:0] = {path!r}
from yieldstar_cli.errors import YieldstarError
from yieldstar_cli.storage.sqlite.storage import SqliteStorage
# Rooms are loaded when they are first asked for; nobody may not read where they lie.
from yieldstar_cli.storage.sqlite import executions, inbox
import os
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
for options in (dict(readonly=True), dict(), dict(create=True)):
    try:
        storage = SqliteStorage(sys.argv[1], **options)
        print("read", storage.executions.get("a") is not None)
        storage.close()
    except YieldstarError as error:
        print(error.code)
"""


def as_nobody(path: Path) -> list[str]:
    """What opening `path` gives a user without special rights: to read, to write, to create."""
    script = AS_NOBODY.format(path=[str(ROOT), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], check=True, capture_output=True, text=True
    )
    return done.stdout.split("\n")[:-1]


def opened_up(path: Path) -> None:
    """Let anybody come as far as the directory of `path`."""
    for folder in path.parents:
        if folder.stat().st_uid == os.getuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)


def test_a_read_only_file_can_be_read(db_path: Path) -> None:
    """case 34; B25: `chmod 444`: reading works, writing is refused in one line."""
    storage = SqliteStorage(db_path, create=True)
    storage.executions.admit(workflow_id="w", execution_id="a")
    storage.close()
    opened_up(db_path)
    db_path.chmod(0o444)
    db_path.parent.chmod(0o777)

    assert as_nobody(db_path) == ["read True", "DATABASE_READ_ONLY", "DATABASE_READ_ONLY"]


def test_a_file_in_a_read_only_directory_can_be_read(db_path: Path) -> None:
    """case 34: there SQLite can make none of its side files, and nobody can be writing."""
    storage = SqliteStorage(db_path, create=True)
    storage.executions.admit(workflow_id="w", execution_id="a")
    storage.close()
    opened_up(db_path)
    db_path.chmod(0o644)
    db_path.parent.chmod(0o555)

    assert as_nobody(db_path) == ["read True", "DATABASE_READ_ONLY", "DATABASE_READ_ONLY"]


def test_a_read_only_directory_takes_no_new_file(db_path: Path) -> None:
    """case 34: nothing is created; what is missing is said."""
    opened_up(db_path)
    db_path.parent.chmod(0o555)

    assert as_nobody(db_path) == ["NO_DATABASE", "NO_DATABASE", "DATABASE_READ_ONLY"]


def test_a_file_of_another_user_cannot_be_read(db_path: Path) -> None:
    """spec K5: 0600 keeps others out, and they are told so."""
    SqliteStorage(db_path, create=True).close()
    opened_up(db_path)
    db_path.chmod(0o000)

    assert as_nobody(db_path) == ["NO_DATABASE"] * 3


def test_a_writer_elsewhere_is_waited_for_then_said(db_path: Path) -> None:
    """case 33: the write lock held beyond the timeout: DATABASE_BUSY, no record, retriable."""
    storage = SqliteStorage(db_path, create=True, busy_timeout_ms=20)
    other = SqliteStorage(db_path)

    with other.atomic(), pytest.raises(DatabaseBusy):
        storage.executions.admit(workflow_id="w", execution_id="a")

    assert storage.executions.get("a") is None
    storage.executions.admit(workflow_id="w", execution_id="a")
    storage.close()
    other.close()


# --- migrations ----------------------------------------------------------------------------------


def newer_program(folder: Path) -> schema.Migrations:
    """The migrations of a later version, which adds a table."""
    folder.mkdir()
    for file in schema.ours().folder.iterdir():
        if file.name.endswith(".sql"):
            (folder / file.name).write_text(file.read_text("utf-8"))
    newest = schema.SCHEMA_VERSION + 1
    (folder / f"{newest:04d}_more.sql").write_text(
        "-- later\nCREATE TABLE more (a INTEGER) STRICT;\n"
    )
    return schema.Migrations(folder, newest)


def test_an_older_file_is_migrated_after_a_backup(
    db_path: Path, clock: ManualClock, tmp_path: Path
) -> None:
    """spec K7: one transaction after a backup; the backup opens with the older program."""
    old = SqliteStorage(db_path, create=True, clock=clock)
    old.executions.admit(workflow_id="w", execution_id="a")
    later = newer_program(tmp_path / "later")

    schema.bring_up_to_date(old.db, clock, Dice(), later)
    schema.bring_up_to_date(old.db, clock, Dice(), later)

    assert pragma(old, "user_version") == later.newest
    assert old.db.rows("SELECT * FROM more") == []
    assert old.executions.get("a") is not None
    old.close()
    backup = tmp_path / f"ys.db.schema-{schema.SCHEMA_VERSION}.bak"
    assert backup.stat().st_mode & 0o777 == 0o600
    restored = SqliteStorage(backup)
    assert restored.executions.get("a") is not None
    restored.close()
    with pytest.raises(SchemaTooNew):
        SqliteStorage(db_path)


def test_a_migration_that_fails_changes_nothing(
    db_path: Path, clock: ManualClock, tmp_path: Path
) -> None:
    """spec K7: all of it or none."""
    storage = SqliteStorage(db_path, create=True, clock=clock)
    later = newer_program(tmp_path / "later")
    (file,) = (tmp_path / "later").glob("*_more.sql")
    file.write_text("CREATE TABLE more (a INTEGER) STRICT;\nCREATE TABLE executions (a);\n")

    with pytest.raises(StorageError):
        schema.bring_up_to_date(storage.db, clock, Dice(), later)

    assert pragma(storage, "user_version") == schema.SCHEMA_VERSION
    assert storage.db.rows("SELECT * FROM sqlite_schema WHERE name = 'more'") == []
    storage.close()


class Dice:
    """Chance without chance."""

    def execution_suffix(self) -> str:
        return "00000000"

    def seed(self) -> bytes:
        return b"\0" * 16


# --- forks -------------------------------------------------------------------------------------

FORKS = """
import os, sys
from yieldstar_cli.errors import StorageError
from yieldstar_cli.model import Suspended
from yieldstar_cli.storage.sqlite.storage import SqliteStorage
storage = SqliteStorage(sys.argv[1], create=True)
storage.executions.admit(workflow_id="w", execution_id="a")
(delivery,) = storage.executions.claim_due(2**46)
for _ in range(30):
    child = os.fork()
    if child == 0:
        try:
            storage.executions.get("a")
        except StorageError as error:
            assert "forked" in str(error)
            storage.close()
            sys.exit(7)
        sys.exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    storage.executions.request_wake("a", 5)
assert storage.db.rows("PRAGMA integrity_check") == [("ok",)]
assert storage.executions.get("a").delivery is not None
storage.executions.acknowledge(delivery, Suspended())
print("fine")
"""


def test_a_forked_child_never_uses_our_connection(db_path: Path) -> None:
    """B19; case 317: the child is refused and exits; the parent's file and claim are whole."""
    done = subprocess.run(
        [sys.executable, "-c", FORKS, str(db_path)],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )

    assert done.stdout == "fine\n"


def test_a_file_that_is_set_up_while_it_is_being_looked_at_is_not_taken_for_another_programs(
    db_path: Path,
) -> None:
    """spec K7; case 344: all that is asked of a file is asked of one view of it."""
    db_path.touch(mode=0o600)
    looked: list[str] = []

    def interfere(cursor: object, sql: str, bindings: object) -> bool:
        looked.append(sql)
        if len(looked) == 3:  # BEGIN, the application, and then the version
            with contextlib.suppress(DatabaseBusy):
                SqliteStorage(db_path, create=True, busy_timeout_ms=1).close()
        return True

    connection = apsw.Connection(str(db_path))
    connection.exec_trace = interfere
    seen = schema.version_of(Database(connection, str(db_path), readonly=True))
    connection.close()

    assert seen == 0
    assert len(looked) > 3
    SqliteStorage(db_path, create=True).close()
