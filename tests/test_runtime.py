"""The Python SDK over a real file: trigger, get, wait, wake, send, cancel, pause (K4, K10)."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import Enum
from pathlib import Path
from textwrap import dedent

import msgspec
import pytest

from tests.storage.faulty_vfs import broken, faulty_disk
from tests.workflow_files import ONE, own_directory, write
from yieldstar_cli import codec, failures, open_runtime, workflow
from yieldstar_cli.awaiting import ExecutionRef
from yieldstar_cli.engine.scope import in_workflow_body
from yieldstar_cli.errors import (
    CommitUnknown,
    ExecutionAdmissionError,
    ExecutionCancelled,
    ExecutionFailed,
    ExecutionIdConflict,
    ExecutionNotFound,
    InvalidExecutionEvent,
    InvalidMessageEvent,
    InvalidParams,
    MisplacedCall,
    NoDatabase,
    StorageError,
    UndecodableRecord,
    UnknownWorkflow,
    UntrustedPath,
    UsageError,
    WaitTimeout,
    WorkflowImportFailed,
)
from yieldstar_cli.model import CancelledOutcome, Completed, Failed, Message, Status, Suspended
from yieldstar_cli.project import find_project
from yieldstar_cli.runtime import Runtime, open_storage
from yieldstar_cli.runtime_words import user_name
from yieldstar_cli.storage.sqlite.storage import SqliteStorage


class Charge(msgspec.Struct):
    order: int
    note: str = "by card"


class Receipt(msgspec.Struct):
    charged: int


class Level(Enum):
    HIGH = 3


class Cancel(msgspec.Struct, rename="camel"):
    by_whom: str
    level: Level = Level.HIGH


@dataclass
class Note:
    at: date


@workflow
async def charge_order(step, p: Charge) -> Receipt:
    return Receipt(p.order)


@workflow
async def greet(step, name: str, times: int = 1) -> str:
    return name * times


@workflow(version=3)
async def no_params(step) -> None: ...


CHARGE = """
    import msgspec
    from yieldstar_cli import workflow

    class Charge(msgspec.Struct):
        order: int
        note: str = "by card"

    @workflow
    async def charge_order(step, p: Charge) -> int:
        return p.order
"""


@pytest.fixture
def project_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The current directory is a project with an empty `workflows/`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("YS_DB", raising=False)
    monkeypatch.delenv("YS_WORKFLOWS", raising=False)
    with own_directory(tmp_path):
        yield tmp_path


@pytest.fixture
def workflows(project_dir: Path) -> Path:
    return project_dir / "workflows"


@pytest.fixture
def runtime(project_dir: Path):
    with open_runtime() as opened:
        yield opened


@pytest.fixture
def worker(runtime: Runtime, project_dir: Path):
    """Another connection to the same file, which claims and acknowledges."""
    other = SqliteStorage(project_dir / "ys.db")
    yield other
    other.close()


def end(worker: SqliteStorage, outcome: Completed | Failed | CancelledOutcome) -> None:
    for delivery in worker.executions.claim_due(now=2**41):
        worker.executions.acknowledge(delivery, outcome)


def stored(runtime: Runtime, ref: ExecutionRef) -> object:
    record = runtime.get(ref)
    assert record is not None
    return record.params


# --- trigger ---------------------------------------------------------------------------------


def test_a_triggered_execution_is_on_record(runtime: Runtime):
    """spec K10, E1, E4: params as validated, defaults filled in."""
    ref = runtime.trigger(charge_order, Charge(42), id="order-42", context={"by": "ann"})

    record = runtime.get("order-42")
    assert str(ref) == ref.execution_id == "order-42"
    assert record is not None
    assert (record.workflow_id, record.version) == ("charge-order", 1)
    assert record.params == {"order": 42, "note": "by card"}
    assert record.context == {"by": "ann"}
    assert record.status is Status.ADMITTED


def test_a_reference_cannot_be_changed(runtime: Runtime):
    """spec K10: a frozen reference."""
    ref = runtime.trigger(charge_order, Charge(42))

    with pytest.raises(AttributeError):
        ref.execution_id = "other"  # type: ignore[misc]
    assert ref.execution_id.startswith("charge-order-")
    assert ref == ExecutionRef(ref.execution_id)


def test_params_may_be_an_instance_a_mapping_or_keywords(runtime: Runtime):
    """spec R1, V4: the workflow's own type, or a mapping that fits it."""
    by_mapping = runtime.trigger(charge_order, {"order": 7})
    by_keywords = runtime.trigger(greet, {"name": "Ann"})
    none = runtime.trigger(no_params)

    assert stored(runtime, by_mapping) == {"order": 7, "note": "by card"}
    assert stored(runtime, by_keywords) == {"name": "Ann", "times": 1}
    assert stored(runtime, none) == {}
    assert runtime.get(none).version == 3


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({}, "params.order"),
        ({"order": "4x"}, "expected int"),
        ({"order": 1, "oder": 2}, "params.oder"),
        ([1], "expected Charge"),
        (None, "params.order"),
    ],
)
def test_params_that_do_not_fit_are_refused_and_nothing_is_stored(runtime, params, words):
    """spec E4, V4: named by their place; `.code` is the RFC's or `INVALID_PARAMS`."""
    with pytest.raises(InvalidParams, match=words) as refused:
        runtime.trigger(charge_order, params, id="order-1")

    assert isinstance(refused.value, ExecutionAdmissionError)
    assert refused.value.code == "INVALID_PARAMS"
    assert runtime.get("order-1") is None


def test_params_beyond_the_limit_of_the_project_are_refused(project_dir: Path):
    """spec V2: with its size; `max_value` of ys.toml counts."""
    (project_dir / "ys.toml").write_text("max_value = 100\n")

    with open_runtime() as runtime, pytest.raises(InvalidExecutionEvent, match="limit of 100"):
        runtime.trigger(greet, {"name": "x" * 200}, id="long")


def test_an_id_in_use_is_a_conflict_that_says_by_what(runtime: Runtime):
    """RFC 001; spec E3."""
    runtime.trigger(charge_order, Charge(1), id="order-1")

    with pytest.raises(ExecutionIdConflict) as refused:
        runtime.trigger(charge_order, Charge(2), id="order-1")

    assert refused.value.code == "EXECUTION_ID_CONFLICT"
    assert (refused.value.workflow_id, refused.value.status) == ("charge-order", "admitted")
    assert runtime.get("order-1").params["order"] == 1


@pytest.mark.parametrize("bad", ["", "x" * 256, "a\nb", " a", "a ", "\ud800", 7])
def test_an_invalid_id_is_an_invalid_event(runtime: Runtime, bad):
    """case 23; spec E2: naming `execution_id`."""
    with pytest.raises(InvalidExecutionEvent) as refused:
        runtime.trigger(charge_order, Charge(1), id=bad)

    assert refused.value.place == "execution_id"
    assert refused.value.code == "INVALID_EXECUTION_EVENT"


@pytest.mark.parametrize(
    "good", ["-lead", "a/b", "..", "a b", "\u00e9", "e\u0301", "%41", "'; --", "漢" * 85]
)
def test_a_valid_id_comes_back_byte_for_byte(runtime: Runtime, good: str):
    """case 23; spec E2: no normalisation, no folding."""
    assert runtime.trigger(charge_order, Charge(1), id=good).execution_id == good
    assert runtime.get(good).execution_id == good


def test_ids_that_differ_in_case_or_form_are_different(runtime: Runtime):
    """cases 23, 24; spec E2."""
    for name in ("order-42", "Order-42", "\u00e9", "e\u0301"):
        runtime.trigger(charge_order, Charge(1), id=name)

    assert runtime.get("ORDER-42") is None


def test_context_that_would_not_come_back_is_refused(runtime: Runtime):
    """spec E4: context maps strings to values, each stored exactly."""
    for bad in ({1: "x"}, {"x": object()}, [1]):
        with pytest.raises(InvalidExecutionEvent, match="context"):
            runtime.trigger(charge_order, Charge(1), id="c", context=bad)  # type: ignore[arg-type]

    assert runtime.get("c") is None


def test_an_execution_may_be_admitted_for_later(runtime: Runtime):
    """spec E1: its first wake at the moment asked for, a datetime or milliseconds."""
    moment = datetime(2030, 1, 1, tzinfo=UTC)

    by_date = runtime.trigger(charge_order, Charge(1), at=moment)
    by_number = runtime.trigger(charge_order, Charge(1), at=5_000)

    assert runtime.get(by_date).due_at == int(moment.timestamp() * 1000)
    assert runtime.get(by_number).due_at == 5_000
    with pytest.raises(InvalidExecutionEvent, match="time zone"):
        runtime.trigger(charge_order, Charge(1), at=datetime(2030, 1, 1))


# --- by name: the catalog --------------------------------------------------------------------


def test_a_name_is_checked_against_the_modules(runtime: Runtime, workflows: Path):
    """spec K4: params too."""
    write(workflows, "charge.py", CHARGE)

    ref = runtime.trigger("charge-order", {"order": 42}, id="order-42")
    with pytest.raises(InvalidParams, match=r"params\.order"):
        runtime.trigger("charge-order", {"order": "no"})

    assert stored(runtime, ref) == {"order": 42, "note": "by card"}


def test_an_unknown_name_is_refused_with_the_nearest_and_what_failed(runtime, workflows: Path):
    """case 22; spec K4: files read, files that failed, with the line; nothing stored."""
    write(workflows, "charge.py", CHARGE)
    write(workflows, "broken.py", "x = 1\nboom\n")

    with pytest.raises(UnknownWorkflow) as refused:
        runtime.trigger("charge-ordr", {}, id="order-1")

    assert isinstance(refused.value, ExecutionAdmissionError)
    assert refused.value.code == "UNKNOWN_WORKFLOW"
    said = "\n".join(refused.value.why)
    assert "Did you mean charge-order?" in said
    assert "charge.py" in said
    assert "broken.py does not load: line 2: NameError" in said
    assert runtime.get("order-1") is None


@pytest.mark.parametrize("name", ["../evil", "/tmp/evil", "os.system", "a.b", "__main__", "evil\0"])
def test_a_name_is_never_a_path_or_an_import(runtime: Runtime, workflows: Path, name: str):
    """security S2; spec R1."""
    with pytest.raises(InvalidExecutionEvent, match="workflow_id"):
        runtime.trigger(name, {})


def test_only_what_changed_is_loaded_again(runtime: Runtime, workflows: Path, project_dir: Path):
    """spec K4: the cache answers by modification time and size."""
    counts = "from pathlib import Path\nwith Path(__file__ + '.ran').open('a') as f: f.write('x')\n"
    one = write(workflows, "one.py", counts)
    two = write(workflows, "two.py", counts)
    write(workflows, "charge.py", CHARGE)

    def ran(path: Path) -> int:
        return len(Path(f"{path}.ran").read_text())

    runtime.trigger("charge-order", {"order": 1})
    runtime.trigger("charge-order", {"order": 2})
    assert (ran(one), ran(two)) == (1, 1)
    write(workflows, "two.py", counts)
    runtime.trigger("charge-order", {"order": 3})
    assert (ran(one), ran(two)) == (1, 2)
    with open_runtime() as other:
        other.trigger("charge-order", {"order": 4})
    assert (ran(one), ran(two)) == (1, 2)


def test_a_change_in_what_a_module_imports_counts_as_its_own(runtime: Runtime, workflows: Path):
    """spec K4: the params of one module may be declared in another."""
    write(workflows, "pay.py", """
        from _types import Pay
        from yieldstar_cli import workflow

        @workflow
        async def pay(step, p: Pay) -> None: ...
    """)  # fmt: skip
    write(workflows, "_types.py", "import msgspec\nclass Pay(msgspec.Struct):\n    n: int\n")
    runtime.trigger("pay", {"n": 1})

    write(workflows, "_types.py", "import msgspec\nclass Pay(msgspec.Struct):\n    n: str\n")

    with pytest.raises(InvalidParams):
        runtime.trigger("pay", {"n": 1})
    assert stored(runtime, runtime.trigger("pay", {"n": "one"})) == {"n": "one"}


def test_a_removed_module_takes_its_workflows_with_it(runtime: Runtime, workflows: Path):
    """spec K4."""
    path = write(workflows, "charge.py", CHARGE)
    runtime.trigger("charge-order", {"order": 1})

    path.unlink()

    with pytest.raises(UnknownWorkflow, match="charge-order"):
        runtime.trigger("charge-order", {"order": 1})


def test_a_removed_helper_breaks_what_imports_it(runtime: Runtime, workflows: Path):
    """spec K4: what a trigger is checked against is what a worker would load now."""
    write(workflows, "pay.py", "import _rates\n" + dedent(ONE.format(name="pay")))
    helper = write(workflows, "_rates.py", "rate = 1\n")
    runtime.trigger("pay")

    helper.unlink()

    with pytest.raises(UnknownWorkflow) as refused:
        runtime.trigger("pay")
    assert "pay.py does not load: line 1: ModuleNotFoundError" in "\n".join(refused.value.why)


def test_a_module_that_breaks_later_is_no_longer_known(runtime: Runtime, workflows: Path):
    """spec K4: what a trigger is checked against is what a worker would load now."""
    write(workflows, "charge.py", CHARGE)
    runtime.trigger("charge-order", {"order": 1})

    write(workflows, "charge.py", "oops\n")

    with pytest.raises(UnknownWorkflow) as refused:
        runtime.trigger("charge-order", {"order": 1})
    assert "charge.py does not load: line 1: NameError" in "\n".join(refused.value.why)


def test_two_workflows_of_one_name_are_said_also_from_the_cache(runtime, workflows: Path):
    """case B66; spec K4."""
    write(workflows, "billing.py", ONE.format(name="process"))
    write(workflows, "shipping.py", ONE.format(name="process"))

    for _ in range(2):
        with pytest.raises(WorkflowImportFailed) as refused:
            runtime.trigger("process", {})
        assert "billing.py:4" in refused.value.message
        assert "shipping.py:4" in refused.value.message


def test_a_name_takes_the_latest_version(runtime: Runtime, workflows: Path):
    """spec R11."""
    write(workflows, "old.py", ONE.format(name="pay"))
    write(workflows, "new.py", ONE.format(name="pay").replace("@workflow", "@workflow(version=2)"))

    assert runtime.get(runtime.trigger("pay")).version == 2


def test_a_workflow_object_takes_its_own_version(runtime: Runtime, workflows: Path):
    """case 137; spec R11: whoever holds the old function means it, though a newer one is there."""
    write(
        workflows, "new.py", ONE.format(name="greet").replace("@workflow", "@workflow(version=2)")
    )

    ref = runtime.trigger(greet, {"name": "Ann"})

    record = runtime.get(ref)
    assert (record.version, record.params) == (1, {"name": "Ann", "times": 1})
    assert runtime.get(runtime.trigger("greet")).version == 2


def test_a_type_that_only_its_module_can_check_is_checked_by_it(runtime, workflows: Path):
    """spec K4: code of the author's runs when the value is made."""
    write(workflows, "pay.py", """
        import msgspec
        from yieldstar_cli import workflow

        class Pay(msgspec.Struct):
            cents: int

            def __post_init__(self):
                if self.cents < 0:
                    raise ValueError("cents must not be negative")

        @workflow
        async def pay(step, p: Pay) -> None: ...
    """)  # fmt: skip

    for _ in range(2):
        assert stored(runtime, runtime.trigger("pay", {"cents": 5})) == {"cents": 5}
        with pytest.raises(InvalidParams, match="must not be negative"):
            runtime.trigger("pay", {"cents": -5})


def test_instances_may_be_given_by_name_too(runtime: Runtime, workflows: Path):
    """spec K10: workflow or name; nested Structs and dataclasses are opened."""
    write(workflows, "ship.py", """
        from dataclasses import dataclass
        import msgspec
        from yieldstar_cli import workflow

        @dataclass
        class Place:
            town: str

        class Ship(msgspec.Struct):
            to: list[Place]

        @workflow
        async def ship(step, p: Ship) -> None: ...
    """)  # fmt: skip

    @dataclass
    class Place:
        town: str

    class Ship(msgspec.Struct):
        to: list[Place]

    for _ in range(2):
        ref = runtime.trigger("ship", Ship([Place("Ulm")]))
        assert stored(runtime, ref) == {"to": [{"town": "Ulm"}]}


def test_without_a_workflow_directory_a_name_is_admitted_as_it_is(project_dir: Path):
    """case 22; spec K4: through the API it is admitted, and waits for its code."""
    (project_dir / "workflows").rmdir()
    (project_dir / "ys.toml").touch()

    with open_runtime() as runtime:
        ref = runtime.trigger("anything", {"n": (1, 2)})
        assert stored(runtime, ref) == {"n": (1, 2)}
        assert stored(runtime, runtime.trigger("anything")) == {}
    (project_dir / "workflows").mkdir()


def test_an_untrusted_workflow_directory_is_refused_unless_named(project_dir, workflows: Path):
    """security S3; spec K5: nothing of it is loaded."""
    write(workflows, "charge.py", CHARGE)
    workflows.chmod(0o777)

    with open_runtime() as runtime, pytest.raises(UntrustedPath):
        runtime.trigger("charge-order", {"order": 1})
    assert "charge" not in sys.modules
    with open_runtime(trust_dirs=[workflows]) as runtime:
        runtime.trigger("charge-order", {"order": 1})


def test_looking_never_loads_a_module(runtime: Runtime, workflows: Path):
    """security S1; spec K4: get, wait and wake read the record alone."""
    runtime.trigger(charge_order, Charge(1), id="order-1")
    write(workflows, "charge_order.py", "open('imported', 'w')\n")

    runtime.get("order-1")
    runtime.wake("order-1")
    with pytest.raises(WaitTimeout):
        runtime.wait("order-1", timeout=0)

    assert not Path("imported").exists()


def test_a_trigger_by_name_loads_nothing_heavy(runtime: Runtime, workflows: Path):
    """design.md: what is cached is checked without asyncio, rich, or the module."""
    write(workflows, "charge.py", "import asyncio\n" + dedent(CHARGE))
    runtime.trigger("charge-order", {"order": 1})

    script = (
        "import sys\n"
        "from yieldstar_cli import open_runtime\n"
        "with open_runtime() as runtime:\n"
        "    print(runtime.trigger('charge-order', {'order': 2}, id='two'))\n"
        "heavy = {'asyncio', 'rich', 'typer', 'charge', 'yieldstar_cli.engine.registry'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )

    assert ran.stdout == "two\n[]\n"


# --- wait ------------------------------------------------------------------------------------


def test_a_result_comes_back_as_the_workflows_own_type(runtime: Runtime, worker):
    """spec K10: typed by the workflow object, plain by the ID."""
    ref = runtime.trigger(charge_order, Charge(42), id="order-42")
    end(worker, Completed(codec.encode(Receipt(42), Receipt)))

    assert runtime.wait(ref) == Receipt(42)
    assert runtime.wait("order-42") == {"charged": 42}


def test_waiting_sees_the_end_when_it_comes(project_dir: Path):
    """spec K10: another process ends it while this one waits."""
    project = find_project()
    worker = SqliteStorage(project.db, create=True)
    rests: list[float] = []

    def rest(seconds: float) -> None:
        rests.append(seconds)
        if len(rests) == 50:
            end(worker, Completed("7"))

    with Runtime(open_storage(project), project, rest=rest) as runtime:
        ref = runtime.trigger(no_params)
        assert runtime.wait(ref.execution_id) == 7
    worker.close()

    assert len(rests) == 50
    assert rests[0] < rests[10] <= 0.1
    assert max(rests) <= 0.1


def test_a_failed_execution_raises_what_failed(runtime: Runtime, worker):
    """spec K10, E11."""
    ref = runtime.trigger(charge_order, Charge(1), id="order-1")
    end(worker, Failed(failures.encode_error(ValueError("no card"))))

    with pytest.raises(ExecutionFailed) as failed:
        runtime.wait(ref)

    assert (failed.value.execution_id, failed.value.error_name) == ("order-1", "ValueError")
    assert failed.value.error_message == "no card"


def test_a_cancelled_execution_raises_that_it_was_cancelled(runtime: Runtime, worker):
    """spec K10."""
    ref = runtime.trigger(charge_order, Charge(1))
    end(worker, CancelledOutcome("too late"))

    with pytest.raises(ExecutionCancelled) as cancelled:
        runtime.wait(ref)

    assert cancelled.value.why == ("too late",)


def test_waiting_ends_in_time_and_changes_nothing(runtime: Runtime):
    """spec K10: a TimeoutError."""
    ref = runtime.trigger(charge_order, Charge(1))
    before = runtime.get(ref)

    for span in (0, "1ms", -1):
        with pytest.raises(TimeoutError):
            runtime.wait(ref, timeout=span)

    assert runtime.get(ref) == before


def test_a_timeout_that_is_no_span_is_a_usage_error(runtime: Runtime):
    """spec V3."""
    ref = runtime.trigger(charge_order, Charge(1))

    with pytest.raises(UsageError, match="10s or 10m"):
        runtime.wait(ref, timeout="10")


def test_an_unknown_id_is_not_waited_for(runtime: Runtime):
    """spec K10: with the nearest IDs."""
    runtime.trigger(charge_order, Charge(1), id="order-42")

    with pytest.raises(ExecutionNotFound) as refused:
        runtime.wait("order-43")

    assert "order-42" in refused.value.why[0]


def test_a_result_that_no_longer_fits_its_type_is_said(runtime: Runtime, worker):
    """spec V3: no traceback of a decoder's."""
    ref = runtime.trigger(charge_order, Charge(1), id="order-1")
    end(worker, Completed('"text"'))

    with pytest.raises(UndecodableRecord, match="order-1"):
        runtime.wait(ref)
    assert runtime.wait("order-1") == "text"


# --- wake, and use ---------------------------------------------------------------------------


def test_a_wake_answers_what_became_of_it(runtime: Runtime, worker):
    """RFC 001; spec E6, K10."""
    ref = runtime.trigger(charge_order, Charge(1), at=2**40)

    assert runtime.wake(ref, at=5_000) == "requested"
    assert runtime.get(ref).due_at == 5_000
    assert runtime.wake(ref, at=datetime(1970, 1, 1, 0, 0, 4, tzinfo=UTC)) == "requested"
    assert runtime.get(ref).due_at == 4_000
    end(worker, Completed("1"))
    assert runtime.wake(ref) == "ignored"
    with pytest.raises(ExecutionNotFound):
        runtime.wake("nobody")


# --- messages ----------------------------------------------------------------------------------


def test_a_message_is_delivered_buffered_or_refused(runtime: Runtime, worker):
    """cases 255, 258, B51; spec M1."""
    runtime.trigger(charge_order, Charge(1), id="open")
    runtime.trigger(charge_order, Charge(1), id="ended")
    worker.executions.acknowledge(claimed(worker, "ended"), Completed("1"))

    assert runtime.send("open", "cancel", {"reason": "late"}) == "delivered"
    assert runtime.send("later", "cancel", 1, ttl="10s") == "buffered"
    assert runtime.send("ended", "cancel", None) == "refused"

    (sent,) = runtime.messages("open")
    assert isinstance(sent, Message)
    assert (sent.queue, sent.state, sent.value) == ("cancel", "waiting", '{"reason":"late"}')
    (early,) = runtime.messages("later")
    assert early.state == "buffered"
    assert early.expires_at == early.sent_at + 10_000
    assert runtime.messages("ended") == []
    assert runtime.messages("open", queue="other") == []


def test_messages_to_an_ended_execution_do_not_pile_up(runtime: Runtime, worker):
    """case B52: nothing is stored, nothing becomes due."""
    ref = runtime.trigger(charge_order, Charge(1))
    end(worker, Completed("1"))
    before = runtime.get(ref)

    answers = {runtime.send(ref, "cancel", n, idempotency_key=str(n)) for n in range(1_000)}

    assert answers == {"refused"}
    assert runtime.messages(ref) == []
    assert runtime.get(ref) == before


def test_what_was_buffered_is_there_once_the_execution_is(runtime: Runtime):
    """case 256; spec M1."""
    runtime.send("later", "cancel", "first")
    runtime.send("later", "cancel", "second")

    ref = runtime.trigger(charge_order, Charge(1), id="later")

    assert [(m.state, m.value) for m in runtime.messages(ref)] == [
        ("waiting", '"first"'),
        ("waiting", '"second"'),
    ]


def test_a_key_is_one_message(runtime: Runtime):
    """case 259; spec M3."""
    ref = runtime.trigger(charge_order, Charge(1))

    assert runtime.send(ref, "cancel", 1, idempotency_key="k") == "delivered"
    assert runtime.send(ref, "cancel", 2, idempotency_key="k") == "delivered"

    assert [m.value for m in runtime.messages(ref)] == ["1"]


def test_the_ttl_of_the_project_counts_unless_one_is_given(project_dir: Path):
    """spec M1, K8."""
    (project_dir / "ys.toml").write_text('message_ttl = "1m"\n')

    with open_runtime() as runtime:
        runtime.send("later", "cancel", 1)
        runtime.send("later", "cancel", 2, ttl=2.5)
        spans = [m.expires_at - m.sent_at for m in runtime.messages("later")]

    assert spans == [60_000, 2_500]


@pytest.mark.parametrize("ttl", ["10", "never", 0, -1, float("nan")])
def test_a_ttl_that_is_no_span_is_a_usage_error(runtime: Runtime, ttl):
    with pytest.raises(UsageError):
        runtime.send("later", "cancel", 1, ttl=ttl)

    assert runtime.messages("later") == []


def test_a_message_is_a_struct_a_dataclass_or_plain_values(runtime: Runtime):
    """spec M1, V1: what it is made of comes back as it was."""
    ref = runtime.trigger(charge_order, Charge(1))
    for value in (Cancel("ann"), Note(date(2026, 11, 30)), [Note(date(2026, 1, 1))], (1, 2), None):
        assert runtime.send(ref, "cancel", value) == "delivered"

    first, second, third, fourth, last = (m.value for m in runtime.messages(ref))
    assert codec.decode(first, Cancel) == Cancel("ann")
    assert codec.decode(second, Note) == Note(date(2026, 11, 30))
    assert codec.decode(third, list[Note]) == [Note(date(2026, 1, 1))]
    assert codec.decode(fourth) == (1, 2)
    assert last == "null"


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (object(), "value"),
        ({"a": [1, {"b": object()}]}, r"value\.a\[1\]\.b"),
        ({1: 2}, "value"),
        ("\ud800", "value"),
        ("x" * 100, "value"),
    ],
)
def test_a_message_that_would_not_come_back_is_refused(project_dir: Path, value, place: str):
    """case 265; spec V1, V2: nothing is stored."""
    (project_dir / "ys.toml").write_text("max_value = 101\n")

    with open_runtime() as runtime:
        with pytest.raises(InvalidMessageEvent, match=f"^{place}") as refused:
            runtime.send("later", "cancel", value)
        assert runtime.messages("later") == []

    assert (refused.value.code, refused.value.exit_code) == ("INVALID_MESSAGE", 5)


@pytest.mark.parametrize("words", [("a b" * 100, "q"), ("x", "a/b"), ("x", ""), ("", "q")])
def test_a_message_to_what_cannot_be_is_refused(runtime: Runtime, words):
    """spec M1, E2, R3: an ID or a queue that none can have."""
    with pytest.raises(InvalidMessageEvent):
        runtime.send(*words, 1)
    with pytest.raises(InvalidMessageEvent):
        runtime.send("x", "q", 1, idempotency_key="")


# --- cancel, pause -------------------------------------------------------------------------------


def claimed(worker: SqliteStorage, execution_id: str):
    """The delivery of this execution; others that were due are handed back."""
    found = {d.execution_id: d for d in worker.executions.claim_due(now=2**41)}
    for delivery in found.values():
        if delivery.execution_id != execution_id:
            worker.executions.release(delivery)
    return found[execution_id]


def test_a_cancel_is_a_request_once_it_has_begun_and_an_end_before(runtime: Runtime, worker):
    """cases 270, 273-275, 280; spec C6."""
    begun = runtime.trigger(charge_order, Charge(1), id="begun")
    new = runtime.trigger(charge_order, Charge(1), id="new", at=2**42)
    worker.executions.acknowledge(claimed(worker, "begun"), Suspended())

    assert runtime.cancel(new, reason="twice") == "cancelled"
    assert runtime.cancel(begun, reason="first") == "requested"
    assert runtime.cancel(begun, reason="second") == "requested"

    assert runtime.get(new).outcome == CancelledOutcome("twice")
    assert runtime.get(begun).cancel.reason == "first"
    assert runtime.get(begun).due_at is not None
    with pytest.raises(ExecutionCancelled):
        runtime.wait(new)
    assert runtime.cancel(begun, reason="enough", now=True) == "cancelled"
    assert runtime.cancel(begun, now=True) == "ignored"
    assert runtime.get(begun).outcome == CancelledOutcome("enough")
    with pytest.raises(ExecutionNotFound, match="begn") as unknown:
        runtime.cancel("begn")
    assert unknown.value.why == ("Did you mean begun?",)


def test_an_execution_a_workflow_or_everything_is_paused(runtime: Runtime, worker, monkeypatch):
    """spec E14."""
    monkeypatch.setenv("LOGNAME", "ann")
    ref = runtime.trigger(charge_order, Charge(1), id="order-42")
    runtime.trigger(greet, {"name": "Ann"}, id="hello")

    assert runtime.pause(ref, reason="the bank is down") == "paused"
    assert runtime.pause(ref) == "unchanged"
    assert runtime.pause(workflow="greet", by="a robot") == "paused"
    assert worker.executions.claim_due(now=2**41) == []

    paused = runtime.get(ref).paused
    assert (paused.scope, paused.by, paused.reason) == ("execution", "ann", "the bank is down")
    assert runtime.get("hello").paused.by == "a robot"
    assert runtime.resume(ref) == "resumed"
    assert runtime.resume(ref) == "unchanged"
    assert runtime.pause() == "paused"
    assert runtime.resume(workflow="greet") == "resumed"
    assert worker.executions.claim_due(now=2**41) == []
    assert runtime.resume() == "resumed"
    assert len(worker.executions.claim_due(now=2**41)) == 2


def test_what_cannot_be_paused_says_why(runtime: Runtime, worker):
    """spec E14, V3."""
    runtime.trigger(charge_order, Charge(1), id="order-42")
    end(worker, Completed("1"))

    assert runtime.pause("order-42") == "ignored"
    assert runtime.resume("order-42") == "ignored"
    for steer in (runtime.pause, runtime.resume):
        with pytest.raises(ExecutionNotFound):
            steer("nobody")
        with pytest.raises(UsageError, match="not both"):
            steer("order-42", workflow="charge-order")
        with pytest.raises(InvalidExecutionEvent):
            steer(workflow="no name")


def test_without_a_name_the_user_is_a_number(monkeypatch):
    """As in a container whose user is in no list."""

    def nameless() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr("getpass.getuser", nameless)

    assert user_name() == f"uid {os.getuid()}"


def test_a_runtime_in_a_workflow_function_is_a_fault_of_the_code(runtime: Runtime):
    """spec R9: a replay would use it again."""
    token = in_workflow_body.set(True)
    try:
        for use in (
            lambda: runtime.trigger(charge_order, Charge(1), id="x"),
            lambda: runtime.get("x"),
            lambda: runtime.wait("x"),
            lambda: runtime.wake("x"),
            lambda: runtime.send("x", "cancel", 1),
            lambda: runtime.messages("x"),
            lambda: runtime.cancel("x"),
            lambda: runtime.pause("x"),
            lambda: runtime.resume(),
            open_runtime,
        ):
            with pytest.raises(MisplacedCall, match="workflow function"):
                use()
    finally:
        in_workflow_body.reset(token)

    assert runtime.get("x") is None


def test_after_a_commit_of_unknown_fate_only_the_disk_is_believed(project_dir: Path):
    """case 31; design.md, writing: said to be unknown, never failed; then one truth for all."""
    with faulty_disk() as disk, open_runtime() as runtime:
        runtime.trigger(charge_order, Charge(1), id="before")
        disk.arm(broken, at=1, times=10_000, only=("sync", "-wal"))

        with pytest.raises(CommitUnknown) as unknown:
            runtime.trigger(charge_order, Charge(2), id="order-2")
        assert unknown.value.exit_code == 11
        with pytest.raises(CommitUnknown, match="still unknown"):
            runtime.get("order-2")
        disk.disarm()

        record = runtime.get("order-2")
        other = SqliteStorage(project_dir / "ys.db")
        assert other.executions.get("order-2") == record
        other.close()
        assert runtime.get("before") is not None
        if record is None:
            runtime.trigger(charge_order, Charge(2), id="order-2")
        with pytest.raises(ExecutionIdConflict):
            runtime.trigger(charge_order, Charge(2), id="order-2")


def test_many_threads_may_share_one_runtime(runtime: Runtime):
    """spec K10: thread-safe."""
    errors: list[BaseException] = []

    def admit(thread: int) -> None:
        try:
            for n in range(10):
                ref = runtime.trigger(charge_order, Charge(n), id=f"{thread}-{n}")
                assert stored(runtime, ref)["order"] == n
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=admit, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert runtime.get("7-9") is not None


def test_a_closed_runtime_says_so(project_dir: Path):
    """spec V3; closing twice is harmless."""
    with open_runtime() as runtime:
        pass
    runtime.close()

    with pytest.raises(UsageError, match="closed"):
        runtime.get("x")


def test_no_database_is_made_where_there_is_no_project(tmp_path, monkeypatch):
    """case 34; spec K8: `NO_DATABASE`, nothing created."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))

    with pytest.raises(NoDatabase, match="no project") as refused:
        open_runtime()

    assert refused.value.exit_code == 10
    assert os.listdir(tmp_path) == []
    open_runtime("here.db").close()
    assert (tmp_path / "here.db").stat().st_mode & 0o777 == 0o600


def test_a_database_that_is_none_is_refused_and_nothing_is_made(project_dir: Path):
    """case 34: a directory in its place, a directory that is missing, a file that may not be."""
    (project_dir / "folder.db").mkdir()
    (project_dir / "text.db").write_text("just text, and a good deal of it")
    before = sorted(os.listdir(project_dir))

    for name in ("folder.db", "missing/ys.db", "text.db"):
        with pytest.raises(StorageError) as refused:
            open_runtime(name)
        assert refused.value.exit_code == 10

    assert sorted(os.listdir(project_dir)) == before


def test_a_database_that_others_can_write_is_refused(runtime: Runtime, project_dir: Path):
    """spec K5: and named by `trust_dirs` it is opened."""
    (project_dir / "ys.db").chmod(0o666)

    with pytest.raises(UntrustedPath, match=r"ys\.db can be written by everybody"):
        open_runtime()
    open_runtime(trust_dirs=[project_dir]).close()
