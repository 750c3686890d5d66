"""Nothing that comes from data reaches a terminal as anything but text (spec K6)."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys

import pexpect
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.cli.conftest import Shop
from tests.security.scene import NASTY, Scene, acted_upon

#: Without NUL, which no word of a command line can hold, and surrogates, which no row holds.
HOSTILE = st.text(
    alphabet=st.one_of(
        st.characters(exclude_categories=("Cs",), exclude_characters="\0"),
        st.sampled_from("\x1b\x07\x08\r\n\t\x7f\x9b\x9d\u202e\u2066\u200b\u2028\ufeff\u0301[]/=-"),
    ),
    min_size=1,
    max_size=20,
)
#: The colours that are our own.
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def look(scene: Scene, text: str, *, some: bool = False) -> None:
    """Every reading command on a database full of `text`: harmless, and no bug of ours."""
    legal = text.isprintable() and len(text.encode()) < 200
    scene.plant_text(text, ids=legal or not some)
    for line, how, said in scene.said(scene.lines(some=some)):
        assert said.code in (0, 2, 4, 6, 7, 8, 9), (line, how, said)
        assert said.code != 2 or "--step" in line, (line, how, said)
        found = said.code != 4 or line[0] in ("workflows", "store")  # Named otherwise now.
        assert found or not (legal or some), (line, how, said)
        assert not acted_upon(said.out + said.err), (line, how, said)
        if how == "json":
            assert said.out.isascii()
            assert json.loads(said.out or said.err) is not None


def test_what_a_terminal_acts_on_stays_text_in_every_field_and_command(scene: Scene) -> None:
    """security S19, S20, S21: escapes, bidi controls, markup, in all columns of all tables."""
    look(scene, NASTY, some=True)
    look(scene, NASTY)


@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(HOSTILE)
@example("-")
@example("--json")
@example("9" * 4_400)
@example("[/]{}%s'; DROP TABLE executions; --")
def test_no_text_in_any_field_reaches_a_terminal_as_more_than_text(scene: Scene, text: str) -> None:
    """security S8, S17, S19-S22: fuzzed over all text of a database, for every reading command."""
    look(scene, text, some=True)


@pytest.mark.parametrize("words", [("list",), ("show", "--history"), ("explain",), ("doctor",)])
def test_a_real_terminal_gets_no_escapes_but_our_colours(
    scene: Scene, words: tuple[str, ...]
) -> None:
    """security S19: as the bytes arrive on a pty."""
    scene.plant_text(NASTY, ids=words[0] not in ("show", "explain"))
    line = [*words, "order-42"] if words[0] in ("show", "explain") else [*words]

    process = pexpect.spawn(
        sys.executable,
        ["-m", "yieldstar_cli", *line],
        cwd=str(scene.shop.root),
        env={**os.environ, "TERM": "xterm", "PYTHONUTF8": "1"},
        dimensions=(50, 100),
        timeout=30,
    )
    shown = COLOUR.sub("", process.read().decode("utf-8").replace("\r\n", "\n"))

    assert "\\x1b" in shown
    assert not acted_upon(shown)


def test_markup_is_shown_as_it_stands(scene: Scene) -> None:
    """security S20: neither a style, nor a link, nor an error of the markup's reader."""
    markup = "[red]x[/red][/nope][link=file:///etc/passwd]y[/link]"
    scene.plant_text(markup)

    shown = scene.shop.screen("show", "--id", f"{markup}order-44", columns=300)

    assert f"{markup}order-44" in shown.out


def test_a_worker_tells_each_event_in_one_line_whatever_it_is_about(scene: Scene) -> None:
    """security S22: names with line feeds make no line of their own, in its log neither."""
    scene.shop.module("charge_order.py", LOGGING)
    name = "a\n2026-11-30 12:00:00 INFO admitted order-1"
    scene.plant((DUE, lambda _: name))

    for words in ((), ("-v",), ("--json",)):
        said = scene.shop.process("worker", "--until-idle", *words)
        lines = (said.out + said.err).splitlines()

        assert not any(line.startswith("2026-11-30 12:00:00") for line in lines), said
        assert not any(line.startswith("forged") for line in lines), said
        assert not acted_upon(said.out + said.err)
    (record,) = [r for r in scene.shop.ys("list", "--json").json if r["execution_id"] == name]
    assert record["status"] == "failed"


DUE = """
UPDATE executions SET execution_id = planted(0), poisoned_at = NULL, deaths = 0, due_at = 0
 WHERE execution_id = 'order-48'
"""
LOGGING = r"""
from yieldstar_cli import Step, workflow


@workflow
async def charge_order(step: Step) -> str:
    step.log.info("one\nforged \x1b[2J")
    raise ValueError("two\nforged \x1b[2J")
"""


def test_what_is_to_be_typed_is_one_word_whatever_the_id(shop: Shop) -> None:
    """security S23: an ID in a line that is offered for copying is quoted for the shell."""
    name = "a;touch pwned $(id)`id`'\""
    shop.sleeping(name)

    lines = shop.screen("show", "--id", name, columns=200).out.splitlines()
    offered = [line.partition("ys ")[2] for line in lines if " ys " in line or "→ ys" in line]

    assert offered
    assert all(name in shlex.split(line) for line in offered)
    assert shop.ys("list", "--csv").code == 2
