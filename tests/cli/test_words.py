"""The words of a call: global options anywhere, typos, errors in four parts, crash reports."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest

from tests.cli.conftest import Shop
from yieldstar_cli.cli import exits
from yieldstar_cli.cli.entry import main
from yieldstar_cli.cli.render.failure import failure_document, failure_lines
from yieldstar_cli.cli.render.terminal import Look
from yieldstar_cli.cli.words import corrected
from yieldstar_cli.errors import NoDatabase, YieldstarError

LOOK = Look(terminal=True, colour=False, ascii=False, width=80)


def test_global_options_stand_before_or_after_the_verb(shop: Shop) -> None:
    shop.admit()

    for words in (
        ("--json", "show", "order-42"),
        ("show", "--json", "order-42"),
        ("show", "order-42", "--json"),
        ("-C", str(shop.root), "show", "order-42", "--json"),
        ("show", "order-42", "--db", str(shop.db), "--json"),
    ):
        assert shop.ys(*words).json["execution_id"] == "order-42"


def test_an_unknown_verb_names_the_nearest_and_runs_nothing(shop: Shop) -> None:
    said = shop.ys("shwo", "order-42")

    assert said.code == 2
    assert said.out == ""
    assert "there is no command 'shwo'. Did you mean show?" in said.err
    assert "→ ys show order-42" in said.err


def test_no_abbreviation_of_a_verb_or_option_is_taken(shop: Shop) -> None:
    shop.admit()

    assert shop.ys("sho", "order-42").code == 2
    assert shop.ys("show", "order-42", "--jso").code == 2


def test_an_unknown_option_names_the_nearest_with_the_whole_line(shop: Shop) -> None:
    said = shop.ys("list", "--stauts", "failed")

    assert said.code == 2
    assert "ys list has no option --stauts. Did you mean --status?" in said.err
    assert "→ ys list --status failed" in said.err


def test_a_corrected_line_repeats_no_params() -> None:
    """S25: errors never print params."""
    words = ("trigger", "w", "-p", "password=hunter2", "--params", '{"t":"hunter3"}', "--weit")

    line = corrected(words, "--weit", "--wait")

    assert line == "ys trigger w -p password=… --params … --wait"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("-ppassword=hunter2",), "-ppassword=…"),
        (("--param=password=hunter2",), "--param=password=…"),
        (("--params={}hunter2",), "--params=…"),
        (("--context=token:=hunter2",), "--context=token=…"),
        (("password=hunter2",), "password=…"),
        (("--parm", "password=hunter2"), "--param password=…"),
        (("--parm=password=hunter2",), "--param=password=…"),
        (("-p", "hunter2"), "-p …"),
    ],
)
def test_no_way_to_write_a_param_is_repeated(words: tuple[str, ...], line: str) -> None:
    """S25."""
    assert corrected(("trigger", *words), "--parm", "--param") == f"ys trigger {line}"


def test_a_param_whose_option_was_forgotten_is_not_repeated(shop: Shop) -> None:
    """S25."""
    said = shop.ys("trigger", "charge-order", "password=hunter2")

    assert said.code == 2
    assert "hunter2" not in said.err
    assert "params are given with -p" in said.err


def test_usage_errors_are_two_and_ours(shop: Shop) -> None:
    for words in (
        ("show", "a", "b"),
        ("trigger",),
        ("list", "-n", "x"),
        ("list", "-n", "0"),
        ("list", "--since", "10"),
        ("list", "--sort", "age"),
        ("list", "--status", "faild"),
        ("wait", "a", "--any", "--all"),
        ("wait", "a", "--for", "gone"),
        ("wake", "a", "--at", "soon"),
        ("--color", "blue", "list"),
        ("--times", "blue", "list"),
        ("worker", "--linger", "1s"),
        ("worker", "--once", "--until-idle"),
        ("worker", "--grace", "-1s"),
        ("-C", "/nowhere", "list"),
        ("help", "nothing"),
    ):
        said = shop.ys(*words)
        assert said.code == exits.USAGE, words
        assert said.err.startswith("✗ "), words
        assert "Usage:" not in said.err
        assert "Traceback" not in said.err


def test_a_bare_number_as_a_time_asks_ten_what(shop: Shop) -> None:
    said = shop.ys("wait", "order-42", "--timeout", "10")

    assert "10 what? Say 10s or 10m" in said.err


def test_errors_are_json_on_stderr_also_when_the_words_do_not_parse(shop: Shop) -> None:
    said = shop.ys("--json", "list", "--stauts", "x")

    assert said.out == ""
    assert said.error["schema"] == "ys.error/1"
    assert (said.error["code"], said.error["exit"]) == ("USAGE", 2)
    assert said.error["remedy"][0] == "ys --json list --status x"


def test_an_error_has_four_parts_wrapped_at_eighty() -> None:
    error = NoDatabase(
        "there is no database at " + "/a" * 20,
        why=("Looked in many places, " * 5 + "and found none.", "Nothing was created."),
        remedy=("See it: ys show order-42", "A longer label: ys list", "ys init"),
    )

    lines = failure_lines(error, LOOK)

    assert lines[0].startswith("✗ there is no database at")
    assert all(len(line) <= 80 for line in lines)
    assert lines[-3:] == [
        "  → See it:         ys show order-42",
        "  → A longer label: ys list",
        "  → ys init",
    ]


def test_json_errors_hold_bare_commands() -> None:
    error = YieldstarError("x", remedy=("See it: ys show order-42", "ys list"))

    assert failure_document(error)["remedy"] == ["ys show order-42", "ys list"]


def test_text_of_an_error_cannot_forge_a_line() -> None:
    """S22."""
    error = YieldstarError("bad\n✓ Admitted order-1\x1b[2J")

    assert failure_lines(error, LOOK) == ["✗ bad\\n✓ Admitted order-1\\x1b[2J."]


def test_no_database_is_ten_and_makes_nothing(tmp_path: Path, shop: Shop) -> None:
    """case 34."""
    (shop.root / "ys.toml").unlink()

    for words in (("list",), ("show", "x"), ("trigger", "w"), ("wake", "x"), ("explain", "x")):
        said = shop.ys(*words)
        assert said.code == 10, words
        assert "ys init" in said.err
        assert list(shop.root.iterdir()) == []


@pytest.mark.parametrize("words", [("list",), ("trigger", "w"), ("show", "x")])
def test_a_directory_for_a_database_is_ten_without_a_traceback(
    shop: Shop, words: tuple[str, ...]
) -> None:
    """case 34."""
    said = shop.ys("--db", str(shop.root), *words)

    assert said.code == 10
    assert "Traceback" not in said.err


def test_a_bug_writes_a_private_report_without_params(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S25, S41: the report is 0600 in a directory of its own; --debug shows the traceback."""
    monkeypatch.setenv("TMPDIR", str(shop.root))
    monkeypatch.setattr("tempfile.tempdir", None)
    shop.clock.now_ms = None  # type: ignore[method-assign,assignment]

    said = shop.ys("list", "--since", "1m", "--debug")

    assert said.code == 1
    assert "this is a bug in ys: TypeError" in said.err
    assert "Traceback" in said.err
    path = Path(re.findall(r"\S+report\.txt", said.err)[0])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    text = path.read_text()
    assert "TypeError" in text
    assert "in command" in text
    assert "not callable" not in text


@pytest.mark.parametrize(
    ("words", "inner"),
    [(["list"], "yieldstar_cli.cli.quick.call.serve"), (["doctor"], "yieldstar_cli.cli.app.run")],
)
def test_ctrl_c_is_130(monkeypatch: pytest.MonkeyPatch, words: list[str], inner: str) -> None:
    def interrupted(*words: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(inner, interrupted)

    assert main(words) == 130


def test_the_table_of_exit_statuses_is_whole() -> None:
    wanted = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "130", "143"]

    assert [code for code, _ in exits.TABLE] == wanted
