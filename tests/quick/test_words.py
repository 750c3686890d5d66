"""The short way reads words as typer does, or leaves them to it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yieldstar_cli.cli import app
from yieldstar_cli.cli.call import Call, Settings
from yieldstar_cli.cli.quick.table import GLOBALS, VERBS
from yieldstar_cli.cli.quick.words import Asked, read


@pytest.fixture(scope="module")
def given_to() -> Iterator[dict[str, Any]]:
    """What the functions of the hot verbs were called with last, none of them run."""
    last: dict[str, Any] = {}
    modules = {verb: importlib.import_module(f"yieldstar_cli.cli.{verb}") for verb in VERBS}
    real = {verb: module.command for verb, module in modules.items()}

    def noting(verb: str) -> Any:
        import functools

        @functools.wraps(real[verb])
        def note(context: Any, **values: Any) -> None:
            last.update(verb=verb, values=values)

        return note

    for verb, module in modules.items():
        module.command = noting(verb)
    yield last
    for verb, module in modules.items():
        module.command = real[verb]


def by_typer(given_to: dict[str, Any], words: list[str]) -> tuple[str, dict[str, Any], Settings]:
    given_to.clear()
    call = Call(argv=tuple(words))
    with app.root().make_context("ys", list(words), obj=call) as context:
        context.command.invoke(context)
    return given_to["verb"], given_to["values"], call.settings


def settings_of(asked: Asked) -> Settings:
    found = Settings()
    for name, value in asked.settings.items():
        setattr(found, name, tuple(value) if isinstance(value, list) else value)
    return found


_OPTIONS = sorted({*GLOBALS, *(word for _, options, _ in VERBS.values() for word in options)})
_VALUES = ["order-42", "-", "", "k=v", "a.b:=1", "@last", "10m", "5", "0", "-5", "never", "failed"]
_WORDS = st.one_of(
    st.sampled_from(_OPTIONS),
    st.sampled_from(_VALUES),
    st.sampled_from([f"{option}={value}" for option in _OPTIONS for value in ("5", "", "always")]),
    st.sampled_from(["--", "-qv", "-n5", "--jso", "-Cdir", "--no-such", "show", "wörd", "\udc80"]),
    st.text(max_size=3),
)
_LINES = st.builds(
    lambda before, verb, after: [*before, verb, *after],
    st.lists(_WORDS, max_size=2),
    st.sampled_from([*VERBS, "doctor"]),
    st.lists(_WORDS, max_size=5),
)


@settings(max_examples=500, deadline=None)
@given(words=_LINES)
def test_every_line_that_is_served_here_means_what_typer_reads(
    given_to: dict[str, Any], words: list[str]
) -> None:
    """The parts of a call: the verb, what its function takes, the global options."""
    asked = read(words)

    if asked is not None:
        verb, values, chosen = by_typer(given_to, words)
        assert (asked.verb, asked.values) == (verb, values)
        assert asdict(settings_of(asked)) == asdict(chosen)


def _own_lines() -> Iterator[list[str]]:
    """Each option of each verb, as it is meant."""
    meant = {"flag": [], "count": [], "text": ["some"], "texts": ["a=b"], "number": ["7"]}
    for verb, (place, options, _) in VERBS.items():
        least = ["some"] if place is not None and place[1] == "word" else []
        for option, (name, kind) in {**GLOBALS, **options}.items():
            if kind in meant:
                value = {"color": ["always"], "times": ["utc"]}.get(name, meant[kind])
                yield [verb, *least, option, *value]


@pytest.mark.parametrize("words", [*_own_lines()], ids=" ".join)
def test_each_option_is_read_here_as_typer_reads_it(
    given_to: dict[str, Any], words: list[str]
) -> None:
    asked = read(words)

    verb, values, chosen = by_typer(given_to, words)
    assert asked is not None
    assert (asked.verb, asked.values) == (verb, values)
    assert asdict(settings_of(asked)) == asdict(chosen)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["shwo", "a"],
        ["show", "--no-such"],
        ["show", "a", "b"],
        ["trigger"],
        ["show", "--step", "x"],
        ["show", "--step"],
        ["show", "--", "-a"],
        ["list", "--color", "green"],
        ["list", "--json=yes"],
        ["show", "a", "--help"],
        ["--version", "show"],
        ["doctor"],
    ],
    ids=" ".join,
)
def test_what_is_not_plain_is_left_to_typer(words: list[str]) -> None:
    assert read(words) is None
