"""Params fit what is declared, or are refused with the place and the remedy (spec V4, K4, E4)."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yieldstar_cli import codec
from yieldstar_cli.errors import ExecutionAdmissionError, InvalidExecutionEvent, InvalidParams
from yieldstar_cli.params import (
    NoParams,
    Pair,
    ParamField,
    coerce,
    describe,
    opaque,
    rebuild,
    schema,
    signature,
    struct_from_signature,
    table,
    validate,
)
from yieldstar_cli.strict_json import JsonError, parse_json

if TYPE_CHECKING:
    from nowhere import Step  # type: ignore[import-not-found]


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Address(msgspec.Struct):
    street: str
    zip: int = 0


class Card(msgspec.Struct, tag="card"):
    number: str


class Bank(msgspec.Struct, tag="bank"):
    iban: str


class ChargeOrder(msgspec.Struct):
    order: int
    """The order number to charge."""
    note: str = ""
    """For the shop;
    two lines."""


class Everything(msgspec.Struct, kw_only=True):
    flag: bool = False
    count: int = 0
    rate: float = 1
    text: str | None = None
    maybe: int | None = 5
    day: date | None = None
    at: datetime | None = None
    clock: time | None = None
    span: timedelta | None = None
    price: Decimal = Decimal("1.10")
    key: UUID | None = None
    raw: bytes = b""
    path: Path | None = None
    size: Size = Size.SMALL
    level: Level = Level.LOW
    kind: Literal["a", "b", 3] = "a"
    number: int | float = 0
    tags: list[str] = []
    sizes: list[Size] | None = None
    numbers: list[int] = []
    pair: tuple[int, str] | None = None
    many: tuple[int, ...] = ()
    unique: set[int] = set()
    table: dict[str, int] = {}
    address: Address | None = None
    addresses: list[Address] = []
    pay: Card | Bank | None = None
    anything: Any = None
    bounded: Annotated[int, msgspec.Meta(ge=0, le=10, description="A few.")] = 0
    renamed: int = msgspec.field(default=0, name="reName")


@dataclasses.dataclass
class Month:
    shop: str
    month: int = 1
    days: list[int] = dataclasses.field(default_factory=list)


def pairs(*options: str) -> list[Pair]:
    made = []
    for option in options:
        path, _, text = option.partition("=")
        made.append(Pair(path.removesuffix(":"), text, path.endswith(":")))
    return made


def refused(type_: Any, *options: str, base: object = None) -> InvalidParams:
    with pytest.raises(InvalidParams) as caught:
        coerce(type_, pairs(*options), base)
    return caught.value


# --- options against a declared type -------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "name", "value"),
    [
        ("flag=true", "flag", True),
        ("count=-12", "count", -12),
        ("count=007", "count", 7),
        ("count=+7", "count", 7),
        pytest.param("count=" + "9" * 5000, "count", 10**5000 - 1, id="huge"),
        ("rate=1.5", "rate", 1.5),
        ("rate=2", "rate", 2.0),
        ("rate=-1e3", "rate", -1000.0),
        ("number=2", "number", 2),
        ("number=2.0", "number", 2.0),
        ("text=42", "text", "42"),
        ("text=null", "text", "null"),
        ("text=", "text", ""),
        ("text=a=b", "text", "a=b"),
        ("text=[1]", "text", "[1]"),
        ("text:=null", "text", None),
        ("maybe=null", "maybe", None),
        ("maybe=7", "maybe", 7),
        ("day=2026-11-30", "day", date(2026, 11, 30)),
        ("at=2026-11-30T16:00:00Z", "at", datetime(2026, 11, 30, 16, tzinfo=UTC)),
        ("clock=16:00:00", "clock", time(16)),
        ("span=10m", "span", timedelta(minutes=10)),
        ("span=PT5S", "span", timedelta(seconds=5)),
        ("price=19.90", "price", Decimal("19.90")),
        (
            "key=12345678-1234-5678-1234-567812345678",
            "key",
            UUID("12345678123456781234567812345678"),
        ),
        ("raw=aGVsbG8=", "raw", b"hello"),
        ("path=a/b", "path", Path("a/b")),
        ("size=l", "size", Size.LARGE),
        ("size=LARGE", "size", Size.LARGE),
        ("level=2", "level", Level.HIGH),
        ("level=HIGH", "level", Level.HIGH),
        ("kind=b", "kind", "b"),
        ("kind=3", "kind", 3),
        ('tags=["a","b"]', "tags", ["a", "b"]),
        ("tags=a", "tags", ["a"]),
        ("numbers=4", "numbers", [4]),
        ("sizes=l", "sizes", [Size.LARGE]),
        ("sizes=null", "sizes", None),
        ('pair=[1,"a"]', "pair", (1, "a")),
        ("many=[1,2]", "many", (1, 2)),
        ("unique=[2,1]", "unique", {1, 2}),
        ('table={"a":1}', "table", {"a": 1}),
        ("table.a=1", "table", {"a": 1}),
        ('address={"street":"x"}', "address", Address("x")),
        ("address.street=x", "address", Address("x")),
        ("address=null", "address", None),
        ('addresses=[{"street":"x","zip":1}]', "addresses", [Address("x", 1)]),
        ('pay={"type":"bank","iban":"DE"}', "pay", Bank("DE")),
        ("anything=5", "anything", "5"),
        ("anything:=5", "anything", 5),
        ("reName=5", "renamed", 5),
        ('path:="x"', "path", Path("x")),
    ],
)
def test_a_value_becomes_what_its_type_says(option: str, name: str, value: object) -> None:
    """spec V4: and the same where only a description of the type is at hand (K4)."""
    made = coerce(Everything, pairs(option))

    assert getattr(made, name) == value
    assert type(getattr(made, name)) is type(value)
    described = rebuild(describe(Everything))
    assert codec.encode(coerce(described, pairs(option)), described) == codec.encode(
        made, Everything
    )


@pytest.mark.parametrize(
    ("option", "said", "remedy"),
    [
        ("order=4x", 'params.order: expected int, got "4x"', "-p order=4"),
        ("order=x", 'params.order: expected int, got "x"', "-p order=42"),
        ("order=1.0", 'params.order: expected int, got "1.0"', "-p order=1"),
        ("order=", 'params.order: expected int, got ""', "-p order=42"),
        ("order= 1", 'params.order: expected int, got " 1"', "-p order=1"),
        ("order=1_000", 'params.order: expected int, got "1_000"', "-p order=1"),
        ("order=٣", 'params.order: expected int, got "٣"', "-p order=42"),
        ("ordr=4", "params.ordr: there is no such parameter; did you mean order?", "-p order=4"),
        ("ordr=a b", "params.ordr: there is no such parameter; did you mean", "-p 'order=a b'"),
    ],
)
def test_a_wrong_option_is_answered_with_a_right_one(option: str, said: str, remedy: str) -> None:
    """spec V3, V4: what was expected, what was given, a corrected option, the signature."""
    error = refused(ChargeOrder, option)

    assert error.message.startswith(said)
    assert error.remedy == (remedy,)
    assert error.why == ('It takes: order: int, note: str = ""',)
    assert (error.code, error.exit_code) == ("INVALID_PARAMS", 5)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("flag=yes", 'params.flag: expected true or false, got "yes"'),
        ("flag=True", 'params.flag: expected true or false, got "True"'),
        ("flag=1", 'params.flag: expected true or false, got "1"'),
        ("rate=nan", 'params.rate: expected float, got "nan"'),
        ("rate=inf", 'params.rate: expected float, got "inf"'),
        ("rate=1e999", 'params.rate: expected float, got "1e999"'),
        ("maybe=x", 'params.maybe: expected null or int, got "x"'),
        ("day=tomorrow", "params.day: expected null or date such as"),
        ("day=2026-02-30", "params.day: expected null or date such as"),
        ("price=1,10", "params.price: expected Decimal such as 19.99"),
        ("key=1", "params.key: expected null or UUID"),
        ("span=10", "params.span: expected null or span such as 10m"),
        ("size=m", 'params.size: expected s or l, got "m"'),
        ("kind=c", 'params.kind: expected 3 or a or b, got "c"'),
        ("numbers=x", 'params.numbers: expected int, got "x"'),
        ("pair=1", "params.pair: expected null or a JSON array"),
        ("pair=[1]", "params.pair: expected array of length 2"),
        ("table=[1]", "params.table: expected a JSON object"),
        ('table={"a":"x"}', "params.table"),
        ("table.a=x", 'params.table.a: expected int, got "x"'),
        ("address.zip=x", 'params.address.zip: expected int, got "x"'),
        ("address.zip=1", "params.address.street: it has to be given"),
        ("address.strt=1", "params.address.strt: there is no such parameter; did you mean street?"),
        ('address={"street":"a","zop":1}', "params.address.zop: there is no such parameter"),
        ('addresses=[{"street":"a","zop":1}]', "params.addresses[0].zop: there is no such"),
        ('addresses=[{"street":1}]', "params.addresses[0].street: expected str, got 1"),
        ("count.x=1", "params.count.x: params.count has no parts with names"),
        ("bounded=11", "params.bounded: expected int <= 10, got 11"),
        ("count:=1.5", "params.count: expected int, got 1.5"),
        ('count:="1"', 'params.count: expected int, got "1"'),
        ("text:=1", "params.text: expected str | null, got 1"),
        ("text:=NaN", "params.text: NaN is not JSON"),
        ('table={"a":1,"a":2}', "params.table: expected a JSON object"),
        ('anything:={"a":1,"a":2}', "params.anything: the name 'a' stands twice"),
        ("anything:=1e999", "params.anything: 1e999 is too large"),
        ("=1", "params: '' is no parameter name"),
        ("address..zip=1", "params: 'address..zip' is no parameter name"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(option: str, said: str) -> None:
    """cases 12, 21; spec V4."""
    assert refused(Everything, option).message.startswith(said)


def test_a_missing_parameter_is_named() -> None:
    """spec V4."""
    error = refused(ChargeOrder, "note=x")

    assert error.message == "params.order: it has to be given"
    assert error.remedy == ("-p order=…",)


def test_a_list_takes_the_repeated_option_and_a_scalar_does_not() -> None:
    """spec V4."""
    made = coerce(Everything, pairs("tags=a", "numbers=1", "tags=[b]", "numbers=2"))

    assert made.tags == ["a", "[b]"]
    assert made.numbers == [1, 2]
    error = refused(Everything, "count=1", "count=2")
    assert error.message == "params.count: given 2 times, but it takes one value"
    assert error.remedy == ("-p count=2",)
    assert "given 2 times" in refused(Everything, "unique=[1]", "unique=[2]").message
    assert "given 2 times" in refused(None, "a=1", "a=2").message


def test_a_value_and_a_part_of_it_are_not_given_side_by_side() -> None:
    """spec V4: which of the two would win would be a guess."""
    assert "given beside address" in refused(Everything, "address=null", "address.zip=1").message


def test_options_win_over_the_object_that_is_given_whole() -> None:
    """spec V4: `-p` over `--params`, also deep inside."""
    base = {"order": 1, "note": "old"}

    assert coerce(ChargeOrder, pairs("order=2"), base) == ChargeOrder(2, "old")
    assert base == {"order": 1, "note": "old"}
    deep = coerce(Everything, pairs("address.zip=5"), {"address": {"street": "x", "zip": 1}})
    assert deep.address == Address("x", 5)
    assert coerce(Everything, pairs("tags=b"), {"tags": ["a"]}).tags == ["b"]


@pytest.mark.parametrize("base", [[1], "x", 5, True])
def test_params_given_whole_are_an_object(base: object) -> None:
    """spec V4."""
    assert "expected a JSON object" in refused(ChargeOrder, base=base).message


def test_values_given_whole_are_never_converted() -> None:
    """spec V4."""
    assert refused(ChargeOrder, base={"order": "1"}).message == (
        'params.order: expected int, got "1"'
    )
    assert "did you mean order" in refused(ChargeOrder, base={"order": 1, "orde": 2}).message


def test_defaults_are_filled_in_and_stored_as_their_type_says() -> None:
    """spec E4: a later change of a default changes no running execution."""
    made = coerce(Everything, [])

    text = codec.encode(made, Everything)
    assert type(made.rate) is float
    assert json.loads(text)["price"] == ["$ys", "decimal", "1.10"]
    assert json.loads(codec.encode(coerce(ChargeOrder, pairs("order=1")), ChargeOrder)) == {
        "order": 1,
        "note": "",
    }


def test_a_default_that_does_not_fit_its_own_type_is_found() -> None:
    """spec E4, V4."""

    class Lying(msgspec.Struct):
        count: int = None  # type: ignore[assignment]

    assert "params.count: expected int, got null" in refused(Lying).message


def test_without_a_declared_type_text_is_text() -> None:
    """spec V4: and JSON stays what it is."""
    made = coerce(None, pairs("a=1", "b.c=true", "d:=[1, null]", "e=null"))

    assert made == {"a": "1", "b": {"c": "true"}, "d": [1, None], "e": "null"}


def test_context_is_refused_in_its_own_words() -> None:
    """spec V3, V4: the place and the option are those that were typed."""
    with pytest.raises(InvalidParams) as caught:
        coerce(None, pairs("a=1", "a=2"), place="context", option="--context")

    assert caught.value.message == "context.a: given 2 times, but it takes one value"
    assert caught.value.remedy == ("--context a=2",)


def test_a_workflow_without_params_takes_none() -> None:
    """spec V4."""
    described = rebuild(describe(None))

    assert codec.encode(coerce(described, []), described) == "{}"
    assert "takes no params" in refused(described, "a=1").message
    assert "no such parameter" in refused(NoParams, base={"a": 1}).message


def test_text_that_cannot_be_stored_is_refused_as_the_record_would() -> None:
    """case 14; B85; spec E4: an argument that is not UTF-8 arrives with lone surrogates."""
    for type_, option in ((ChargeOrder, "note=\udc80"), (None, "a=\udc80")):
        with pytest.raises(InvalidExecutionEvent) as caught:
            coerce(type_, pairs("order=1", option) if type_ else pairs(option))
        assert "lone surrogate" in caught.value.message
        assert caught.value.code == "INVALID_EXECUTION_EVENT"


def test_values_nested_deeply_are_taken_up_to_the_limit() -> None:
    """case 19; spec V1."""
    value: Any = []
    for _ in range(codec.MAX_DEPTH - 2):
        value = [value]
    base = {"anything": value}

    assert coerce(Everything, pairs("count=1"), base).count == 1
    assert coerce(None, pairs("a=1"), base)["a"] == "1"
    for type_ in (Everything, None):
        with pytest.raises(ExecutionAdmissionError, match="nested deeper"):
            coerce(type_, pairs("count=1"), {"anything": [value]})


def test_a_tagged_struct_takes_its_parts_by_name() -> None:
    """spec V4."""
    assert coerce(Everything, pairs("pay.type=bank", "pay.iban=DE")).pay == Bank("DE")
    assert coerce(Card, pairs("number=1")) == Card("1")
    assert coerce(Card, pairs("type=card", "number=1")) == Card("1")
    assert "params.pay" in refused(Everything, "pay.type=cash").message


names = st.sampled_from(
    [*Everything.__struct_fields__, "address.zip", "table.x", "no.such", "", "."]
)
words = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["null", "true", "1", "-5", "1e400", "[1]", '{"a":1}', "[", "2026-01-01", "ß"]),
    st.from_regex(r"[\[\]{}\",:0-9a]{0,8}", fullmatch=True),
    st.characters(categories=["Cs"]),
)
options = st.builds(Pair, st.one_of(names, st.text(max_size=6)), words, st.booleans())
plain = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda below: st.one_of(
        st.lists(below, max_size=2), st.dictionaries(st.text(max_size=5), below, max_size=2)
    ),
    max_leaves=5,
)


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from([Everything, ChargeOrder, Month, NoParams, None]),
    st.lists(options, max_size=4),
    st.one_of(st.none(), plain, st.dictionaries(names, plain, max_size=3)),
)
def test_whatever_is_typed_params_fit_or_are_refused(
    type_: Any, given_: list[Pair], base: object
) -> None:
    """spec V3, V4: no other error, and what fits can be stored and read back as it is."""
    try:
        made = coerce(type_, given_, base)
    except ExecutionAdmissionError:
        return
    declared = Any if type_ is None else type_
    text = codec.encode(made, declared)
    assert codec.encode(codec.decode(text, declared), declared) == text


# --- from programs -------------------------------------------------------------------------------


def test_programs_pass_an_instance_or_a_mapping() -> None:
    """spec K10, E4."""
    order = ChargeOrder(42)

    assert validate(ChargeOrder, order) == order
    assert validate(ChargeOrder, order) is not order
    assert validate(ChargeOrder, {"order": 42}) == order
    assert validate(Month, Month("a")) == Month("a")
    assert validate(Month, {"shop": "a"}) == Month("a")
    assert validate(Everything, {"address": Address("x"), "day": date(2026, 1, 1)}).address == (
        Address("x")
    )
    assert validate(None, None) == validate(None, {}) == NoParams()


@pytest.mark.parametrize(
    ("type_", "value", "said"),
    [
        (ChargeOrder, {"order": "x"}, 'params.order: expected int, got "x"'),
        (ChargeOrder, {"order": 1, "nte": "x"}, "params.nte: there is no such parameter"),
        (ChargeOrder, ChargeOrder("x"), "params.order: expected int, got str"),  # type: ignore[arg-type]
        (ChargeOrder, Month("x"), "params: expected ChargeOrder or a mapping, got Month"),
        (ChargeOrder, 5, "params: expected ChargeOrder or a mapping, got int"),
        (ChargeOrder, None, "params.order: it has to be given"),
        (None, {"a": 1}, "params.a: there is no such parameter"),
    ],
)
def test_what_a_program_passes_is_checked_like_what_a_person_types(
    type_: Any, value: object, said: str
) -> None:
    """spec E4, V4."""
    with pytest.raises(InvalidParams) as caught:
        validate(type_, value)

    assert caught.value.message.startswith(said)


def test_a_value_that_cannot_be_stored_is_an_invalid_event_with_its_place() -> None:
    """cases 13, 14, 18; B81; spec E4."""
    ring: list[Any] = []
    ring.append(ring)
    for value, place in (
        ({"anything": [object()]}, "params.anything[0]"),
        ({"anything": {1: 2}}, "params.anything"),
        ({"text": "\ud800"}, "params.text"),
        (Everything(anything=(1, open)), "params.anything[1]"),
    ):
        with pytest.raises(InvalidExecutionEvent) as caught:
            validate(Everything, value)
        assert caught.value.place == place
    with pytest.raises(ExecutionAdmissionError, match=r"contains itself|nested"):
        validate(Everything, {"anything": ring})


# --- described without the module ----------------------------------------------------------------


def test_a_description_is_enough_to_check_and_write_params() -> None:
    """spec K4: `ys trigger` loads no module whose description it has."""
    for type_ in (ChargeOrder, Everything, Month, Card, Address):
        text = describe(type_)
        made = rebuild(text)

        assert not opaque(text)
        assert [field.name for field in table(describe(made))] == [
            field.name for field in table(text)
        ]
        assert signature(made) == signature(type_)
    order = rebuild(describe(ChargeOrder))
    assert codec.decode(codec.encode(coerce(order, pairs("order=1")), order), ChargeOrder) == (
        ChargeOrder(1)
    )


class Checked(msgspec.Struct):
    a: int

    def __post_init__(self) -> None:
        if self.a < 0:
            raise ValueError("a must not be negative")


class Made(msgspec.Struct):
    a: dict[str, int] = msgspec.field(default_factory=lambda: {"x": 1})


class Holding(msgspec.Struct):
    a: Address = msgspec.field(default_factory=lambda: Address("x"))


class Foreign:
    pass


class Alien(msgspec.Struct):
    a: Foreign | None = None


class Tree(msgspec.Struct):
    below: list[Tree] = []


class Lenient(enum.Enum):
    A = "a"

    @classmethod
    def _missing_(cls, value: object) -> Lenient:
        return cls.A


class Loose(msgspec.Struct):
    a: Lenient = Lenient.A


@pytest.mark.parametrize("type_", [Checked, Made, Holding, Alien, Tree, Loose])
def test_what_only_the_module_can_check_says_so(type_: Any) -> None:
    """spec K4: then the module is loaded; it can still be shown."""
    text = describe(type_)

    assert opaque(text)
    assert [field.name for field in table(text)] == [type_.__struct_fields__[0]]
    with pytest.raises(ValueError, match="only be checked by their module"):
        rebuild(text)


def test_the_authors_own_check_speaks_in_the_answer() -> None:
    """spec V4."""
    assert refused(Checked, "a=-1").message.startswith("params: a must not be negative")


def test_the_table_has_names_types_defaults_and_docs() -> None:
    """spec K4: from types and the texts below the fields, no second description to keep."""
    assert table(describe(ChargeOrder)) == [
        ParamField("order", "int", "required", "The order number to charge."),
        ParamField("note", "str", '""', "For the shop;\ntwo lines."),
    ]
    shown = {field.name: field for field in table(describe(Everything))}
    assert shown["size"].type_text == '"s" | "l"'
    assert shown["maybe"].type_text == "int | null"
    assert shown["pair"].type_text == "tuple[int, str] | null"
    assert shown["unique"].default_text == "[]"
    assert shown["price"].default_text == "1.10"
    assert shown["reName"].default_text == "0"
    assert shown["bounded"].doc == "A few."
    assert table(describe(None)) == []


def test_the_schema_is_json_schema_text() -> None:
    """spec K4: and types that have none allow everything."""
    found = json.loads(schema(ChargeOrder))

    assert found["$defs"]["ChargeOrder"]["properties"]["order"] == {"type": "integer"}
    assert json.loads(schema(Everything))["$defs"]["Everything"]["properties"]["path"]
    assert schema(Alien) == "{}"
    assert json.loads(schema(Any)) == {}
    assert json.loads(schema(type(None))) == {"type": "null"}


# --- plain keyword arguments ---------------------------------------------------------------------


async def report(
    step: Step,
    month: date,
    shops: list[str] = ["all"],  # noqa: B006 - authors write it so
    *,
    limit: int | None = None,
) -> None: ...


def test_plain_keyword_arguments_become_a_struct() -> None:
    """spec R1: also where the type of `step` is only imported for type checkers."""
    made = struct_from_signature(report, skip_first=True)

    assert signature(made) == 'month: date, shops: list[str] = ["all"], limit: int | null = null'
    found = coerce(made, pairs("month=2026-11-01", "shops=a", "shops=b"))
    assert (found.month, found.shops, found.limit) == (date(2026, 11, 1), ["a", "b"], None)
    coerce(made, pairs("month=2026-11-01")).shops.append("x")
    assert coerce(made, pairs("month=2026-11-01")).shops == ["all"]
    described = rebuild(describe(made))
    assert codec.encode(coerce(described, pairs("month=2026-11-01")), described) == codec.encode(
        coerce(made, pairs("month=2026-11-01")), made
    )


def test_a_function_without_arguments_has_no_params() -> None:
    """spec R1."""

    def backup() -> None: ...

    async def nightly(step: Step) -> None: ...

    assert struct_from_signature(backup, skip_first=False) is None
    assert struct_from_signature(nightly, skip_first=True) is None


def bare(step, x): ...  # type: ignore[no-untyped-def]


def star(step: Step, *rest: int) -> None: ...


def stars(step: Step, **rest: int) -> None: ...


def first(step: Step, x: int, /) -> None: ...


def unknown(step: Step, x: Nowhere) -> None: ...  # type: ignore[name-defined] # noqa: F821


@pytest.mark.parametrize(
    ("fn", "said"),
    [
        (bare, "x has no type"),
        (star, "\\*rest takes anything"),
        (stars, "\\*rest takes anything"),
        (first, "positional only"),
        (unknown, "cannot be resolved: name 'Nowhere'"),
    ],
)
def test_arguments_that_cannot_be_params_are_said_at_load(fn: Any, said: str) -> None:
    """spec R1, O2."""
    with pytest.raises(TypeError, match=said):
        struct_from_signature(fn, skip_first=True)


def test_nan_in_a_program_is_exact() -> None:
    """case 12; B82; spec V1: a program may pass what a person may not type."""
    assert math.isnan(validate(Everything, {"rate": math.nan}).rate)


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("True", "JSON writes true"),
        ("[1, FALSE]", "JSON writes false"),
        ('{"a": None}', "JSON writes null"),
        ("late", 'text stands in double quotes, "…"'),
        ("['late']", 'text stands in double quotes, "…"'),
    ],
)
def test_what_is_pythons_and_not_jsons_is_told_what_to_write(text: str, instead: str) -> None:
    """spec V1: JSON stays strict, and says how."""
    with pytest.raises(JsonError, match=f"Expecting value; {instead}$"):
        parse_json(text)


def test_where_a_value_is_missing_nothing_is_guessed() -> None:
    with pytest.raises(JsonError, match=r"Expecting value$"):
        parse_json('{"a": }')
