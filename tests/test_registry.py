"""Workflows are found in one directory, by name, and what is broken is said (spec R1, K1, K4)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.workflow_files import ONE, own_directory, write
from yieldstar_cli import RetryPolicy, params
from yieldstar_cli.engine.authoring import workflow
from yieldstar_cli.engine.catalog import to_module_infos
from yieldstar_cli.engine.definition import latest
from yieldstar_cli.engine.registry import load_directory
from yieldstar_cli.errors import InvalidWorkflow, UntrustedPath, UsageError


@pytest.fixture
def directory(tmp_path: Path):
    """A workflow directory of one's own."""
    with own_directory(tmp_path) as made:
        yield made


# --- names and signatures --------------------------------------------------------------------


def test_a_workflow_is_called_like_its_function_with_hyphens():
    """spec R1: the name defaults to the function's, `-` for `_`."""

    @workflow
    async def charge_order(step) -> None: ...

    assert charge_order.workflow_id == "charge-order"
    assert charge_order.version == 1


@pytest.mark.parametrize("name", ["_x", "../evil", "/tmp/evil", "os.system", "a.b", "__main__",
                                  "evil\0", "", "x" * 101, "1st", "a b", "é", "a\n"])  # fmt: skip
def test_a_name_outside_the_grammar_is_refused_with_the_remedy(name: str):
    """security S2; spec R1: `[A-Za-z][A-Za-z0-9-]{0,99}`, refused with `@workflow(id=…)`."""

    async def charge(step) -> None: ...

    with pytest.raises(InvalidWorkflow) as refused:
        workflow(id=name)(charge)

    assert "@workflow(id=" in refused.value.remedy[0]


def test_the_longest_name_is_a_hundred_characters():
    """spec R1."""

    @workflow(id="x" * 100)
    async def charge(step) -> None: ...

    assert charge.workflow_id == "x" * 100


@pytest.mark.parametrize("option", ["cron", "every"])
def test_an_option_of_a_later_version_is_refused_rather_than_ignored(option: str):
    """authoring.md, Names: so that nobody's backup silently never runs."""
    with pytest.raises(InvalidWorkflow, match="not supported in this version"):
        workflow(**{option: "1d"})  # type: ignore[call-overload]


@pytest.mark.parametrize("tags", [{"gpu", "ssd"}, ["ssd", "gpu"], ("gpu", "ssd", "gpu")])
def test_tags_say_what_a_worker_must_be_started_with(tags):
    """spec O5: a set, a list or a tuple; the order says nothing."""

    @workflow(tags=tags)
    async def fit(step) -> None: ...

    assert fit.definition.tags == {"gpu", "ssd"}


def test_a_workflow_has_no_tags_unless_it_asks_for_some():
    """spec O5."""

    @workflow
    async def bare(step) -> None: ...

    @workflow(tags=())
    def none() -> None: ...

    assert bare.definition.tags == none.definition.tags == frozenset()


def test_a_lone_text_as_tags_is_refused_with_the_set_to_write():
    """spec O5: of "gpu" each letter would be a tag, and no worker would ever have them."""
    with pytest.raises(InvalidWorkflow) as refused:
        workflow(tags="gpu")  # type: ignore[call-overload]

    assert refused.value.remedy == ("@workflow(tags={'gpu'})",)


@pytest.mark.parametrize("tags", [None, 3, {"gpu": True}, [3], [None], [""], ["a b"], ["a,b"],
                                  ["a\n"], ["a\x1b"], ["\ud800"], ["ä" * 51]])  # fmt: skip
def test_what_is_no_tag_is_refused(tags):
    """spec O5: printable, at most 100 bytes, without comma and spaces."""
    with pytest.raises(InvalidWorkflow) as refused:
        workflow(tags=tags)

    assert refused.value.remedy


def test_the_longest_tag_is_a_hundred_bytes():
    """spec O5."""

    @workflow(tags=["ä" * 50])
    async def fit(step) -> None: ...

    assert fit.tags == {"ä" * 50}


def test_an_unknown_option_a_bad_version_retry_and_timeout_are_refused():
    """spec R11, O1."""
    for wrong in ({"colour": 1}, {"version": 0}, {"version": True}, {"version": "2"},
                  {"retry": 3}, {"timeout": "soon"}, {"timeout": "0s"}):  # fmt: skip
        with pytest.raises(InvalidWorkflow):
            workflow(**wrong)  # type: ignore[call-overload]


def test_generators_classes_and_callables_are_no_workflows():
    """spec R1: a workflow is a function that returns."""

    def yields():
        yield 1

    async def yields_too(step):
        yield 1

    for wrong in (yields, yields_too, dict, len, lambda: 1):
        with pytest.raises(InvalidWorkflow):
            workflow(wrong)


def test_the_first_argument_of_an_async_workflow_is_step():
    """spec R1: `step` is the only door to the durable world."""

    async def none() -> None: ...
    async def other(order: int) -> None: ...
    async def keyword(*, step) -> None: ...

    for wrong in (none, other, keyword):
        with pytest.raises(InvalidWorkflow, match="step"):
            workflow(wrong)


def test_a_plain_function_takes_no_step():
    """spec R1: a plain def is one recorded step."""

    def backup(step) -> None: ...

    with pytest.raises(InvalidWorkflow, match="plain def"):
        workflow(backup)


def test_a_workflow_can_be_called_like_its_function():
    """spec R1: plain functions are tested alone."""

    @workflow(retry=RetryPolicy(attempts=2))
    def add(a: int, b: int) -> int:
        return a + b

    assert add(2, b=3) == 5
    assert add.definition.plain
    assert add.definition.result_type is int


# --- the directory ---------------------------------------------------------------------------


def test_every_py_file_directly_in_the_directory_is_loaded_and_hidden_ones_are_not(directory):
    """spec R1: all `*.py` directly in it whose names begin with neither `_` nor `.`."""
    write(directory, "billing.py", ONE.format(name="bill"))
    write(directory, "_draft.py", ONE.format(name="draft"))
    write(directory, ".hidden.py", ONE.format(name="hidden"))
    write(directory, "notes.txt", ONE.format(name="notes"))
    write(directory, "sub/deep.py", ONE.format(name="deep"))

    registry = load_directory(directory)

    assert list(registry.definitions) == [("bill", 1)]
    assert registry.errors == []
    assert registry.files == [str(directory / "billing.py")]


def test_modules_may_import_each_other_and_each_runs_once(directory):
    """spec R1; case B69: one file reached by two ways is one registration."""
    write(directory, "a_first.py", "import z_last\nfrom z_last import pay\n")
    write(
        directory,
        "z_last.py",
        "import _counted\n_counted.runs += 1\n" + dedent(ONE.format(name="pay")),
    )
    write(directory, "_counted.py", "runs = 0\n")

    registry = load_directory(directory)

    assert list(registry.definitions) == [("pay", 1)]
    assert registry.errors == []
    assert sys.modules["_counted"].runs == 1
    assert registry.file_of(("pay", 1)).endswith("z_last.py")


def test_a_file_that_shadows_an_importable_module_is_refused(directory):
    """spec R1: neither the standard library nor an installed package is replaced."""
    write(directory, "json.py", ONE.format(name="one"))
    write(directory, "msgspec.py", ONE.format(name="two"))
    write(directory, "fine.py", ONE.format(name="fine"))

    registry = load_directory(directory)

    assert list(registry.definitions) == [("fine", 1)]
    assert [Path(error.file).name for error in registry.errors] == ["json.py", "msgspec.py"]
    assert all("Rename the file" in error.message for error in registry.errors)
    assert sys.modules["json"].__file__ != str(directory / "json.py")


def test_a_broken_module_is_told_with_its_own_line_and_the_others_load(directory):
    """security S7; spec K1: exception, exit and syntax error alike."""
    write(directory, "bad_exit.py", "import sys\n\nsys.exit(3)\n")
    write(directory, "bad_raise.py", "def deep():\n    return 1 / 0\n\ndeep()\n")
    write(directory, "bad_syntax.py", "x = 1\nif x\n    pass\n")
    write(directory, "bad_base.py", "class Stop(BaseException): ...\nraise Stop('no')\n")
    write(directory, "good.py", ONE.format(name="good"))

    registry = load_directory(directory)

    assert list(registry.definitions) == [("good", 1)]
    told = {Path(error.file).stem: (error.line, error.message) for error in registry.errors}
    assert told["bad_exit"] == (3, "it exits when it is loaded: SystemExit(3)")
    assert told["bad_raise"] == (2, "ZeroDivisionError: division by zero")
    assert told["bad_syntax"] == (2, "SyntaxError: expected ':'")
    assert told["bad_base"] == (2, "Stop: no")
    (raised,) = (e.traceback for e in registry.errors if e.file.endswith("bad_raise.py"))
    assert "in deep" in raised
    assert "yieldstar_cli" not in raised
    assert "importlib" not in raised


def test_a_module_that_imports_a_broken_one_names_the_culprit(directory):
    """spec K1: one's own traceback's last frame, and whose fault it is."""
    write(directory, "a_user.py", "\nimport z_broken\n")
    write(directory, "z_broken.py", "boom\n")

    errors = {Path(e.file).stem: e for e in load_directory(directory).errors}

    assert errors["a_user"].line == 2
    assert errors["a_user"].message.startswith("z_broken.py line 1: NameError")
    assert errors["z_broken"].line == 1


def test_what_cannot_be_a_workflow_is_a_load_error_with_its_remedy(directory):
    """spec R1, K5: refused at load, and how to put it right."""
    write(directory, "name.py", """
        from yieldstar_cli import workflow

        @workflow
        async def über(step) -> None: ...
    """)  # fmt: skip
    write(directory, "open.py", "x = 1\n").chmod(0o666)

    named, opened = load_directory(directory).errors

    assert named.line == 4
    assert '@workflow(id="…")' in named.message
    assert f"--trust-dir {directory}" in opened.message


def test_two_workflows_of_one_name_and_version_are_both_refused_naming_both_files(directory):
    """case B66; spec K4: which code runs never hangs on the order of imports."""
    write(directory, "billing.py", ONE.format(name="process"))
    write(directory, "shipping.py", ONE.format(name="process"))
    write(directory, "other.py", ONE.format(name="other"))

    registry = load_directory(directory)

    assert list(registry.definitions) == [("other", 1)]
    assert len(registry.errors) == 2
    for error in registry.errors:
        assert "billing.py" in error.message
        assert "shipping.py" in error.message
        assert "process version 1" in error.message


def test_two_workflows_of_one_name_in_one_file_are_refused_too(directory):
    """case B66; spec K4: the later def would hide the earlier one."""
    write(directory, "billing.py", ONE.format(name="process") + ONE.format(name="process"))

    registry = load_directory(directory)

    assert registry.definitions == {}
    assert sorted(error.line for error in registry.errors) == [4, 10]


def test_several_versions_of_one_name_are_loaded_and_new_executions_take_the_latest(directory):
    """spec R1, R11."""
    write(directory, "pay.py", """
        from yieldstar_cli import workflow

        @workflow(id="pay", version=1)
        async def pay_old(step) -> int:
            return 1

        @workflow(version=10)
        async def pay(step) -> int:
            return 10
    """)  # fmt: skip

    registry = load_directory(directory)

    assert sorted(registry.definitions) == [("pay", 1), ("pay", 10)]
    assert registry.latest("pay").version == 10
    assert registry.latest("nothing") is None


def test_old_and_new_modules_side_by_side_give_both_versions(directory):
    """spec R11: an old module stays as long as executions run on it; the names do not matter."""
    new = ONE.format(name="pay").replace("@workflow", "@workflow(version=2)")
    write(directory, "a_new.py", new)
    write(directory, "b_old.py", ONE.format(name="pay"))

    registry = load_directory(directory)

    assert registry.errors == []
    assert {key: Path(d.file).name for key, d in registry.definitions.items()} == {
        ("pay", 1): "b_old.py",
        ("pay", 2): "a_new.py",
    }
    assert latest(registry.definitions, "pay") is registry.definitions["pay", 2]


def test_the_latest_of_nothing_is_nothing(directory):
    """spec R11: neither of no definitions nor of other names."""
    write(directory, "pay.py", ONE.format(name="pay"))

    registry = load_directory(directory)

    assert latest({}, "pay") is None
    assert latest(registry.definitions, "pa") is None


def test_a_version_that_its_file_gives_up_is_loaded_no_more(directory):
    """case 137; spec R11: the file was edited in place; what runs on version 1 waits for it."""
    write(directory, "pay.py", ONE.format(name="pay"))
    registry = load_directory(directory)

    write(directory, "pay.py", ONE.format(name="pay").replace("@workflow", "@workflow(version=2)"))
    registry.reload_changed(registry.files)

    assert sorted(registry.definitions) == [("pay", 2)]


def test_a_version_that_is_deployed_beside_the_other_is_taken_up(directory):
    """case 137; spec R11, K1: without the worker being started again."""
    write(directory, "pay.py", ONE.format(name="pay").replace("@workflow", "@workflow(version=2)"))
    registry = load_directory(directory)

    write(directory, "pay_old.py", ONE.format(name="pay"))
    registry.reload_changed()

    assert sorted(registry.definitions) == [("pay", 1), ("pay", 2)]
    assert registry.latest("pay").version == 2


def test_the_name_does_not_hang_on_how_the_file_was_loaded(directory, tmp_path):
    """case B67: `python flows.py` and a worker register the same name, once."""
    write(directory, "flows.py", """
        from pathlib import Path
        from yieldstar_cli import workflow

        @workflow
        async def add(step) -> int:
            return 1

        if __name__ == "__main__":
            from yieldstar_cli.engine.registry import load_directory
            registry = load_directory(Path(__file__).parent)
            print(add.workflow_id, *registry.definitions, len(registry.errors))
    """)  # fmt: skip

    ran = subprocess.run(
        [sys.executable, str(directory / "flows.py")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(Path(__file__).parents[1])},
        check=True,
    )

    assert ran.stdout == "add ('add', 1) 0\n"


def test_the_current_directory_is_never_imported_from(directory, tmp_path):
    """security S5: a module beside you is not a module of the workflow directory."""
    write(tmp_path, "helper.py", "open('imported', 'w')\n")
    write(directory, "uses.py", "import helper\n")

    script = (
        "from pathlib import Path\n"
        "from yieldstar_cli.engine.registry import load_directory\n"
        f"registry = load_directory(Path({str(directory)!r}))\n"
        "print([error.message for error in registry.errors])\n"
    )
    ran = subprocess.run(
        [sys.executable, "-P", "-c", script],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(Path(__file__).parents[1])},
        check=True,
    )

    assert ran.stdout == """["ModuleNotFoundError: No module named 'helper'"]\n"""
    assert not (tmp_path / "imported").exists()


def test_nothing_that_is_merely_installed_is_loaded(directory, tmp_path):
    """security S6: packages are not asked whether they have workflows."""
    write(directory, "pay.py", ONE.format(name="pay"))
    info = tmp_path / "evil-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[yieldstar]\nevil = evil\n[ys.plugins]\nevil = evil\n")
    write(tmp_path, "evil.py", "raise SystemExit('loaded')\n")

    script = (
        "import sys; from pathlib import Path\n"
        "from yieldstar_cli.engine.registry import load_directory\n"
        f"registry = load_directory(Path({str(directory)!r}))\n"
        "print(list(registry.definitions), registry.errors, 'evil' in sys.modules)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": f"{Path(__file__).parents[1]}:{tmp_path}"},
        check=True,
    )

    assert ran.stdout == "[('pay', 1)] [] False\n"


def test_compiled_code_beside_a_module_is_not_run(directory):
    """security S4: a `.pyc` in `__pycache__` is ignored, whoever put it there."""
    import importlib.util
    import py_compile

    evil = write(directory, "greet.py", "from _words import word\n")
    words = write(directory, "_words.py", "word = 'evil'\n")
    for path in (evil, words):
        cached = py_compile.compile(
            str(path), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
        )
        assert cached == importlib.util.cache_from_source(str(path))
    write(directory, "_words.py", "word = 'good'\n")

    load_directory(directory)

    assert sys.modules["greet"].word == "good"


def test_annotations_are_resolved_once_the_module_has_loaded(directory):
    """spec O2: a class further down is fine, a name that is nowhere is a load error."""
    write(directory, "fine.py", """
        from __future__ import annotations
        import msgspec
        from yieldstar_cli import workflow

        @workflow
        async def fine(step: Step, p: Later) -> Later:
            return p

        class Later(msgspec.Struct):
            n: int = 1
    """)  # fmt: skip
    write(directory, "nowhere.py", """
        from __future__ import annotations
        from yieldstar_cli import workflow

        @workflow
        async def nowhere(step, p: Missing) -> None: ...

        @workflow
        async def whole(step) -> None: ...
    """)  # fmt: skip

    registry = load_directory(directory)

    assert sorted(registry.definitions) == [("fine", 1), ("whole", 1)]
    later = registry.latest("fine").params_type
    assert later.__name__ == "Later"
    assert registry.latest("fine").result_type is later
    (error,) = registry.errors
    assert (Path(error.file).name, error.line) == ("nowhere.py", 5)
    assert "Missing" in error.message


def test_a_step_whose_result_cannot_be_read_back_is_a_load_error(directory):
    """spec O2: what a workflow runs as a step is checked when the module loads."""
    write(directory, "bad.py", """
        from __future__ import annotations
        import msgspec
        from typing import TYPE_CHECKING
        from yieldstar_cli import workflow

        if TYPE_CHECKING:
            from elsewhere import Order

        def load() -> Order: ...
        class A(msgspec.Struct): ...
        class B(msgspec.Struct): ...
        def either() -> A | B: ...
        def helper() -> Order: ...

        @workflow
        async def one(step) -> None:
            await step.run(load)

        @workflow
        async def two(step) -> None:
            await step.using(key="x").poll(either, every="1s")

        @workflow
        async def fine(step) -> None:
            helper()
    """)  # fmt: skip

    registry = load_directory(directory)

    assert list(registry.definitions) == [("fine", 1)]
    said = [error.message for error in registry.errors]
    assert "result type of step load" in said[0]
    assert "bad.py:10" in said[0]
    assert "result of either cannot be stored" in said[1]


def test_a_wrapped_function_is_known_by_its_own_place_and_names(directory):
    """spec O2: errors are named from the globals of the workflow's own module."""
    write(directory, "wrapped.py", """
        from _wrap import wrap
        from yieldstar_cli import workflow

        MINE = True

        @workflow
        @wrap
        async def pay(step, cents: int) -> int:
            return cents
    """)  # fmt: skip
    write(directory, "_wrap.py", """
        from functools import wraps

        def wrap(fn):
            @wraps(fn)
            async def wrapper(*args, **kwargs):
                return await fn(*args, **kwargs)
            return wrapper
    """)  # fmt: skip

    definition = load_directory(directory).definitions["pay", 1]

    assert definition.namespace["MINE"] is True
    assert definition.file == str(directory / "wrapped.py")
    assert definition.result_type is int


def test_what_a_module_prints_does_not_reach_the_standard_output(directory, capsys):
    """cli.md, streams: `--json` is always one valid document."""
    write(directory, "chatty.py", "print('hello from the module')\n")

    load_directory(directory)

    out, err = capsys.readouterr()
    assert out == ""
    assert err == "hello from the module\n"


def test_untyped_starred_and_positional_params_are_load_errors(directory):
    """spec R1, O2: params are checked by name and type, so they have both."""
    write(directory, "bad.py", """
        from yieldstar_cli import workflow

        @workflow
        async def untyped(step, order) -> None: ...
        @workflow
        async def starred(step, *orders: int) -> None: ...
        @workflow
        async def options(step, **orders: int) -> None: ...
        @workflow
        async def placed(step, a: int, b: int, /) -> None: ...
    """)  # fmt: skip

    registry = load_directory(directory)

    assert registry.definitions == {}
    assert [error.line for error in registry.errors] == [4, 6, 8, 10]


def test_the_nearest_names_are_offered(directory):
    """spec K4."""
    write(directory, "a.py", ONE.format(name="charge_order"))

    assert load_directory(directory).nearest("charge-ordr") == ["charge-order"]


def test_a_missing_directory_is_a_usage_error(tmp_path):
    """case 34: one sentence, nothing created."""
    with pytest.raises(UsageError, match="not a directory"):
        load_directory(tmp_path / "nothing")

    assert not (tmp_path / "nothing").exists()


def test_a_directory_or_module_that_others_can_write_is_refused(directory):
    """security S3; spec K5."""
    write(directory, "fine.py", ONE.format(name="fine"))
    write(directory, "open.py", ONE.format(name="open_to_all"))
    (directory / "open.py").chmod(0o666)

    registry = load_directory(directory)
    directory.chmod(0o777)

    assert list(registry.definitions) == [("fine", 1)]
    assert "can be written by everybody" in registry.errors[0].message
    with pytest.raises(UntrustedPath):
        load_directory(directory)
    assert len(load_directory(directory, trusted=[directory]).definitions) == 2


def test_a_helper_that_others_can_write_is_not_imported(directory):
    """security S3; spec K5: also what a module imports from the directory is checked."""
    write(directory, "uses.py", "import _helper\n")
    write(directory, "_helper.py", "ran = True\n").chmod(0o666)

    registry = load_directory(directory)

    assert "can be written by everybody" in registry.errors[0].message
    assert "_helper" not in sys.modules


def test_a_link_out_of_the_directory_is_checked_where_it_leads(directory, tmp_path):
    """security S4; spec K5: links are resolved and the owner of what they lead to is checked."""
    unsafe = tmp_path / "shared"
    unsafe.mkdir()
    write(unsafe, "target.py", ONE.format(name="linked"))
    unsafe.chmod(0o1777)
    (directory / "linked.py").symlink_to(unsafe / "target.py")

    registry = load_directory(directory)

    assert registry.definitions == {}
    assert "can be written by everybody" in registry.errors[0].message


# --- looking again ---------------------------------------------------------------------------


def test_a_file_that_failed_is_loaded_once_it_is_put_right(directory):
    """cases 294, B68; spec K1: a running worker looks again at files that failed."""
    write(directory, "pay.py", "oh no\n")
    registry = load_directory(directory)

    assert registry.reload_changed() == set()
    write(directory, "pay.py", ONE.format(name="pay"))

    assert registry.reload_changed() == {str(directory / "pay.py")}
    assert list(registry.definitions) == [("pay", 1)]
    assert registry.errors == []


def test_a_file_that_failed_for_what_it_imports_is_loaded_once_that_is_put_right(directory):
    """spec K1: what a module hangs on is part of it."""
    write(directory, "pay.py", "import _rates\n" + dedent(ONE.format(name="pay")))
    write(directory, "_rates.py", "oops\n")
    registry = load_directory(directory)

    write(directory, "_rates.py", "rate = 2\n")

    assert registry.reload_changed() == {str(directory / "pay.py")}
    assert list(registry.definitions) == [("pay", 1)]


def test_a_sound_file_is_left_alone_unless_it_holds_executions(directory):
    """spec K1, E12: loaded whole, with a new state, once it changed."""
    path = write(directory, "pay.py", ONE.format(name="pay"))
    registry = load_directory(directory)
    before = registry.definitions["pay", 1]

    write(directory, "pay.py", ONE.format(name="pay") + "\n    # changed\n")
    assert registry.reload_changed() == set()
    assert registry.definitions["pay", 1] is before
    assert registry.reload_changed(holding=[str(path)]) == {str(path)}

    assert registry.definitions["pay", 1] is not before
    assert registry.module_state(("pay", 1)) != before.module_state
    assert registry.reload_changed(holding=[str(path)]) == set()


def test_a_changed_file_that_no_longer_loads_keeps_its_old_workflows_and_says_why(directory):
    """spec K1: one broken save holds up nobody."""
    path = write(directory, "pay.py", ONE.format(name="pay"))
    registry = load_directory(directory)
    before = registry.definitions["pay", 1]

    write(directory, "pay.py", "broken(\n")
    registry.reload_changed(holding=[str(path)])

    assert registry.definitions["pay", 1] is before
    assert registry.errors[0].message.startswith("SyntaxError")


def test_a_directory_that_goes_away_takes_nothing_with_it(directory):
    """spec K1: what a running worker has loaded goes on."""
    write(directory, "pay.py", ONE.format(name="pay"))
    registry = load_directory(directory)

    directory.rename(directory.with_name("moved"))
    try:
        assert registry.reload_changed(registry.files) == set()
        assert list(registry.definitions) == [("pay", 1)]
    finally:
        directory.with_name("moved").rename(directory)


def test_a_file_that_goes_away_leaves_its_workflows_and_takes_its_error(directory):
    """spec K1: an execution that waits for its code still finds it."""
    pay = write(directory, "pay.py", ONE.format(name="pay"))
    bad = write(directory, "bad.py", "boom\n")
    registry = load_directory(directory)

    pay.unlink()
    bad.unlink()
    registry.reload_changed(registry.files)

    assert list(registry.definitions) == [("pay", 1)]
    assert registry.errors == []


def test_a_new_file_is_taken_up(directory):
    """case 294: parked, then it completes once the code appears."""
    registry = load_directory(directory)

    write(directory, "pay.py", ONE.format(name="pay"))

    assert registry.reload_changed() == {str(directory / "pay.py")}
    assert list(registry.definitions) == [("pay", 1)]


def test_the_same_file_changed_and_loaded_again_is_no_double(directory):
    """case B66: a reload of the same file is fine, also where the function moved."""
    path = write(directory, "pay.py", ONE.format(name="pay"))
    registry = load_directory(directory)

    write(directory, "pay.py", "\n\n\n" + dedent(ONE.format(name="pay")))
    registry.reload_changed(holding=[str(path)])

    assert list(registry.definitions) == [("pay", 1)]
    assert registry.errors == []
    assert registry.definitions["pay", 1].line == 7


def test_the_catalog_says_what_was_read_not_what_the_file_is_now(directory):
    """spec K4: what changed after it was loaded is stale, a helper too."""
    pay = write(directory, "pay.py", "import _rates\n" + dedent(ONE.format(name="pay")))
    rates = write(directory, "_rates.py", "rate = 1\n")
    unused = write(directory, "_unused.py", "x = 1\n")
    registry = load_directory(directory)
    before = {path: path.stat().st_mtime_ns for path in (pay, rates, unused)}

    write(directory, "pay.py", "changed = 1\n")
    write(directory, "_rates.py", "rate = 2\n")
    infos = {Path(info.path): info for info in to_module_infos(registry)}

    assert {path: info.mtime_ns for path, info in infos.items()} == before
    assert [w.workflow_id for w in infos[pay].workflows] == ["pay"]
    assert (infos[rates].workflows, infos[rates].error) == ((), None)


def test_the_catalog_has_everything_that_a_trigger_needs(directory):
    """spec K4."""
    write(directory, "pay.py", """
        from yieldstar_cli import RetryPolicy, workflow

        @workflow(version=2, retry=RetryPolicy(attempts=None, first="2s"), tags=["ssd", "gpu"])
        async def pay(step, cents: int, to: str = "shop") -> str:
            \"\"\"Pay someone.\"\"\"
            return to
    """)  # fmt: skip
    write(directory, "bad.py", "x = 1\nboom\n")

    bad, good = to_module_infos(load_directory(directory))

    (info,) = good.workflows
    assert (info.workflow_id, info.version, info.line) == ("pay", 2, 4)
    assert info.doc == "Pay someone."
    assert [f.name for f in params.table(info.params_description)] == ["cents", "to"]
    assert info.retry == "no limit, first after 2s, factor 2, at most 5m"
    assert info.tags == ("gpu", "ssd")
    assert bad.error == "line 2: NameError: name 'boom' is not defined"
    assert bad.workflows == ()


def test_two_directories_with_a_file_of_one_name_do_not_mix(directory, tmp_path):
    """spec R1: a registry's modules are those of its own directory."""
    other = tmp_path / "other"
    other.mkdir(mode=0o755)
    write(directory, "pay.py", ONE.format(name="one"))
    write(other, "pay.py", ONE.format(name="two"))

    first, second = load_directory(directory), load_directory(other)

    assert list(first.definitions) == [("one", 1)]
    assert list(second.definitions) == [("two", 1)]
    assert (first.errors, second.errors) == ([], [])
