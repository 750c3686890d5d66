"""Pruning, copying and checking while real workers run (processes, one file)."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

from tests.process.shop import Shop
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

COUNT = 150


def test_workers_go_on_while_their_past_is_pruned_and_copied(tmp_path: Path) -> None:
    """cases 311, 321, 323: every execution runs once; every copy is sound; so is the file."""
    shop = Shop(tmp_path / "shop")
    shop.ys("trigger", "simple", "--id", "first", "-p", "name=first", check=True)
    storage = SqliteStorage(shop.folder / "ys.db")
    with storage.atomic():
        for n in range(COUNT):
            storage.executions.admit(
                workflow_id="simple", execution_id=f"e-{n}", params={"name": f"n{n}"}
            )
    workers = [shop.start("worker", "-q", "--until-idle") for _ in range(2)]
    copies, said = 0, []

    while copies < 2 or any(worker.poll() is None for worker in workers):
        said.append(shop.ys("prune", "--older", "1ms", "--yes"))
        said.append(shop.ys("backup", f"copy-{copies}.db"))
        said.append(shop.ys("check"))
        copies += 1

    assert [run.stderr for run in said if run.returncode != 0] == []
    assert [worker.wait() for worker in workers] == [0, 0]
    for n in range(copies):
        checked = shop.ys("--db", f"copy-{n}.db", "check")
        assert (checked.returncode, checked.stdout) == (0, ""), checked
    assert shop.ys("prune", "--older", "1ms", "--yes").returncode == 0
    assert storage.reader.counts() == {"completed": COUNT + 1}
    assert storage.reader.counts(pruned=False) == {}
    lines = Counter(line.split()[0] for line in shop.lines())
    assert len(lines) == COUNT + 1
    assert set(lines.values()) == {1}
    for worker in workers:
        worker.communicate()
    storage.close()


def test_a_worker_killed_amid_a_pruning_finds_everything(tmp_path: Path) -> None:
    """case 323: the pruner dies, too; what is open goes on."""
    shop = Shop(tmp_path / "shop")
    shop.gate("a")
    shop.ys("trigger", "simple", "--id", "first", "-p", "name=first", check=True)
    shop.ys("worker", "-q", "--until-idle", check=True)
    shop.ys("trigger", "gated", "--id", "a", "-p", "name=a", check=True)
    worker = shop.start("worker", "-q")
    assert shop.wait_entered("a") == worker.pid

    pruned = shop.killed_at(1, "prune", "--older", "1ms", "--yes")
    worker.kill()
    worker.communicate()
    assert pruned.returncode == -9
    assert shop.ys("prune", "--older", "1ms", "--yes").stdout.startswith("1\t")
    assert shop.ys("check").returncode == 0

    other: subprocess.Popen[str] = shop.start("worker", "-q", "--until-idle")
    shop.let_go("a", shop.wait_entered("a"))
    assert other.wait(60) == 0
    other.communicate()
    assert shop.show("a")["outcome"] == {"status": "completed", "result": "done"}
    assert shop.show("first")["outcome"] == {"status": "completed"}
    assert shop.ys("check").returncode == 0
