"""Cases that only real processes show."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from typing import Any

from tests.process.shop import Shop
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

#: A step that keeps the interpreter to itself until the test writes to its pipe.
SELFISH = """
    import ctypes
    import os

    from yieldstar_cli import Step, workflow

    import gates


    def hold(name: str) -> str:
        gates.note(f"{name} begins")
        gate = f"{name}.{os.getpid()}.go"
        os.mkfifo(gate)
        with open(f"{name}.entered", "w") as pipe:
            pipe.write(str(os.getpid()))
        fd = os.open(gate, os.O_RDONLY)
        # Unlike CDLL, PyDLL does not let other threads run meanwhile.
        answer = ctypes.create_string_buffer(16)
        ctypes.PyDLL(None).read(fd, answer, 16)
        os.close(fd)
        return answer.value.decode()


    @workflow
    async def selfish(step: Step, name: str) -> str:
        answer = await step.run(hold, name)
        return await step.run(gates.quick, answer)
"""


def open_gate(shop: Shop, name: str, pid: int) -> int:
    """Let the step's own `open` return; from then on it holds the interpreter."""
    return os.open(shop.folder / f"{name}.{pid}.go", os.O_WRONLY)


def test_a_step_that_keeps_the_interpreter_past_its_lease_is_fenced(shop: Shop) -> None:
    """case 143; spec L1, L2: no renewal gets through, another takes over, nothing late counts."""
    shop.module("selfish", SELFISH)
    shop.gate("a")
    shop.ys("trigger", "selfish", "--id", "a", "-p", "name=a", check=True)
    selfish = shop.start("worker")
    other = None
    try:
        pid = shop.wait_entered("a")
        # Meanwhile the worker comes to rest: none of its threads is within a transaction.
        assert shop.show("a")["deliveries"] == 1
        first = open_gate(shop, "a", pid)
        # Half a minute passes: nobody can renew in there.
        storage = SqliteStorage(str(shop.folder / "ys.db"))
        storage.db.rows("UPDATE workers SET lease_until_at = 1 WHERE stopped_at IS NULL")
        storage.close()
        other = shop.start("worker", "--for", "20s")
        second = open_gate(shop, "a", shop.wait_entered("a"))
        os.write(second, b"second")
        assert shop.ys("wait", "a", "--timeout", "30s").returncode == 0

        os.write(first, b"first")
        selfish.send_signal(signal.SIGTERM)
        _, said = selfish.communicate(timeout=30)

        assert (selfish.returncode, "Traceback" in said) == (0, False)
        shown = shop.show("a")
        assert shown["outcome"] == {"status": "completed", "result": "second"}
        assert (shown["deliveries"], shown["problem"], shown["poisoned"]) == (2, None, None)
        assert [lost["how"] for lost in shown["lost_deliveries"]] == ["lease ended"]
        assert shop.lines() == ["a begins", "a begins", "second"]
    finally:
        for worker in (selfish, other):
            if worker is not None:
                worker.kill()
                worker.communicate()


MANY = "\n".join(
    ["from yieldstar_cli import Step, workflow"]
    + [
        f"@workflow\nasync def nap_{n}(step: Step) -> None:\n    await step.sleep('1d')"
        for n in range(35)
    ]
)
ADMIT = """
from yieldstar_cli.runtime import open_runtime

with open_runtime() as runtime:
    for n in range(350):
        runtime.trigger(f"nap-{n % 35}", id=f"n{n}")
"""


def cpu_of(shop: Shop, span: str) -> float:
    """The processor seconds of a worker that stays for `span`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = shop.ys("worker", "--for", span)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert ended.returncode == 0, ended.stderr
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_an_idle_worker_costs_almost_nothing_and_writes_nothing(shop: Shop) -> None:
    """B97; cases 91, 92; spec K3: 35 workflows and 350 sleepers, and a worker with nothing to do.

    What two seconds cost more than a moment is measured, so that the start does not count.
    """
    shop.module("many", MANY)
    subprocess.run([sys.executable, "-c", ADMIT], cwd=shop.folder, env=shop._env(), check=True)
    assert shop.ys("worker", "--until-idle").returncode == 0
    assert shop.ys("list", "--status", "suspended", "-q", "--all").stdout.count("\n") == 350
    database = shop.folder / "ys.db"
    before = database.stat().st_size

    short = min(cpu_of(shop, "200ms") for _ in range(2))
    long = min(cpu_of(shop, "2s") for _ in range(2))

    assert (long - short) / 1.8 < 0.05
    assert database.stat().st_size == before


def test_only_and_except_choose_the_workflows_of_a_worker(shop: Shop) -> None:
    """spec K1, E7: others stay due, for whoever takes them; a name twice is harmless."""
    shop.module(
        "three",
        """
        from yieldstar_cli import Step, workflow

        @workflow
        async def one(step: Step) -> int:
            return 1

        @workflow
        async def two(step: Step) -> int:
            return 2

        @workflow
        async def three(step: Step) -> int:
            return 3
        """,
    )
    for name in ("one", "two", "three"):
        shop.ys("trigger", name, "--id", name, check=True)

    def done() -> list[str]:
        return sorted(shop.ys("list", "--done", "-q").stdout.split())

    assert shop.ys("worker", "--until-idle", "--only", "one").returncode == 0
    assert done() == ["one"]
    assert shop.ys("worker", "--until-idle", "--except", "three,three").returncode == 0
    assert done() == ["one", "two"]
    assert shop.show("three")["deliveries"] == 0
    assert shop.ys("worker", "--until-idle").returncode == 0
    assert done() == ["one", "three", "two"]


def test_as_many_steps_run_at_once_as_j_says_and_others_go_on(shop: Shop) -> None:
    """spec K1; B64: with -j 1 one waits for the other's thread; with 2 it does not."""
    for name in ("a", "b"):
        shop.gate(name)
        shop.ys("trigger", "gated", "--id", name, "-p", f"name={name}", check=True)
    worker = shop.start("worker", "-j", "1", "--until-idle")
    pid = shop.wait_entered("a")
    assert "b begins" not in shop.lines()
    shop.let_go("a", pid)
    shop.let_go("b", shop.wait_entered("b"))
    assert worker.wait(30) == 0
    worker.communicate()
    assert shop.lines().index("a ends") < shop.lines().index("b begins")

    shop.ys("trigger", "gated", "--id", "c", "-p", "name=c", check=True)
    shop.gate("c")
    worker = shop.start("worker", "-j", "2", "--until-idle", "--lease", "1s")
    pid = shop.wait_entered("c")
    shop.ys("trigger", "simple", "--id", "d", "-p", "name=d", check=True)
    assert shop.ys("wait", "d", "--timeout", "30s").returncode == 0
    shop.let_go("c", pid)
    assert worker.wait(30) == 0
    worker.communicate()
    assert shop.show("c")["deliveries"] == 1


TRIGGER_TEN = """
from yieldstar_cli.runtime import open_runtime

with open_runtime() as runtime:
    for n in range(10):
        runtime.wait(runtime.trigger("simple", {"name": "x"}, id=f"l{n}"), timeout=30)
"""


def test_a_trigger_from_another_process_starts_within_milliseconds(shop: Shop) -> None:
    """spec K3; case 92: the best of ten, since the machine has other things to do."""
    worker = shop.start("worker")
    try:
        subprocess.run(
            [sys.executable, "-c", TRIGGER_TEN], cwd=shop.folder, env=shop._env(), check=True
        )
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=30)

    storage = SqliteStorage(str(shop.folder / "ys.db"), readonly=True)
    records = [storage.executions.get(f"l{n}") for n in range(10)]
    storage.close()
    assert all(r is not None and r.started_at is not None for r in records)
    assert min(r.started_at - r.admitted_at for r in records if r and r.started_at) <= 15


def test_a_later_change_of_a_default_changes_no_running_execution(shop: Shop) -> None:
    """spec E4: params are stored with the defaults of the moment of admission."""
    module = """
        from yieldstar_cli import Step, workflow

        @workflow
        async def ship(step: Step, order: int, days: int = {days}) -> list[int]:
            return [order, days]
        """
    shop.module("shipping", module.format(days=3))
    shop.ys("trigger", "ship", "--id", "before", "-p", "order=1", check=True)
    shop.module("shipping", module.format(days=14))
    shop.ys("trigger", "ship", "--id", "after", "-p", "order=2", check=True)

    assert shop.ys("worker", "--until-idle").returncode == 0

    results = [shop.show(name)["outcome"]["result"] for name in ("before", "after")]
    assert results == [[1, 3], [2, 14]]


def test_a_worker_for_a_name_that_nothing_has_is_refused(shop: Shop) -> None:
    """spec K4: with the nearest name; where a module does not load, it is said instead."""
    for option in ("--only", "--except"):
        wrong = shop.ys("worker", "--until-idle", option, "simple,gatd")
        assert wrong.returncode == 4, wrong.stderr
        assert f"there is no workflow 'gatd' for {option}" in wrong.stderr
        assert "Did you mean gated?" in wrong.stderr
        empty = shop.ys("worker", "--until-idle", option, " , ")
        assert empty.returncode == 2
        assert f"{option} names no workflow" in empty.stderr

    shop.module("broken", "import nothing_like_this\n")
    stays = shop.ys("worker", "--until-idle", "--only", "gatd")
    assert stays.returncode == 0
    assert "'gatd' for --only, unless in a module that does not load" in stays.stderr


def test_until_idle_leaves_what_sleeps_and_linger_waits_for_it(shop: Shop) -> None:
    """spec K1: timers and retry pauses suspend and are not waited for, unless they are near."""
    shop.module(
        "naps",
        """
        from yieldstar_cli import RetryPolicy, Step, this_step, workflow

        def second_time() -> str:
            if this_step().attempt == 1:
                raise ValueError("once")
            return "done"

        @workflow
        async def naps(step: Step) -> str:
            await step.sleep("700ms")
            again = step.using(retry=RetryPolicy(first="700ms"))
            return await again.run(second_time)

        @workflow
        async def rests(step: Step) -> None:
            await step.sleep("1h")
        """,
    )
    shop.ys("trigger", "naps", "--id", "n", check=True)
    shop.ys("trigger", "rests", "--id", "r", check=True)

    assert shop.ys("worker", "--until-idle").returncode == 0
    assert (shop.show("n")["status"], shop.show("n")["deliveries"]) == ("suspended", 1)
    assert shop.ys("worker", "--until-idle", "--linger", "5s").returncode == 0

    assert shop.show("n")["outcome"] == {"status": "completed", "result": "done"}
    assert shop.show("n")["deliveries"] == 3
    assert (shop.show("r")["status"], shop.show("r")["deliveries"]) == ("suspended", 1)


def test_a_step_that_opens_the_database_is_refused_with_the_remedy(shop: Shop) -> None:
    """spec K5: it would drop the worker's own locks; the step fails, the worker goes on."""
    shop.module(
        "peeks",
        """
        import sqlite3

        from yieldstar_cli import workflow

        @workflow
        def opens(name: str) -> int:
            with open(name, "rb") as file:
                return len(file.read())

        @workflow
        def connects(name: str) -> int:
            return sqlite3.connect(name).execute("SELECT 1").fetchone()[0]
        """,
    )
    for verb in ("opens", "connects"):
        for name in ("ys.db", "ys.db-wal", "ys.db-shm", "ys.db-lock"):
            shop.ys("trigger", verb, "--id", f"{verb}-{name}", "-p", f"name={name}", check=True)
    (shop.folder / "other.txt").write_text("four")
    shop.ys("trigger", "opens", "--id", "other", "-p", "name=other.txt", check=True)

    assert shop.ys("worker", "--until-idle").returncode == 0

    for verb in ("opens", "connects"):
        for name in ("ys.db", "ys.db-wal", "ys.db-shm", "ys.db-lock"):
            outcome = shop.show(f"{verb}-{name}")["outcome"]
            assert outcome["status"] == "failed", (verb, name)
            assert "open_runtime" in outcome["error"]["message"], (verb, name)
    assert shop.show("other")["outcome"] == {"status": "completed", "result": 4}


def test_a_broken_module_is_told_with_its_own_traceback(shop: Shop) -> None:
    """spec K1: down to the line that raised, without a line of ours; the rest run."""
    shop.module(
        "broken",
        """
        def prices() -> dict[str, int]:
            return {"tea": int("\\x1b[31mfree")}

        PRICES = prices()
        """,
    )
    shop.module("slip", "def f(:\n    pass\n")
    shop.ys("trigger", "simple", "--id", "s", "-p", "name=s", check=True)

    said = shop.ys("worker", "--until-idle")

    assert said.returncode == 0
    assert shop.show("s")["status"] == "completed"
    lines = said.stderr.splitlines()
    start = next(n for n, line in enumerate(lines) if "broken.py:" in line)
    assert "ValueError: invalid literal for int()" in lines[start]
    told = "\n".join(lines[start + 1 : start + 9])
    assert "  Traceback (most recent call last):" in told
    assert 'broken.py", line 5, in <module>' in told
    assert 'broken.py", line 3, in prices' in told
    assert "SyntaxError: invalid syntax" in said.stderr
    assert "yieldstar_cli" not in said.stderr
    assert "importlib" not in said.stderr
    assert "\x1b" not in said.stderr


def test_a_list_and_doctor_are_kept_by_no_record_whose_values_are_damaged(shop: Shop) -> None:
    """case 90; B88: they read none; whoever asks for that one is told that it is damaged."""
    for name in ("a", "b"):
        shop.ys("trigger", "simple", "--id", name, "-p", f"name={name}", check=True)
    storage = SqliteStorage(str(shop.folder / "ys.db"))
    storage.db.rows("UPDATE executions SET params = CAST(x'80FF' AS TEXT) WHERE execution_id = 'a'")
    storage.close()

    assert shop.ys("worker", "--until-idle").returncode == 0
    listed = shop.ys("list")
    doctor = shop.ys("doctor")
    shown = shop.ys("show", "a")

    assert [line.split("\t")[:3] for line in listed.stdout.splitlines()] == [
        ["a", "simple", "admitted"],
        ["b", "simple", "completed"],
    ]
    assert doctor.returncode == 7
    assert "UNDECODABLE" in doctor.stdout
    assert shown.returncode == 10
    assert "text that is not UTF-8" in shown.stderr
    assert shop.show("b")["outcome"] == {"status": "completed", "result": "b"}


def test_the_limit_of_the_project_holds_for_params_steps_and_results(shop: Shop) -> None:
    """spec V2; cases 20, 140: `max_value` of ys.toml, smaller or larger than the usual one."""
    shop.module(
        "sizes",
        """
        from yieldstar_cli import Step, UnserializableValue, workflow

        def make(size: int) -> str:
            return "x" * size

        @workflow
        async def sizes(step: Step, steps: int, result: int) -> str:
            try:
                await step.run(make, steps)
            except UnserializableValue as error:
                return str(error)
            return "y" * result
        """,
    )

    def run(name: str, steps: int, result: int) -> Any:
        words = ("-p", f"steps={steps}", "-p", f"result={result}")
        shop.ys("trigger", "sizes", "--id", name, *words, check=True)
        assert shop.ys("worker", "--until-idle").returncode == 0
        return shop.show(name)["outcome"]

    (shop.folder / "ys.toml").write_text("max_value = 1000\n")
    assert run("fits", 998, 998)["status"] == "completed"
    assert "result of make" in run("step", 999, 1)["result"]
    assert "1,000" in run("step-again", 999, 1)["result"]
    failed = run("result", 1, 999)
    assert (failed["status"], failed["error"]["name"]) == ("failed", "UnserializableValue")
    assert shop.ys("trigger", "simple", "-p", f"name={'x' * 1_000}").returncode == 5

    (shop.folder / "ys.toml").write_text("max_value = 40000000\n")
    large = run("large", 20_000_000, 20_000_000)
    assert large["status"] == "completed", large
    assert len(large["result"]) == 20_000_000


def test_durability_that_was_chosen_says_what_it_gives_up(shop: Shop) -> None:
    """spec E13: `normal` for every connection of the project, and never unasked for."""
    shop.ys("trigger", "simple", "--id", "a", "-p", "name=a", check=True)
    (shop.folder / "ys.toml").write_text('durability = "normal"\n')
    shop.module(
        "asks",
        """
        from yieldstar_cli import open_runtime, workflow

        @workflow
        def asks() -> int:
            with open_runtime() as runtime:
                return runtime._storage.db.rows("PRAGMA synchronous")[0][0]
        """,
    )
    shop.ys("trigger", "asks", "--id", "b", check=True)
    assert shop.ys("worker", "--until-idle").returncode == 0

    assert shop.show("b")["outcome"] == {"status": "completed", "result": 1}
    assert '"normal", which gives up the last commits' in shop.ys("help", "files").stdout


def test_a_worker_takes_its_settings_from_the_project(shop: Shop) -> None:
    """spec K8: jobs, lease and grace of ys.toml; what stands on the command line wins."""
    (shop.folder / "ys.toml").write_text('jobs = 1\nlease = "5s"\ngrace = "100ms"\n')
    shop.gate("a")
    shop.ys("trigger", "gated", "--id", "a", "-p", "name=a", check=True)
    worker = shop.start("worker", "-v")
    shop.wait_entered("a")
    storage = SqliteStorage(str(shop.folder / "ys.db"), readonly=True)
    (row,) = storage.workers.all(living=True)
    lease_ms = row.lease_until_at - row.started_at
    storage.close()
    worker.send_signal(signal.SIGTERM)
    said, _ = worker.communicate(timeout=30)

    assert worker.returncode == 0
    assert "1 slot" in said
    # As it was made, or renewed once or twice since.
    assert 5_000 <= lease_ms < 20_000
    again = shop.start("worker", "-v", "-j", "3", "--until-idle")
    shop.let_go("a", shop.wait_entered("a"))
    said, _ = again.communicate(timeout=30)
    assert (again.returncode, "3 slots" in said) == (0, True)
    assert [lost["how"] for lost in shop.show("a")["lost_deliveries"]] == ["handed back"]
