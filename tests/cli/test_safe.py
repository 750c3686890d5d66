"""Text from data is shown, never interpreted (spec K6)."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yieldstar_cli.cli.render import document, safe

NASTY = st.text(
    alphabet=st.one_of(
        st.characters(),
        st.sampled_from(
            "\x1b\x07\x08\r\n\t\x00\x7f\x9b\x9d\u202e\u2066\u200b\u2028\ufeff\u0301\ud83d"
        ),
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(NASTY)
def test_no_character_that_a_terminal_acts_on_is_left(text: str) -> None:
    """spec K6; security S19, S22: one physical line, no control, bidi, invisible or surrogate."""
    shown = safe.visible(text)

    for char in shown:
        category = unicodedata.category(char)
        assert category not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"), repr(char)
    shown.encode("utf-8")


@settings(max_examples=200, deadline=None)
@given(NASTY)
def test_making_visible_twice_changes_nothing_more(text: str) -> None:
    once = safe.visible(text)

    assert safe.visible(once) == once


@settings(max_examples=200, deadline=None)
@given(NASTY, st.integers(0, 30))
def test_what_is_cut_fits_its_columns(text: str, width: int) -> None:
    """spec K6; security S19: same width rules for all data."""
    assert safe.cells(safe.clip(safe.visible(text), width)) <= width


@settings(max_examples=200, deadline=None)
@given(NASTY, st.integers(0, 30), st.booleans())
def test_what_is_filled_has_its_columns(text: str, width: int, right: bool) -> None:
    shown = safe.visible(text)

    assert safe.cells(safe.pad(shown, width, right=right)) == max(width, safe.cells(shown))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("order-42", "order-42"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x9b31m", "\\x9b31m"),
        ("a\r\nb\tc", "a\\r\\nb\\tc"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("a\u200bb", "a\\u200bb"),
        ("a\u2028b", "a\\u2028b"),
        ("\ud83d", "\\ud83d"),
        ("a\u00a0b", "a\\xa0b"),
        ("[red]x[/red]", "[red]x[/red]"),
        ("Zoë 名前", "Zoë 名前"),
        ("e\u0301", "e\u0301"),
        ("e" + "\u0301" * 6, "e" + "\u0301" * 4 + "\\u0301\\u0301"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_hidden_characters_become_visible_escapes(text: str, shown: str) -> None:
    """spec K6; security S19: what would hide or turn text stands there as an escape."""
    assert safe.visible(text) == shown


def test_wide_letters_take_two_columns_and_marks_none() -> None:
    assert safe.cells("名前") == 4
    assert safe.cells("e\u0301") == 1
    assert safe.clip("名前名前", 5) == "名前…"


def test_long_words_stay_whole_so_that_they_can_be_copied() -> None:
    lines = safe.wrap("see " + "x" * 50 + " there", 20, "  ")

    assert lines == ["  see", "  " + "x" * 50, "  there"]


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.characters(exclude_categories=("Cs",))))
def test_documents_are_printable_ascii_and_say_the_same(text: str) -> None:
    """security S21, B82, B92, B93: pure ASCII, one line, valid JSON."""
    import json

    written = document.dumps(
        {"text": text, "raw": document.raw(json.dumps(text, ensure_ascii=False))}
    )

    assert written.isascii()
    assert written.isprintable()
    assert json.loads(written) == {"text": text, "raw": text}
