"""Values come back as what they were, or are refused with their place (spec V1, V2)."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import json
import math
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, NoReturn, TypeVar
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yieldstar_cli import codec
from yieldstar_cli.codec import DecodeError, JsonError, parse_json
from yieldstar_cli.errors import UnserializableValue

T = TypeVar("T")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Line(msgspec.Struct):
    sku: str
    price: Decimal
    tags: tuple[str, ...] = ()


class Order(msgspec.Struct, rename="camel"):
    order_id: int
    lines: list[Line]
    colour: Colour | None = None
    extra: Any = None


class Point(msgspec.Struct, array_like=True, frozen=True):
    x: int
    y: int = 0


class Card(msgspec.Struct, tag="card"):
    number: str


class Bank(msgspec.Struct, tag="bank"):
    iban: str
    level: Level = Level.LOW


@dataclasses.dataclass
class Box(Generic[T]):
    inside: T
    made: datetime | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    UNIT: ClassVar[str] = "s"
    most: int


class Lock:
    pass


class Chain(msgspec.Struct):
    below: Chain | None = None


def identity(value: Any) -> Any:
    """A plain value that two values share only if types and values are the same throughout."""
    kind = type(value)
    if kind is float:
        return kind, value.hex() if value == value else "nan"
    if kind in (list, tuple):
        return kind, [identity(item) for item in value]
    if kind is dict:
        return kind, [(key, identity(item)) for key, item in value.items()]
    if kind in (set, frozenset):
        return kind, sorted(repr(identity(item)) for item in value)
    if isinstance(value, msgspec.Struct):
        return kind, [identity(getattr(value, name)) for name in value.__struct_fields__]
    if dataclasses.is_dataclass(value):
        return kind, [identity(getattr(value, field.name)) for field in dataclasses.fields(value)]
    if kind in (datetime, time):
        return kind, value.isoformat(), value.fold, repr(value.tzinfo)
    if kind is int:
        return kind, hex(value)
    return kind, str(value)


def assert_exact(value: Any, type_: Any = Any) -> str:
    text = codec.encode(value, type_)
    json.loads(text)
    assert identity(codec.decode(text, type_)) == identity(value)
    return text


def refused(value: Any, type_: Any = Any, place: str = "params") -> UnserializableValue:
    with pytest.raises(UnserializableValue) as caught:
        codec.encode(value, type_, place=place)
    return caught.value


# --- properties ------------------------------------------------------------------------------

texts = st.text(max_size=8)
offsets = st.builds(timezone, st.timedeltas(timedelta(hours=-23), timedelta(hours=23)))
zones = st.one_of(
    st.none(),
    st.just(UTC),
    offsets,
    st.sampled_from(["Europe/Berlin", "America/New_York"]).map(ZoneInfo),
)
atoms = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=-(2**70), max_value=2**70),
    st.floats(),
    texts,
    st.just("$ys"),
    st.binary(max_size=8),
    st.dates(),
    st.times(timezones=st.one_of(st.none(), offsets)),
    st.datetimes(timezones=zones, allow_imaginary=True),
    st.timedeltas(),
    st.decimals(allow_nan=False),
    st.just(Decimal("NaN")),
    st.uuids(),
    st.just(Path("a/b")),
)
hashable = st.recursive(
    atoms,
    lambda below: st.one_of(
        st.lists(below, max_size=3).map(tuple), st.frozensets(below, max_size=3)
    ),
    max_leaves=6,
)
look_alikes = st.sampled_from(
    [
        ["$ys"],
        ["$ys", "tuple", 1],
        ["$ys", "list", "$ys"],
        ["$ys", "datetime", "never"],
        {"$ys": "tuple", "v": [1]},
        '["$ys","int","0x1"]',
    ]
)
values = st.recursive(
    # A signalling NaN cannot be hashed, so it is no member of a set.
    st.one_of(hashable, look_alikes, st.just(Decimal("sNaN12"))),
    lambda below: st.one_of(
        st.lists(below, max_size=4),
        st.dictionaries(st.one_of(texts, st.just("$ys")), below, max_size=4),
        st.lists(below, max_size=3).map(tuple),
        st.sets(hashable, max_size=3),
        st.lists(below, max_size=2).map(lambda items: ["$ys", *items]),
    ),
    max_leaves=20,
)


@settings(max_examples=300, deadline=None)
@given(values)
def test_any_value_comes_back_as_what_it_was(value: Any) -> None:
    """spec V1; cases 12, 13, 15, 16, 17; B82, B83: exact types and values, recursively."""
    assert_exact(value)


@settings(max_examples=150, deadline=None)
@given(
    st.builds(
        Order,
        order_id=st.integers(),
        lines=st.lists(
            st.builds(
                Line,
                sku=texts,
                price=st.decimals(allow_nan=False),
                tags=st.lists(texts, max_size=2).map(tuple),
            ),
            max_size=2,
        ),
        colour=st.one_of(st.none(), st.sampled_from(Colour)),
        extra=values,
    )
)
def test_a_struct_comes_back_through_its_annotation(order: Order) -> None:
    """spec V1; B87: renamed fields, nested Structs, Enum and Optional, tagged values inside."""
    assert_exact(order, Order)


@settings(max_examples=100, deadline=None)
@given(values)
def test_what_was_decoded_is_written_the_same_again(value: Any) -> None:
    """spec V1: the text of a value is one, so texts of equal values can be compared."""
    text = codec.encode(value)
    assert codec.encode(codec.decode(text)) == text


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=30) | values.map(lambda v: codec.encode(v)[:-1]))
def test_damaged_text_is_a_decode_error_and_nothing_else(text: str) -> None:
    """spec E12: a recorded value that no longer decodes is found out by one error."""
    with contextlib.suppress(DecodeError):
        codec.decode(text)


# --- what comes back ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "number",
    [0, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64 + 1, 10**30, 10**4000, 10**5000],
    ids=["0", "53", "max", "63", "min", "below", "64", "e30", "e4000", "e5000"],
)
def test_integers_of_any_size_are_exact(number: int) -> None:
    """case 15; B83; spec V1: also beyond Python's limit of 4,300 digits."""
    for value in (number, [number], {"n": -number}):
        assert_exact(value)
    assert_exact(number, int)


@pytest.mark.parametrize(
    "number", [-0.0, 0.0, 5e-324, 1.7976931348623157e308, 0.1, 1.0, 1e16, math.inf, -math.inf]
)
def test_floats_are_exact_to_the_bit(number: float) -> None:
    """case 16, 12; B82; spec V1: and a float stays a float."""
    back = codec.decode(codec.encode(number))

    assert type(back) is float
    assert back.hex() == number.hex()
    assert codec.decode(codec.encode([number], list[float]), list[float])[0].hex() == number.hex()


def test_nan_comes_back_as_nan_and_the_text_is_json() -> None:
    """case 12; B82, B86; spec V1: never null, never an invalid document."""
    text = codec.encode({"x": math.nan, "d": Decimal("NaN")})

    assert json.loads(text) == {"x": ["$ys", "float", "nan"], "d": ["$ys", "decimal", "NaN"]}
    assert math.isnan(codec.decode(text)["x"])


def test_one_and_one_point_zero_and_true_stay_apart() -> None:
    """case 16; spec V1."""
    assert codec.encode([1, 1.0, True]) == "[1,1.0,true]"
    assert [type(item) for item in codec.decode("[1,1.0,true]")] == [int, float, bool]


@pytest.mark.parametrize(
    "text",
    ["", "a\x00b", "\U0001f600", "e\u0301", "\u202eabc", "\u2028", "k" * 65536],
    ids=["empty", "nul", "emoji", "combining", "rtl", "line", "long"],
)
def test_any_valid_text_is_exact_as_value_and_as_key(text: str) -> None:
    """case 17; B84; spec V1."""
    assert_exact({text: text})
    assert_exact((text,))


def test_the_order_of_keys_is_kept() -> None:
    """case 9; spec V1."""
    assert list(codec.decode(codec.encode({"b": 1, "a": 2, "c": (3,)}))) == ["b", "a", "c"]


def test_a_zone_comes_back_as_the_same_zone_with_its_fold() -> None:
    """spec V1: a zone is stored by its key, and an ambiguous hour stays the later one."""
    berlin = datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin"))

    back = codec.decode(codec.encode(berlin))

    assert back.tzinfo is berlin.tzinfo
    assert back.fold == 1
    assert back.utcoffset() == timedelta(hours=1)


def test_naive_fixed_and_named_offsets_stay_what_they_are() -> None:
    """spec V1."""
    assert_exact(datetime(2026, 1, 2, 3, 4, 5, 6))
    assert_exact(datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=-5, minutes=-30), "XT")))
    assert_exact(time(1, 2, 3, tzinfo=timezone(timedelta(seconds=3601))))
    assert_exact(datetime(2026, 1, 2, tzinfo=timezone(timedelta(microseconds=1))))
    assert_exact(datetime(2026, 1, 2, tzinfo=timezone(timedelta(microseconds=-1), "")))
    assert_exact(time(1, tzinfo=ZoneInfo("Europe/Berlin")))
    assert_exact(date(1, 1, 1))
    assert_exact(timedelta.min)


def test_a_set_is_written_in_one_order_in_every_process() -> None:
    """spec V1: hashes differ from process to process; recorded text must not."""
    code = (
        "from yieldstar_cli import codec;"
        "print(codec.encode({'a','b','c',('d',1),frozenset({'e','f'})}))"
    )

    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[1])},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }

    assert len(found) == 1


def test_what_comes_back_is_fresh_each_time() -> None:
    """case 10, 11; spec E4: changing a value changes no other copy of it."""
    value = {"items": [1]}
    text = codec.encode(value)

    value["items"].append(2)
    codec.decode(text)["items"].append(3)

    assert codec.decode(text) == {"items": [1]}


def test_none_and_nothing_are_two_things() -> None:
    """B100; spec V1."""
    assert codec.encode(None) == "null"
    assert codec.decode("null") is None
    assert codec.encode(None, Order | None) == "null"
    with pytest.raises(DecodeError):
        codec.decode("")


def test_encoded_text_is_taken_as_it_is() -> None:
    """spec E4: an event that was encoded once is stored as that text."""
    text = codec.Json(codec.encode((1, 2)))

    assert codec.encode(text) is text
    assert codec.decode(text) == (1, 2)


# --- annotations -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        (Card("1"), Card | Bank),
        (Bank("DE", Level.HIGH), Card | Bank),
        ([Card("1"), Bank("x")], list[Card | Bank]),
        (Point(1, 2), Point),
        ({Point(1), Point(2)}, set[Point]),
        (frozenset({(Point(1), Colour.RED)}), frozenset[tuple[Point, Colour]]),
        (Box(Point(1)), Box[Point]),
        (Box({"a": (1, 2)}, datetime(2026, 1, 1, tzinfo=UTC)), Box[dict[str, tuple[int, int]]]),
        ({"a": Colour.BLUE, "b": None}, dict[str, Colour | None]),
        (Level.HIGH, Level),
        ("a", Literal["a", "b"]),
        (Chain(Chain(Chain())), Chain),
        ((Point(1), "x"), tuple[Point, str]),
        (uuid.UUID(int=5), uuid.UUID | None),
        (Path("/tmp"), Path | None),
        (math.nan, float),
        (2**80, int | None),
    ],
)
def test_annotated_types_come_back(value: Any, type_: Any) -> None:
    """spec V1; B87: Enum, dataclass and Struct wherever the annotation leads to them."""
    assert_exact(value, type_)


@pytest.mark.parametrize("value", [Point(1), Box(1), Colour.RED, Level.LOW, [Colour.RED]])
def test_an_object_without_annotation_is_refused_with_the_remedy(value: Any) -> None:
    """spec V1; B87."""
    error = refused(value, place="result")

    assert "annotate it" in error.reason
    assert error.place.startswith("result")


def test_an_int_returned_for_a_float_stays_an_int() -> None:
    """spec O2: an int is a float to every type checker, so `-> float` may return 1."""
    assert_exact(1, float)
    assert_exact([1, 1.5], list[float])
    assert_exact({"a": 0}, dict[str, float | None])


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        ("2026-01-01", datetime | str | None),
        (datetime(2026, 1, 1), datetime | str | None),
        ([1], tuple[int, ...] | list[int]),
        ((1,), tuple[int, ...] | list[int]),
        ({"a": Path("x"), "b": "x"}, dict[str, Path | str]),
        ([1, (2,)], object),
        ([1], Iterable[int]),
        (None, NoReturn),
    ],
)
def test_unions_that_only_tags_tell_apart_come_back(value: Any, type_: Any) -> None:
    """spec V1: a tagged value comes back as what it was, whatever the annotation adds."""
    codec.check_type(type_)
    assert_exact(value, type_)


def test_a_value_that_its_annotation_would_change_is_refused() -> None:
    """spec V1, O2: stored only if decoding gives the same types back."""

    class Rate(msgspec.Struct):
        percent: float

    assert refused(Rate(1), Rate, "result").place == "result.percent"  # type: ignore[arg-type]
    assert refused([1, 2], tuple[int, int], "result").place == "result"
    assert refused({"a": 1}, Order, "result").place == "result"
    assert refused("x", int, "result").reason.startswith("expected int, got str")


def test_class_variables_are_no_part_of_a_dataclass() -> None:
    """spec V1."""
    assert codec.encode(Limits(3), Limits) == '{"most":3}'
    assert_exact(Limits(3), Limits)


def test_attributes_that_no_field_declares_are_refused() -> None:
    """spec V1: they would be lost."""
    box = Box(1)
    box.note = "x"  # type: ignore[attr-defined]

    assert "other parts" in refused(box, Box[int]).reason


def test_text_that_does_not_fit_its_type_is_a_decode_error_with_the_place() -> None:
    """spec E12: a recorded value that no longer fits the code."""
    text = '{"orderId":1,"lines":[{"sku":5,"price":"1"}]}'

    with pytest.raises(DecodeError, match=r"expected str, got int at lines\[0\]\.sku"):
        codec.decode(text, Order)


def test_an_unknown_tag_is_said_to_be_unknown() -> None:
    """spec K7: a value that a newer version wrote is never guessed at."""
    with pytest.raises(DecodeError, match="'matrix' is not known"):
        codec.decode('["$ys","matrix",1]')


def test_a_type_that_cannot_be_stored_is_found_before_anything_runs() -> None:
    """spec O2: annotations are checked when the module loads."""

    class One(msgspec.Struct):
        a: int

    class Two(msgspec.Struct):
        a: int

    codec.check_type(Order | None)
    codec.check_type(list[Path | None])
    with pytest.raises(TypeError, match="values of type Lock"):
        codec.check_type(dict[str, list[Lock | None]])
    with pytest.raises(TypeError, match="cannot be stored"):
        codec.check_type(One | Two)


# --- refusals ------------------------------------------------------------------------------------


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "place", "word"),
    [
        ({"items": [1, 2, 3, {"price": object()}]}, "params.items[3].price", "object"),
        ({"a": [1, {"lock": threading.Lock()}]}, "params.a[1].lock", "lock"),
        ({"k k": (1, {2j})}, 'params["k k"][1][*]', "complex"),
        ({"a": {1: "a"}}, "params.a", "key 1 is an int"),
        ({1: "a", "1": "b"}, "params", "key 1 is an int"),
        ({None: 1}, "params", "NoneType"),
        ({"t": "\ud83d"}, "params.t", "lone surrogate"),
        ({"\ud83d": 1}, "params", "lone surrogate"),
        ([Path("\udc80")], "params[0]", "lone surrogate"),
        ([Text("x")], "params[0]", "Text"),
        ([bytearray(b"x")], "params[0]", "bytearray"),
        (test_none_and_nothing_are_two_things, "params", "function"),
        ((item for item in ()), "params", "generator"),
        (int, "params", "type"),
    ],
)
def test_what_cannot_be_stored_is_refused_with_its_place(value: Any, place: str, word: str) -> None:
    """cases 13, 14; B81, B83, B85; spec V1, E4."""
    error = refused(value)

    assert error.place == place
    assert word in error.reason


class Trap:
    """Looks like a dataclass, and is none."""

    __dataclass_fields__ = ()


class Lazy(msgspec.Struct):
    a: int

    def __post_init__(self) -> None:
        if self.a < 0:
            raise KeyError("below zero")


def test_code_of_the_values_own_class_cannot_break_the_codec() -> None:
    """spec V1, V3: one error, whatever a class does when it is looked at or made."""
    assert "cannot be taken apart" in refused([Trap()]).reason
    value = Lazy(1)
    value.a = -1
    assert "below zero" in refused(value, Lazy).reason
    with pytest.raises(DecodeError, match="below zero"):
        codec.decode('{"a":-1}', Lazy)


def test_a_refusal_below_a_struct_names_field_and_key() -> None:
    """spec V1: the place is exact under annotations too."""
    order = Order(1, [Line("a", Decimal(1))], extra={"k": [object()]})
    assert refused({"x": order}, dict[str, Order], "result").place == "result.x.extra.k[0]"

    wrong = {"fine": Point(1), "the one": Point("x")}  # type: ignore[arg-type]
    assert refused(wrong, dict[str, Point], "result").place == 'result["the one"][0]'


def test_a_cycle_is_refused_as_what_it_is() -> None:
    """case 18; spec V1: through lists, dicts, Structs and wide ones that would never end."""
    ring: list[Any] = []
    ring.append(ring)
    wide: list[Any] = []
    wide += [wide, wide]
    chain = Chain()
    chain.below = chain

    for value, type_ in ((ring, Any), ({"a": ring}, Any), (wide, Any), (chain, Chain)):
        assert "contains itself" in refused(value, type_).reason


def nested(kind: type, depth: int) -> Any:
    value: Any = kind()
    for _ in range(depth - 1):
        value = {"a": value} if kind is dict else kind([value])
    return value


@pytest.mark.parametrize("kind", [list, tuple, dict])
def test_nesting_is_stored_up_to_its_limit_and_refused_beyond(kind: type) -> None:
    """case 19; spec V1: never a RecursionError, however deep."""
    deepest = nested(kind, codec.MAX_DEPTH)

    back = codec.decode(codec.encode(deepest))

    depth = 0
    while back:
        depth += 1
        back = back["a"] if kind is dict else back[0]
    assert depth == codec.MAX_DEPTH - 1
    for depth in (codec.MAX_DEPTH + 1, 100_000):
        assert "nested deeper than 500" in refused(nested(kind, depth)).reason


def test_a_deep_struct_obeys_the_same_limit() -> None:
    """case 19; spec V1."""

    def chain(depth: int) -> Chain:
        made = Chain()
        for _ in range(depth - 1):
            made = Chain(made)
        return made

    text = codec.encode(chain(codec.MAX_DEPTH), Chain)

    assert codec.encode(codec.decode(text, Chain), Chain) == text
    assert "nested deeper" in refused(chain(codec.MAX_DEPTH + 1), Chain).reason


def test_depth_does_not_depend_on_how_full_the_stack_is() -> None:
    """case 19; spec V1: a step far down in somebody's call tree can return what any other can."""
    value = nested(tuple, codec.MAX_DEPTH)

    def down(levels: int) -> str:
        if levels:
            return down(levels - 1)
        text = codec.encode(value)
        codec.decode(text)
        return text

    assert down(700) == codec.encode(value)


def test_text_of_a_hundred_thousand_levels_is_a_decode_error() -> None:
    """case 19; security S17; spec V1."""
    with pytest.raises(DecodeError, match="too deeply"):
        codec.decode("[" * 100_000 + "]" * 100_000)


def test_the_size_limit_is_exact_and_named() -> None:
    """case 20; B88; spec V2."""
    assert len(codec.encode("x" * 98, limit=100)) == 100

    with pytest.raises(UnserializableValue) as caught:
        codec.encode("x" * 99, limit=100, place="result")

    assert "101 bytes" in caught.value.reason
    assert "limit of 100" in caught.value.reason
    assert "pass its name" in caught.value.reason
    with pytest.raises(UnserializableValue):
        codec.encode(("ü" * 50,), limit=100)


def test_sixteen_megabytes_are_the_limit_unless_told_otherwise() -> None:
    """B88; spec V2."""
    codec.encode("x" * (codec.MAX_VALUE - 2))
    assert "16,777,216" in refused("x" * (codec.MAX_VALUE - 1)).reason


def test_shared_parts_that_multiply_beyond_the_limit_end_soon() -> None:
    """spec V2: thirty doublings of one list would be a billion parts."""
    value: Any = [1]
    for _ in range(30):
        value = [value, value]

    with pytest.raises(UnserializableValue, match="limit"):
        codec.encode(value, limit=100_000)


# --- JSON that people type -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("NaN", "NaN is not JSON"),
        ("[-Infinity]", "-Infinity is not JSON"),
        ("1e999", "too large for a float"),
        ('{"a":1,"b":{"a":1,"a":2}}', "'a' stands twice"),
        ('["\\ud83d"]', "lone surrogate"),
        ('{"\\ud83d":1}', "lone surrogate"),
        ('"\udc80"', "not valid UTF-8"),
        ("\ufeff{}", "byte order mark"),
        ("[" * 501 + "]" * 501, "nested deeper than 500"),
        ("[" * 100_000, "nested deeper than 500"),
        ("{'a':1}", "line 1, column 2"),
        ("[1,]", "not valid JSON"),
        ("", "not valid JSON"),
        ("1 2", "not valid JSON"),
    ],
)
def test_json_at_the_command_line_is_strict(text: str, said: str) -> None:
    """cases 12, 14, 19, 21; B85; spec V1."""
    with pytest.raises(JsonError) as caught:
        parse_json(text, "--params")

    assert str(caught.value).startswith("--params: ")
    assert said in str(caught.value)


def test_json_at_the_command_line_is_exact() -> None:
    """cases 15, 16; spec V1."""
    assert parse_json("1" * 5000) == int("1" * 2500) * 10**2500 + int("1" * 2500)
    assert parse_json("-0.0").hex() == "-0x0.0p+0"
    assert parse_json('{"a": ["\\ud83d\\ude00", 1.0, 1, null, "[[[\\"{"]}') == {
        "a": ["\U0001f600", 1.0, 1, None, '[[["{']
    }
    assert parse_json("[" * 500 + "]" * 500) == nested(list, 500)


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet='[]{}":,0123456789.eE-\\ud8 nulltrefasNI', max_size=25))
def test_any_text_is_a_value_or_a_json_error(text: str) -> None:
    """spec V1, V3: and what is a value can be stored."""
    try:
        value = parse_json(text)
    except JsonError:
        return
    assert_exact(value)
