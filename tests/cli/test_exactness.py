"""What is given at the command line comes back exactly, or is refused; never changed."""

from __future__ import annotations

import json
import math

import pytest

from tests.cli.conftest import Shop


def stored(shop: Shop, text: str) -> object:
    """What `ys show --json` gives of params given as `{"v": text}`."""
    made = shop.ys("trigger", "any", "--id", "a", "--params", "-", stdin=f'{{"v":{text}}}')
    assert made.code == 0, made.err
    return shop.ys("show", "a", "--json").json["params"]["v"]


@pytest.mark.parametrize(
    "text",
    ["9007199254740993", "9223372036854775807", "-9223372036854775808", "0", "1", "-1"],
)
def test_integers_are_exact(shop: Shop, text: str) -> None:
    """case 15, B83."""
    assert stored(shop, text) == int(text)


@pytest.mark.parametrize("digits", [20, 4_000, 5_000])
def test_integers_beyond_64_bits_are_tagged_and_exact(shop: Shop, digits: int) -> None:
    """case 15: also beyond Python's limit of 4,300 digits; or refused, never a traceback."""
    text = "1" + "0" * digits
    made = shop.ys("trigger", "any", "--id", "a", "--params", "-", stdin=f'{{"v":{text}}}')

    assert made.code in (0, 5)
    assert "Traceback" not in made.err
    if made.code == 0:
        (mark, tag, value) = shop.ys("show", "a", "--json").json["params"]["v"]
        assert (mark, tag, int(value, 16)) == ("$ys", "int", 10**digits)
        assert shop.screen("show", "a").code == 0


@pytest.mark.parametrize("text", ["-0.0", "5e-324", "1.7976931348623157e308", "0.1", "1.0"])
def test_floats_are_exact_and_stay_floats(shop: Shop, text: str) -> None:
    """case 16."""
    value = stored(shop, text)

    assert isinstance(value, float)
    assert math.copysign(1, value) == math.copysign(1, float(text))
    assert value == float(text)


@pytest.mark.parametrize(
    "value", ["a\0b", "", "e\u0301", "\U0010fffd", "שלום", "𝒳\U0001f989", "\u2028"]
)
def test_text_is_exact(shop: Shop, value: str) -> None:
    """case 17, B84."""
    assert stored(shop, json.dumps(value)) == value
    assert shop.screen("show", "a").code == 0


@pytest.mark.parametrize(
    "text", ["[]", "{}", '{"":1}', '{"%s":1}' % ("k" * 65_536), "null", "true"]
)
def test_empty_and_odd_values_are_exact(shop: Shop, text: str) -> None:
    """case 17."""
    assert stored(shop, text) == json.loads(text)


def test_what_looks_like_a_tag_comes_back_as_plain_data(shop: Shop) -> None:
    """spec V1: user data that looks like a tag; shown in its stored form."""
    value = stored(shop, '["$ys","bytes","aGk="]')

    assert value == ["$ys", "list", "$ys", "bytes", "aGk="]


@pytest.mark.parametrize(
    "text",
    [
        "NaN",
        "Infinity",
        "1e999",
        '"\\ud83d"',
        '{"a":1,"a":2}',
        "[" * 501 + "]" * 501,
        "[" * 100_000 + "]" * 100_000,
        "01",
        "'x'",
        "[1,]",
        "",
    ],
    ids=lambda text: text[:12],
)
def test_json_that_is_not_strict_or_too_deep_is_five(shop: Shop, text: str) -> None:
    """cases 12, 14, 19, 21; security S17."""
    said = shop.ys("trigger", "any", "--id", "a", "--params", "-", stdin=f'{{"v":{text}}}')

    assert said.code == 5
    assert "Traceback" not in said.err
    assert "bug" not in said.err
    assert shop.ys("list", "-q").out == ""


@pytest.mark.parametrize("raw", [b"\xef\xbb\xbf{}", b'{"v":"\xff"}', b"\xff\xfe{\0}\0"])
def test_bytes_that_are_not_plain_utf8_are_five(shop: Shop, raw: bytes) -> None:
    """security S17: a byte order mark, invalid UTF-8, UTF-16."""
    said = shop.ys("trigger", "any", "--id", "a", "--params", "-", stdin=raw)

    assert said.code == 5
    assert shop.ys("list", "-q").out == ""


def test_a_hundred_megabytes_are_refused_without_reading_them_all(shop: Shop) -> None:
    """security S17, case 20."""
    with (shop.root / "large").open("wb") as file:
        file.truncate(100_000_000)

    said = shop.ys("trigger", "any", "--id", "a", "--params", "@large")

    assert said.code == 5
    assert "16,777,216 bytes" in said.err


def test_the_depth_that_is_allowed_is_shown_by_every_command(shop: Shop) -> None:
    """case 19."""
    stored(shop, "[" * 490 + "]" * 490)

    for words in (("show", "a"), ("list",), ("explain", "a"), ("show", "a", "--history")):
        assert shop.screen(*words).code == 0
        assert shop.ys(*words, "--json").code == 0
