"""Colour, glyphs and width: one function, one table."""

from __future__ import annotations

import io

import pytest

from yieldstar_cli.cli.render.terminal import Look, wants_ascii, wants_colour

TABLE = [
    # option, environment, terminal, colour
    ("auto", {}, True, True),
    ("auto", {}, False, False),
    ("always", {}, False, True),
    ("never", {}, True, False),
    ("auto", {"NO_COLOR": "1"}, True, False),
    ("auto", {"NO_COLOR": ""}, True, True),
    ("always", {"NO_COLOR": "1"}, False, True),
    ("auto", {"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
    ("auto", {"FORCE_COLOR": "1"}, False, True),
    ("auto", {"FORCE_COLOR": "0"}, False, False),
    ("auto", {"CLICOLOR_FORCE": "1"}, False, True),
    ("auto", {"CLICOLOR_FORCE": "0"}, True, True),
    ("auto", {"TERM": "dumb"}, True, False),
    ("auto", {"TERM": "dumb", "FORCE_COLOR": "1"}, True, True),
    ("always", {"TERM": "dumb"}, True, True),
    ("auto", {"YS_COLOR": "always"}, False, True),
    ("auto", {"YS_COLOR": "never", "FORCE_COLOR": "1"}, True, False),
    ("auto", {"YS_COLOR": "always", "NO_COLOR": "1"}, False, False),
    ("auto", {"YS_COLOR": "auto"}, True, True),
]


@pytest.mark.parametrize(("option", "env", "terminal", "colour"), TABLE)
def test_colour_is_decided_by_the_first_that_says_anything(
    option: str, env: dict[str, str], terminal: bool, colour: bool
) -> None:
    assert wants_colour(option, env, terminal) is colour


@pytest.mark.parametrize(
    ("encoding", "env", "ascii_only"),
    [
        ("utf-8", {}, False),
        ("UTF8", {}, False),
        ("utf-8", {"YS_ASCII": "1"}, True),
        ("utf-8", {"YS_ASCII": "0"}, False),
        ("ascii", {}, True),
        ("cp1252", {}, True),
        (None, {}, True),
    ],
)
def test_glyphs_are_ascii_where_the_stream_speaks_no_utf8(
    encoding: str | None, env: dict[str, str], ascii_only: bool
) -> None:
    """B93."""
    assert wants_ascii(encoding, env) is ascii_only


def test_every_status_has_an_ascii_glyph_of_its_own() -> None:
    look = Look(terminal=True, colour=False, ascii=True, width=80)

    glyphs = [
        look.status(word)[0]
        for word in ("admitted", "suspended", "completed", "failed", "cancelled")
    ]

    assert glyphs == ["o", "=", "+", "x", "-"]
    assert look.g("▶") == ">"


@pytest.mark.parametrize(("columns", "width"), [("40", 40), ("5", 20), ("x", 80), ("", 80)])
def test_the_width_is_columns_or_eighty(columns: str, width: int) -> None:
    env = {"COLUMNS": columns} if columns else {}

    assert Look.of(io.StringIO(), "auto", env).width == width


def test_paint_leaves_text_alone_without_colour() -> None:
    plain = Look(terminal=False, colour=False, ascii=False, width=80)
    painted = Look(terminal=True, colour=True, ascii=False, width=80)

    assert plain.paint("bad", "x") == "x"
    assert painted.paint("bad", "x") == "\x1b[31mx\x1b[0m"
