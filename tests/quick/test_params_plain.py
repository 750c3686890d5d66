"""Params that are written without the codec are what the codec writes of them."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yieldstar_cli import codec, params
from yieldstar_cli.errors import InvalidExecutionEvent, InvalidParams
from yieldstar_cli.params_plain import Pair, text_of

LIMIT = 1_000


class Colour(Enum):
    RED = "red"


class Plain(msgspec.Struct):
    text: str
    number: int = 7
    yes: bool = False
    maybe: str | None = None
    count: int | None = 3
    flag: bool | None = None
    odd: str = 'q "\\ \x1b ü 🦉'
    both: int | str = 5


class Renamed(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    order_number: int
    to_whom: str = "x"


class Tagged(msgspec.Struct, tag="order"):
    text: str = "x"


class Limited(msgspec.Struct):
    text: Annotated[str, msgspec.Meta(max_length=3)] = "x"
    number: Annotated[int, msgspec.Meta(ge=1)] = 1


class Others(msgspec.Struct):
    text: str = "x"
    share: float = 1
    names: list[str] = []
    colour: Colour = Colour.RED
    word: Literal["a", "b"] = "a"


class Empty(msgspec.Struct):
    pass


TYPES = (Plain, Renamed, Tagged, Limited, Others, Empty)
NAMES = sorted({name for type_ in TYPES for name in type_.__struct_encode_fields__} | {"no", "a.b"})
TEXTS = st.one_of(
    st.sampled_from(
        [
            *("1", "0", "-1", "007", "+5", "1.0", "1_0", "\u0661", "true", "false", "True", "null"),
            *("", " ", '"', "\\", "ü", "🦉", "\x7f", "\n", "\udc80", "red", "a", "[1]", "9" * 19),
            *("$ys", '["$ys","int","5"]', "abcd", "x" * 2_000),
        ]
    ),
    st.text(max_size=6),
)
PAIRS = st.lists(
    st.builds(Pair, st.sampled_from(NAMES), TEXTS, st.just(False) | st.just(False) | st.booleans()),
    max_size=4,
)


def by_codec(type_: Any, pairs: list[Pair]) -> str:
    rebuilt = params.rebuild(params.describe(type_))
    value = params.coerce(rebuilt, pairs, None)
    return codec.encode(value, rebuilt, place="params", limit=LIMIT)


@settings(max_examples=1_000, deadline=None)
@given(type_=st.sampled_from(TYPES), pairs=PAIRS)
def test_what_is_written_without_the_codec_is_what_it_writes(type_: Any, pairs: list[Pair]) -> None:
    """spec V4, E4: the same text, or none; what the codec refuses is never written."""
    text = text_of(params.describe(type_), pairs, LIMIT)

    if text is not None:
        assert text == by_codec(type_, pairs)


@pytest.mark.parametrize(
    ("type_", "pairs", "text"),
    [
        (Empty, [], "{}"),
        (Renamed, [("orderNumber", "42")], '{"orderNumber":42,"toWhom":"x"}'),
        (
            Renamed,
            [("toWhom", 'Zoë "q" 🦉'), ("orderNumber", "0")],
            '{"orderNumber":0,"toWhom":"Zoë \\"q\\" 🦉"}',
        ),
        (Others, [], None),
    ],
)
def test_the_usual_params_take_no_codec(
    type_: Any, pairs: list[tuple[str, str]], text: str | None
) -> None:
    given_pairs = [Pair(name, value) for name, value in pairs]

    made = text_of(params.describe(type_), given_pairs, LIMIT)

    assert made == text


@pytest.mark.parametrize(
    "pairs",
    [
        [Pair("orderNumber", "4x")],
        [],
        [Pair("orderNumber", "1"), Pair("orderNumber", "2")],
        [Pair("orderNumber", "1"), Pair("other", "2")],
    ],
)
def test_what_does_not_fit_is_left_to_the_codec_which_refuses_it(pairs: list[Pair]) -> None:
    assert text_of(params.describe(Renamed), pairs, LIMIT) is None
    with pytest.raises((InvalidParams, InvalidExecutionEvent)):
        by_codec(Renamed, pairs)
