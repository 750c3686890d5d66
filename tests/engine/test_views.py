"""A predicate reads a view like the state itself, and no reading of it goes unnoticed."""

from __future__ import annotations

import array
import bisect
import collections
import contextlib
import copy
import csv
import dataclasses
import functools
import heapq
import inspect
import io
import itertools
import json
import marshal
import math
import operator
import pickle
import pprint
import random
import reprlib
import statistics
import string
import struct
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from functools import cached_property
from typing import Any

import msgspec
import pytest

from yieldstar_cli import codec
from yieldstar_cli.digests import KIND, digest_at, digests
from yieldstar_cli.engine.readings import MANY, Readings
from yieldstar_cli.engine.views import check_pure, plain, view
from yieldstar_cli.model import Path, Reading


class Color(Enum):
    RED = "red"
    MARK = "$ys"


class Item(msgspec.Struct):
    sku: str
    count: int = 0

    def is_low(self) -> bool:
        return self.count < 3

    @property
    def doubled(self) -> int:
        return self.count * 2

    @classmethod
    def of(cls, sku: str) -> Item:
        return cls(sku)

    @staticmethod
    def unit() -> str:
        return "piece"


class Frozen(msgspec.Struct, frozen=True, order=True):
    x: int
    y: int = 0


class Point(msgspec.Struct, array_like=True):
    x: int
    y: int


class Cat(msgspec.Struct, tag="cat"):
    name: str


class Dog(msgspec.Struct, tag="dog"):
    name: str


@dataclass
class Box:
    width: int
    items: list[int] = field(default_factory=list)

    @cached_property
    def area(self) -> int:
        return self.width * self.width

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[int]:
        return iter(self.items)

    def __getitem__(self, at: int) -> int:
        return self.items[at]

    def __getattr__(self, name: str) -> Any:
        if name == "deep":
            return self.width
        raise AttributeError(name)


@dataclass(frozen=True, order=True)
class Pair:
    x: int
    y: int


class Stock(msgspec.Struct, rename="camel"):
    by_sku: dict[str, Item]
    queue: list[int]
    words: list[str]
    items: list[Item]
    box: Box
    pair: Pair
    frozen: Frozen
    point: Point
    pet: Cat | Dog
    tags: set[str]
    twice: tuple[int, list[int]]
    at: datetime
    color: Color
    colors: list[Color]
    anything: Any
    boss: Item | None = None


def stock(**changes: Any) -> Stock:
    made = Stock(
        by_sku={"a": Item("a", 1), "b": Item("b", 5)},
        queue=[3, 1, 2],
        words=["x", "y"],
        items=[Item("c", 7), Item("d", 9)],
        box=Box(4, [5, 6]),
        pair=Pair(1, 2),
        frozen=Frozen(1, 2),
        point=Point(1, 2),
        pet=Cat("Tom"),
        tags={"new"},
        twice=(1, [2]),
        at=datetime(2026, 11, 30, tzinfo=UTC),
        color=Color.RED,
        colors=[Color.RED],
        anything={"n": {"m": [1, {"o": 2}]}, "marked": ["$ys", "tuple"]},
    )
    return msgspec.structs.replace(made, **changes)


Program = Callable[[Any], Any]


@dataclass
class Run:
    """What a program did with a view: its value, or its error, and what it read."""

    value: Any
    error: str | None
    readings: tuple[Reading, ...]
    noted: tuple[Path, ...]

    @property
    def paths(self) -> list[Path]:
        return [reading.path for reading in self.readings]


def run(program: Program, state: Any = None) -> Run:
    state = stock() if state is None else state
    text = codec.encode(state, type(state))
    tracker = Readings()
    value, error = None, None
    try:
        value = plain(program(view(codec.decode(text, type(state)), tracker)))
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"
    noted = tracker.paths()
    return Run(value, error, digests(msgspec.json.decode(text), noted), noted)


# --- what is noted -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "value", "paths"),
    [
        (lambda s: s.boss, None, [("boss",)]),
        (lambda s: s.boss is None, True, [("boss",)]),
        (lambda s: s.by_sku["a"].count, 1, [("bySku", "a", "count")]),
        (lambda s: s.by_sku["a"].is_low(), True, [("bySku", "a", "count")]),
        (lambda s: s.by_sku["b"].doubled, 10, [("bySku", "b", "count")]),
        (lambda s: s.by_sku["a"].of("n").sku, "n", [("bySku", "a", KIND)]),
        (lambda s: s.by_sku["a"].unit(), "piece", [("bySku", "a", KIND)]),
        (lambda s: s.by_sku.get("z"), None, [("bySku", KIND), ("bySku", "z")]),
        (lambda s: "z" in s.by_sku, False, [("bySku", KIND), ("bySku", "z")]),
        (lambda s: "a" in s.by_sku, True, [("bySku", "a", KIND)]),
        (lambda s: s.items[1].sku, "d", [("items", 1, "sku")]),
        (lambda s: s.items[-1].sku, "d", [("items",)]),
        (lambda s: s.queue[0], 3, [("queue", 0)]),
        (lambda s: s.queue[1:], [1, 2], [("queue",)]),
        (lambda s: s.queue and 1, 1, [("queue",)]),
        (lambda s: isinstance(s.queue, list), True, [("queue", KIND)]),
        (lambda s: isinstance(s.pet, Cat), True, [("pet", "type")]),
        (lambda s: s.pet.name, "Tom", [("pet", "type"), ("pet", "name")]),
        (lambda s: s.point.x, 1, [("point",)]),
        (lambda s: s.tags, {"new"}, [("tags",)]),
        (lambda s: s.twice[0], 1, [("twice",)]),
        (lambda s: s.at.year, 2026, [("at",)]),
        (lambda s: s.color is Color.RED, True, [("color",)]),
        (lambda s: s.box.width, 4, [("box", "width")]),
        (lambda s: s.box.area, 16, [("box", "width")]),
        (lambda s: s.box.deep, 4, [("box", "width")]),
        (lambda s: s.box[1], 6, [("box", "items", 1)]),
        (lambda s: len(s.box), 2, [("box", "items")]),
        (lambda s: list(s.box), [5, 6], [("box", "items")]),
        (lambda s: s.anything["n"]["m"][1]["o"], 2, [("anything", "n", "m", 1, "o")]),
        (lambda s: s.anything["marked"][1], "tuple", [("anything", "marked")]),
        (lambda s: s.by_sku["a"], Item("a", 1), [("bySku", "a")]),
        (lambda s: [s.by_sku["a"].sku, s.by_sku["a"]][1], Item("a", 1), [("bySku", "a")]),
        (lambda s: {"x": (s.frozen,)}, {"x": (Frozen(1, 2),)}, [("frozen",)]),
        (lambda s: s.colors[0] is Color.RED, True, [("colors", 0)]),
        (lambda s: 1, 1, [(KIND,)]),
    ],
)
def test_a_reading_is_of_the_place_that_was_read(program, value, paths):
    """spec S4: attributes, items, positions one by one; anything else of a container is all."""
    done = run(program)

    assert done.error is None
    assert done.value == value
    assert done.paths == paths


@pytest.mark.parametrize(
    ("program", "error", "paths"),
    [
        (lambda s: s.by_sku["z"], "KeyError", [("bySku", KIND), ("bySku", "z")]),
        (lambda s: s.queue[7], "IndexError", [("queue",)]),
        (lambda s: s.queue["a"], "TypeError", [("queue", KIND)]),
        (lambda s: s.nothing, "AttributeError", [(KIND,)]),
        (lambda s: s.boss.sku, "AttributeError", [("boss",)]),
        (lambda s: len(s.by_sku["a"]), "TypeError", [("bySku", "a", KIND)]),
        (lambda s: hash(s.queue), "TypeError", [("queue", KIND)]),
        (lambda s: s.by_sku["a"] < s.by_sku["b"], "TypeError", [("bySku", "a"), ("bySku", "b")]),
    ],
)
def test_an_error_leaves_what_it_came_from_as_read(program, error, paths):
    """spec S4: what is missing was read, too; the error may be gone after the next write."""
    done = run(program)

    assert done.error is not None
    assert done.error.startswith(error)
    assert done.paths == paths


def test_a_list_that_is_stored_tagged_is_read_as_a_whole():
    """spec V1, S4: positions in the state would be others in the stored JSON."""
    marked = stock(colors=[Color.MARK, Color.RED], anything=["$ys", "list"])

    assert run(lambda s: s.colors[1], marked).paths == [("colors",)]
    assert run(lambda s: s.anything[1], marked).paths == [("anything",)]
    assert run(lambda s: isinstance(s.anything, list), marked).paths == [("anything",)]


class Base(msgspec.Struct, dict=True):
    n: int

    def __post_init__(self) -> None:
        self.noted = [self.n]

    def next(self) -> int:
        return self.n + 1

    @cached_property
    def square(self) -> int:
        return self.n * self.n


class Derived(Base, rename="upper"):
    extra: int = 0

    def next(self) -> int:
        return super().next() + self.extra

    def __add__(self, more: int) -> int:
        return self.n + more

    def __contains__(self, wanted: int) -> bool:
        return wanted == self.n

    def __bool__(self) -> bool:
        return self.extra > 0

    def __call__(self) -> int:
        return self.extra


class Sly(msgspec.Struct):
    n: int
    m: int = 0

    def __getattribute__(self, name: str) -> Any:
        return super().__getattribute__("m" if name == "n" else name)


@pytest.mark.parametrize(
    ("program", "value", "paths"),
    [
        (lambda s: s.next(), 5, [("n",), ("EXTRA",)]),
        (lambda s: s + 4, 7, [("n",)]),
        (lambda s: 3 in s, True, [("n",)]),
        (lambda s: 1 if s else 2, 1, [("EXTRA",)]),
        (lambda s: s(), 1, [("EXTRA",)]),
        (lambda s: s.square, 9, [("n",)]),
        (lambda s: s.noted, [3], [()]),
        (lambda s: vars(s), {"noted": [3]}, [()]),
        (lambda s: s.__doc__, None, [(KIND,)]),
        (lambda s: s.__struct_fields__, ("n", "extra"), [(KIND,)]),
    ],
)
def test_the_authors_code_runs_on_the_view(program, value, paths):
    """spec S4: methods, properties and operators of the Struct read as they go."""
    state = Derived(3, 1)
    tracker = Readings()

    assert plain(program(view(state, tracker))) == value
    assert [path for path in tracker.paths() if path != (KIND,)] == paths or paths == [(KIND,)]


def test_a_class_that_finds_its_fields_itself_is_read_as_a_whole():
    """spec S4: nobody knows what else it looks at."""
    tracker = Readings()

    assert view(Sly(1, 2), tracker).n == 2
    assert tracker.paths() == ((),)


class Alike:
    """Equals a text, and is none."""

    def __hash__(self) -> int:
        return hash("a")

    def __eq__(self, other: object) -> bool:
        return other == "a"


def test_paths_hold_texts_and_numbers_only():
    """spec S4: they are stored as JSON."""
    tracker = Readings()
    shown = view(stock(), tracker)

    assert shown.by_sku[Alike()].count == 1
    assert shown.queue[True] == 1
    assert [path for path in tracker.paths() if KIND not in path] == [("bySku",), ("queue", 1)]
    assert {type(step) for path in tracker.paths() for step in path} == {str, int}


def test_a_field_without_a_value_was_read_as_absent():
    """spec S4: absent counts as a value."""
    tracker = Readings()
    box = Box(1)
    del box.width

    with pytest.raises(AttributeError, match="has no value for 'width'"):
        _ = view(box, tracker).width
    assert tracker.paths() == ((KIND,), ("width",))


def test_many_parts_of_one_container_are_told_as_the_whole_of_it():
    """spec S4: the cost is that of the waiter's paths, so these are not without end."""
    state = {"many": {str(n): {"n": n} for n in range(200)}, "one": 1}

    few = run(lambda s: [s["many"][str(n)]["n"] for n in range(MANY)], state)
    many = run(lambda s: [s["one"], *(s["many"][str(n)]["n"] for n in range(MANY + 1))], state)

    assert len(few.paths) == MANY
    assert many.paths == [("one",), ("many",)]


# --- digests -------------------------------------------------------------------------------------

LONG = "x" * 100


@pytest.mark.parametrize(
    ("tree", "path"),
    [
        ({"a": 1}, ("b",)),
        ({"a": 1}, ("a", "b")),
        ({"a": [1]}, ("a", 1)),
        ({"a": ["b"]}, ("a", "b")),
        ({"a": "b"}, ("a", "b")),
        ({"a": "b"}, ("a", 0)),
        ({"0": "b"}, (0,)),
        (["$ys", "tuple", 1], (2,)),
        (["$ys", "tuple", 1], (1,)),
        ({}, ("a", KIND)),
    ],
)
def test_where_nothing_stands_the_digest_is_empty(tree, path):
    """spec S4: absent counts as a value."""
    assert digest_at(tree, path) == ""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (1, True),
        (0.0, -0.0),
        (1, "1"),
        (None, "null"),
        ([], {}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ([LONG, 1], [LONG, 2]),
        ({"a": LONG}, {"b": LONG}),
        (["$ys", "list"], ["$ys", "tuple"]),
    ],
)
def test_what_can_be_told_apart_has_other_digests(one, other):
    """spec S4: types, too, and the order of a dict, which a loop sees."""
    assert digest_at(one, ()) != digest_at(other, ())
    assert digest_at({"a": [one]}, ("a", 0)) == digest_at(one, ()) != ""


def test_the_kind_of_a_container_says_nothing_of_what_is_in_it():
    """spec S4: whether something is there is all that was read."""
    assert digest_at({"a": {}}, ("a", KIND)) == digest_at({"a": {"b": LONG}}, ("a", KIND))
    assert digest_at([], (KIND,)) == digest_at([LONG, 1], (KIND,))
    kinds = [{}, [], ["$ys", "tuple"], ["$ys", "set"], None, 1, "{", "["]
    assert len({digest_at(kind, (KIND,)) for kind in kinds}) == len(kinds)


def test_a_digest_is_short_and_stays_what_it_is():
    """spec S4: it is stored, and compared by versions to come."""
    assert digest_at({"n": 12}, ("n",)) == "=12"
    assert digest_at({"t": LONG}, ("t",)) == "10a9270a01f7334f95712ee341cefe45"
    assert digest_at([LONG] * 50, ()) != digest_at([LONG] * 51, ())


def test_match_patterns_read_views():
    """spec S4: mapping, sequence and class patterns see what they would see of the state."""

    def program(s: Any) -> Any:
        found = []
        match s:
            case Stock(by_sku={"a": Item(sku, count=1), **rest}, queue=[first, *_]):
                found += [sku, sorted(rest), first]
        match s.pet:
            case Dog():
                found.append("dog")
            case Cat(name=name):
                found.append(name)
        match s.anything:
            case {"n": {"m": [1, dict() as last]}}:
                found.append(last["o"])
        return found

    done = run(program)

    assert done.value == ["a", ["b"], 3, "Tom", 2]
    assert {("bySku",), ("queue",), ("pet", "name")} < set(done.paths)


def test_views_compare_and_count_as_keys_like_what_they_show():
    """spec S4: views, values, and one with the other."""
    done = run(
        lambda s: [
            s.frozen == Frozen(1, 2),
            Frozen(1, 2) == s.frozen,
            s.frozen == s.frozen,
            s.frozen != Frozen(1, 3),
            s.frozen < Frozen(2),
            s.pair == Pair(1, 2),
            Pair(1, 2) == s.pair,
            s.pair < Pair(1, 3),
            {Frozen(1, 2): "here"}[s.frozen],
            {s.pair: "there"}[Pair(1, 2)],
            s.queue == [3, 1, 2],
            [3, 1, 2] == s.queue,  # noqa: SIM300
            s.by_sku == {"a": Item("a", 1), "b": Item("b", 5)},
            Item("c", 7) in s.items,
            s.items.index(Item("d", 9)),
            s.items[0] in [Item("c", 7)],
        ]
    )

    assert done.error is None
    assert done.value == [True] * 8 + ["here", "there"] + [True] * 4 + [1, True]


# --- nothing is missed ---------------------------------------------------------------------------


@functools.singledispatch
def told(value: Any) -> str:
    return "something"


@told.register(list)
def _(value: list[Any]) -> str:
    return f"list of {len(value)}"


def _first_of(value: Any) -> Any:
    match value:
        case list([first, *_]):
            return first
    return None


#: name: (a reader, the place it reads). What it does is either seen or refused.
READERS: dict[str, tuple[Program, Path]] = {
    "json.dumps of a list": (lambda s: json.dumps(s.queue), ("queue",)),
    "json.dumps of a list in Python": (lambda s: json.dumps(s.queue, indent=1), ("queue",)),
    "json.dumps of a dict in Python": (lambda s: json.dumps(s.anything, indent=1), ("anything",)),
    "json.dumps with a default": (lambda s: json.dumps(s.frozen, default=repr), ("frozen",)),
    "msgspec.json.encode": (lambda s: msgspec.json.encode(s.queue), ("queue",)),
    "msgspec.json.encode of a Struct": (lambda s: msgspec.json.encode(s.frozen), ("frozen",)),
    "msgspec.json.encode of a dataclass": (lambda s: msgspec.json.encode(s.pair), ("pair",)),
    "msgspec.msgpack.encode": (lambda s: msgspec.msgpack.encode(s.frozen), ("frozen",)),
    "msgspec.to_builtins": (lambda s: msgspec.to_builtins(s.frozen), ("frozen",)),
    "msgspec.to_builtins of a dataclass": (lambda s: msgspec.to_builtins(s.pair), ("pair",)),
    "msgspec.convert to a Struct": (
        lambda s: msgspec.convert(s.frozen, Frozen, from_attributes=True),
        ("frozen",),
    ),
    "msgspec.convert to itself": (lambda s: msgspec.convert(s.frozen, Frozen), ("frozen",)),
    "msgspec.convert to a dict": (lambda s: msgspec.convert(s.by_sku, dict), ("bySku",)),
    "msgspec.convert to a list": (lambda s: msgspec.convert(s.queue, list[int]), ("queue",)),
    "msgspec.structs.asdict": (lambda s: msgspec.structs.asdict(s.frozen), ("frozen",)),
    "msgspec.structs.astuple": (lambda s: msgspec.structs.astuple(s.frozen), ("frozen",)),
    "msgspec.structs.replace": (lambda s: msgspec.structs.replace(s.frozen, x=3), ("frozen",)),
    "dataclasses.asdict": (lambda s: dataclasses.asdict(s.pair), ("pair",)),
    "dataclasses.astuple": (lambda s: dataclasses.astuple(s.pair), ("pair",)),
    "dataclasses.replace": (lambda s: dataclasses.replace(s.pair, x=3), ("pair",)),
    "vars of a dataclass": (lambda s: vars(s.box), ("box",)),
    "vars of a Struct": (lambda s: vars(s.frozen), ("frozen",)),
    "copy.copy": (lambda s: copy.copy(s.queue), ("queue",)),
    "copy.deepcopy": (lambda s: copy.deepcopy(s.by_sku), ("bySku",)),
    "copy.copy of a Struct": (lambda s: copy.copy(s.frozen), ("frozen",)),
    "copy.deepcopy of a dataclass": (lambda s: copy.deepcopy(s.box), ("box",)),
    "pickle of a list": (lambda s: pickle.loads(pickle.dumps(s.queue)), ("queue",)),
    "pickle of a dict": (lambda s: pickle.loads(pickle.dumps(s.by_sku)), ("bySku",)),
    "pickle of a Struct": (lambda s: pickle.loads(pickle.dumps(s.frozen)), ("frozen",)),
    "pickle of a dataclass": (lambda s: pickle.loads(pickle.dumps(s.pair)), ("pair",)),
    "pickle in Python": (lambda s: pickle._dumps(s.queue), ("queue",)),
    "__getstate__": (lambda s: s.pair.__getstate__(), ("pair",)),
    "__reduce__": (lambda s: str(s.frozen.__reduce__()), ("frozen",)),
    "__rich_repr__": (lambda s: list(s.frozen.__rich_repr__()), ("frozen",)),
    "dict()": (lambda s: dict(s.by_sku), ("bySku",)),
    "dict() with more": (lambda s: dict(s.by_sku, z=1), ("bySku",)),
    "{**}": (lambda s: {**s.by_sku}, ("bySku",)),
    "f(**)": (lambda s: dict(**s.by_sku), ("bySku",)),
    "f(*)": (lambda s: max(*s.queue), ("queue",)),
    "dict.update": (lambda s: {}.update(s.by_sku), ("bySku",)),
    "dict |": (lambda s: {"z": 1} | s.by_sku, ("bySku",)),
    "| dict": (lambda s: s.by_sku | {"z": 1}, ("bySku",)),
    "dict.fromkeys": (lambda s: dict.fromkeys(s.queue), ("queue",)),
    "MappingProxyType": (lambda s: list(types.MappingProxyType(s.by_sku)), ("bySku",)),
    "ChainMap": (lambda s: list(collections.ChainMap(s.by_sku)), ("bySku",)),
    "ChainMap of another": (lambda s: collections.ChainMap({}, s.by_sku)["a"].sku, ("bySku",)),
    "Counter": (lambda s: collections.Counter(s.words), ("words",)),
    "deque": (lambda s: list(collections.deque(s.queue)), ("queue",)),
    "list()": (lambda s: list(s.queue), ("queue",)),
    "[*]": (lambda s: [*s.queue], ("queue",)),
    "list.extend": (lambda s: [].extend(s.queue), ("queue",)),
    "slice assignment": (lambda s: operator.setitem([1], slice(0, 1), s.queue), ("queue",)),
    "tuple()": (lambda s: tuple(s.queue), ("queue",)),
    "set()": (lambda s: set(s.queue), ("queue",)),
    "frozenset()": (lambda s: frozenset(s.queue), ("queue",)),
    "set.issubset": (lambda s: {1}.issubset(s.queue), ("queue",)),
    "set of keys": (lambda s: {"a"} - s.by_sku.keys(), ("bySku",)),
    "bytes()": (lambda s: bytes(s.queue), ("queue",)),
    "bytearray()": (lambda s: bytearray(s.queue), ("queue",)),
    "memoryview()": (lambda s: memoryview(s.queue), ("queue",)),
    "unpacking": (lambda s: [b for a, b, c in [s.queue]], ("queue",)),
    "str.join": (lambda s: "".join(s.words), ("words",)),
    "str.format of a list": (lambda s: "{0}".format(s.queue), ("queue",)),  # noqa: UP030, UP032
    "str.format of an item": (lambda s: "{0[0]}".format(s.queue), ("queue",)),  # noqa: UP030, UP032
    "str.format of a field": (lambda s: "{0.x}".format(s.frozen), ("frozen",)),  # noqa: UP030, UP032
    "str.format_map": (lambda s: "{a}".format_map(s.by_sku), ("bySku",)),
    "string.Template": (lambda s: string.Template("$a").substitute(s.by_sku), ("bySku",)),
    "an f-string": (lambda s: f"{s.frozen} {s.frozen!r}", ("frozen",)),
    "% of a list": (lambda s: "%s" % s.queue, ("queue",)),  # noqa: UP031
    "% of a dict": (lambda s: "%(a)s" % s.by_sku, ("bySku",)),  # noqa: UP031
    "repr": (lambda s: repr(s.by_sku), ("bySku",)),
    "repr of a dataclass": (lambda s: repr(s.pair), ("pair",)),
    "str": (lambda s: str(s.queue), ("queue",)),
    "ascii": (lambda s: ascii(s.queue), ("queue",)),
    "format": (lambda s: format(s.queue), ("queue",)),
    "pprint": (lambda s: pprint.pformat(s.by_sku), ("bySku",)),
    "reprlib": (lambda s: reprlib.repr(s.queue), ("queue",)),
    "print": (lambda s: print(s.queue), ("queue",)),
    "sum": (lambda s: sum(s.queue), ("queue",)),
    "sum of lists": (lambda s: sum([s.queue], []), ("queue",)),  # noqa: RUF017
    "math.fsum": (lambda s: math.fsum(s.queue), ("queue",)),
    "math.prod": (lambda s: math.prod(s.queue), ("queue",)),
    "min": (lambda s: min(s.queue), ("queue",)),
    "max of fields": (lambda s: max(s.items, key=lambda i: i.count), ("items",)),
    "len": (lambda s: len(s.queue), ("queue",)),
    "len of a dict": (lambda s: len(s.by_sku), ("bySku",)),
    "operator.length_hint": (lambda s: operator.length_hint(s.queue), ("queue",)),
    "bool": (lambda s: bool(s.by_sku), ("bySku",)),
    "not": (lambda s: not s.queue, ("queue",)),
    "operator.truth": (lambda s: operator.truth(s.queue), ("queue",)),
    "iter": (lambda s: next(iter(s.queue)), ("queue",)),
    "reversed": (lambda s: list(reversed(s.queue)), ("queue",)),
    "reversed dict": (lambda s: list(reversed(s.by_sku)), ("bySku",)),
    "keys": (lambda s: list(s.by_sku.keys()), ("bySku",)),
    "values": (lambda s: [i.sku for i in s.by_sku.values()], ("bySku",)),
    "items": (lambda s: [k for k, _ in s.by_sku.items()], ("bySku",)),
    "len of values": (lambda s: len(s.by_sku.values()), ("bySku",)),
    "a list's copy": (lambda s: s.queue.copy(), ("queue",)),
    "a dict's copy": (lambda s: s.by_sku.copy(), ("bySku",)),
    "zip": (lambda s: list(zip(s.queue, s.words, strict=False)), ("queue",)),
    "enumerate": (lambda s: list(enumerate(s.queue)), ("queue",)),
    "map": (lambda s: list(map(str, s.queue)), ("queue",)),
    "filter": (lambda s: list(filter(None, s.queue)), ("queue",)),
    "any": (lambda s: any(s.queue), ("queue",)),
    "all": (lambda s: all(s.queue), ("queue",)),
    "sorted": (lambda s: sorted(s.queue), ("queue",)),
    "itertools.chain": (lambda s: list(itertools.chain(s.queue)), ("queue",)),
    "itertools.islice": (lambda s: list(itertools.islice(s.queue, 1)), ("queue",)),
    "functools.reduce": (lambda s: functools.reduce(operator.add, s.queue), ("queue",)),
    "singledispatch": (lambda s: told(s.queue), ("queue",)),
    "heapq.nlargest": (lambda s: heapq.nlargest(1, s.queue), ("queue",)),
    "heapq.heapify": (lambda s: heapq.heapify(s.queue), ("queue",)),
    "heapq.heappush": (lambda s: heapq.heappush(s.queue, 1), ("queue",)),
    "heapq.merge": (lambda s: list(heapq.merge(s.queue, [1])), ("queue",)),
    "bisect": (lambda s: bisect.bisect(s.queue, 2), ("queue",)),
    "bisect.insort": (lambda s: bisect.insort(s.queue, 2), ("queue",)),
    "random.Random.choice": (lambda s: random.Random(1).choice(s.queue), ("queue",)),
    "random.Random.shuffle": (lambda s: random.Random(1).shuffle(s.queue), ("queue",)),
    "random.Random.sample": (lambda s: random.Random(1).sample(s.queue, 1), ("queue",)),
    "statistics.mean": (lambda s: statistics.mean(s.queue), ("queue",)),
    "statistics.median": (lambda s: statistics.median(s.queue), ("queue",)),
    "itertools.groupby": (lambda s: len(list(itertools.groupby(s.queue))), ("queue",)),
    "itertools.product": (lambda s: list(itertools.product(s.queue, s.queue)), ("queue",)),
    "itertools.accumulate": (lambda s: list(itertools.accumulate(s.queue)), ("queue",)),
    "array.array": (lambda s: list(array.array("i", s.queue)), ("queue",)),
    "struct.pack": (lambda s: struct.pack("3i", *s.queue), ("queue",)),
    "marshal.dumps": (lambda s: marshal.dumps(s.queue), ("queue",)),
    "csv.writer": (lambda s: csv.writer(io.StringIO()).writerow(s.queue), ("queue",)),
    "str.translate": (lambda s: "a".translate(s.queue), ("queue",)),
    "str.startswith": (lambda s: "x".startswith(s.words), ("words",)),
    "int.from_bytes": (lambda s: int.from_bytes(s.queue, "big"), ("queue",)),
    "inspect.getmembers": (lambda s: len(inspect.getmembers(s.pair)), ("pair",)),
    "dir": (lambda s: len(dir(s.box)), ("box",)),
    "eval": (lambda s: eval("a", {}, s.by_sku), ("bySku", "a")),
    "UserList": (lambda s: list(collections.UserList(s.queue)), ("queue",)),
    "UserDict": (lambda s: dict(collections.UserDict(s.by_sku)), ("bySku",)),
    "OrderedDict": (lambda s: dict(collections.OrderedDict(s.by_sku)), ("bySku",)),
    "a class pattern's list": (lambda s: _first_of(s.queue), ("queue",)),
    "in": (lambda s: 3 in s.queue, ("queue",)),
    "in a dict": (lambda s: "a" in s.by_sku, ("bySku", "a")),
    "in a dict, no text": (lambda s: 5 in s.by_sku, ("bySku",)),
    "list.count": (lambda s: s.queue.count(3), ("queue",)),
    "list.index": (lambda s: s.queue.index(3), ("queue",)),
    "==": (lambda s: s.queue == [3], ("queue",)),
    "!=": (lambda s: s.queue != [3], ("queue",)),
    "== the other way": (lambda s: [3] == s.queue, ("queue",)),  # noqa: SIM300
    "== of a Struct": (lambda s: Frozen(1, 2) == s.frozen, ("frozen",)),
    "== within a list": (lambda s: [Frozen(1, 2)] == [s.frozen], ("frozen",)),
    "== within a tuple": (lambda s: (1, s.queue) == (1, [3]), ("queue",)),
    "== with a set": (lambda s: {Frozen(1, 2)} == {s.frozen}, ("frozen",)),
    "<": (lambda s: s.queue < [3], ("queue",)),
    "< the other way": (lambda s: [3] < s.queue, ("queue",)),  # noqa: SIM300
    "< of Structs": (lambda s: Frozen(1) < s.frozen, ("frozen",)),
    "hash": (lambda s: hash(s.frozen), ("frozen",)),
    "hash of a dataclass": (lambda s: hash(s.pair), ("pair",)),
    "hash of a list": (lambda s: hash(s.queue), ("queue",)),
    "a dict's key": (lambda s: {Frozen(1, 2): 1}.get(s.frozen), ("frozen",)),
    "+": (lambda s: s.queue + [1], ("queue",)),  # noqa: RUF005
    "+ the other way": (lambda s: [1] + s.queue, ("queue",)),  # noqa: RUF005
    "+ of two": (lambda s: s.queue + s.words, ("queue",)),
    "+=": (lambda s: operator.iadd([1], s.queue), ("queue",)),
    "*": (lambda s: s.queue * 2, ("queue",)),
    "* the other way": (lambda s: 2 * s.queue, ("queue",)),
    "operator.getitem": (lambda s: operator.getitem(s.queue, 0), ("queue", 0)),
    "operator.itemgetter": (lambda s: operator.itemgetter("a")(s.by_sku), ("bySku", "a")),
    "operator.itemgetter of two": (lambda s: operator.itemgetter(0, 1)(s.queue), ("queue", 0)),
    "operator.attrgetter": (lambda s: operator.attrgetter("pair.x")(s), ("pair", "x")),
    "operator.methodcaller": (
        lambda s: operator.methodcaller("is_low")(s.by_sku["a"]),
        ("bySku", "a", "count"),
    ),
    "operator.contains": (lambda s: operator.contains(s.queue, 1), ("queue",)),
    "operator.countOf": (lambda s: operator.countOf(s.queue, 1), ("queue",)),
    "operator.indexOf": (lambda s: operator.indexOf(s.queue, 1), ("queue",)),
    "operator.concat": (lambda s: operator.concat(s.queue, [1]), ("queue",)),
    "getattr": (lambda s: getattr(s.pair, "x", 0), ("pair", "x")),
    "hasattr": (lambda s: hasattr(s, "boss"), ("boss",)),
    "the author's function": (lambda s: Item.is_low(s.by_sku["a"]), ("bySku", "a", "count")),
    "the author's property": (
        lambda s: Item.doubled.fget(s.by_sku["a"]),
        ("bySku", "a", "count"),
    ),
    "the field's descriptor": (lambda s: Frozen.x.__get__(s.frozen), ("frozen",)),
    "object.__getattribute__": (lambda s: object.__getattribute__(s.frozen, "x"), ("frozen",)),
    "list.__len__": (lambda s: list.__len__(s.queue), ("queue",)),
    "dict.__getitem__": (lambda s: dict.__getitem__(s.by_sku, "a"), ("bySku",)),
    "dict.items": (lambda s: dict.items(s.by_sku), ("bySku",)),
    "codec.encode": (lambda s: codec.encode(s.by_sku), ("bySku",)),
    "codec.encode of a Struct": (lambda s: codec.encode(s.frozen, Frozen), ("frozen",)),
    "codec.encode of a dataclass": (lambda s: codec.encode(s.pair, Pair), ("pair",)),
    "plain": (lambda s: plain(s.queue), ("queue",)),
    "the result": (lambda s: s.queue, ("queue",)),
    "in the result": (lambda s: [{"x": (s.queue,)}], ("queue",)),
    "in an object of the result": (lambda s: types.SimpleNamespace(q=s.queue), ("queue",)),
}


@pytest.mark.parametrize("name", READERS)
def test_whatever_reads_a_view_is_seen_or_refused(name, capsys):
    """spec S4: no reader, whether written in Python or in C, looks at the state unnoticed."""
    program, place = READERS[name]

    done = run(program)

    covers = {place[:length] for length in range(len(place) + 1)}
    noted = {path[:-1] if path[-1:] == (KIND,) else path for path in done.noted if path != (KIND,)}
    whole = {path for path in done.noted if path[-1:] != (KIND,)}
    below = {path for path in whole if path[: len(place)] == place}
    in_a_dict = name == "in a dict" and place in noted
    assert done.error is not None or whole & covers or below or in_a_dict


#: States that differ from `stock()` in one place each.
CHANGED = [
    {"by_sku": {"a": Item("a", 1)}},
    {"by_sku": {"b": Item("b", 5), "a": Item("a", 1)}},
    {"by_sku": {"a": Item("a", 4), "b": Item("b", 5)}},
    {"queue": [3, 1]},
    {"queue": [3, 1, 2, 0]},
    {"queue": [1, 3, 2]},
    {"queue": []},
    {"words": ["x"]},
    {"items": []},
    {"items": [Item("c", 7), Item("d", 10)]},
    {"box": Box(4, [])},
    {"box": Box(5, [5, 6])},
    {"pair": Pair(1, 3)},
    {"pair": Pair(2, 2)},
    {"frozen": Frozen(3)},
    {"point": Point(2, 2)},
    {"pet": Dog("Tom")},
    {"anything": None},
    {"anything": {"n": 1}},
    {"boss": Item("e")},
]


@pytest.mark.parametrize("changes", CHANGED, ids=repr)
def test_where_a_readers_answer_changes_one_of_its_readings_does(changes, capsys):
    """spec S4: no wake-up is lost, whatever the predicate is made of."""
    for name, (program, _) in READERS.items():
        before, after = run(program), run(program, stock(**changes))
        if (repr(before.value), before.error) == (repr(after.value), after.error):
            continue
        tree = msgspec.json.decode(codec.encode(stock(**changes), Stock))
        paths = [reading.path for reading in before.readings]
        assert before.readings != digests_of(tree, paths), name


def digests_of(tree: Any, paths: Sequence[Path]) -> tuple[Reading, ...]:
    return tuple(Reading(path, digest_at(tree, path)) for path in paths)


# --- only reads ----------------------------------------------------------------------------------


def _augmented(s: Any) -> None:
    s.by_sku["a"].count += 1


def _extended(s: Any) -> None:
    s.queue += [1]


def _deleted(s: Any) -> None:
    del s.by_sku["a"]


def _unset(s: Any) -> None:
    del s.boss


@pytest.mark.parametrize(
    "program",
    [
        _augmented,
        _extended,
        _deleted,
        _unset,
        lambda s: setattr(s, "boss", None),
        lambda s: setattr(s, "new", None),
        lambda s: setattr(s.pair, "x", 1),
        lambda s: s.by_sku.update(a=1),
        lambda s: s.by_sku.pop("a"),
        lambda s: s.by_sku.popitem(),
        lambda s: s.by_sku.setdefault("z", 1),
        lambda s: s.by_sku.clear(),
        lambda s: operator.setitem(s.by_sku, "a", 1),
        lambda s: operator.ior(s.by_sku, {}),
        lambda s: s.queue.append(1),
        lambda s: s.queue.extend([1]),
        lambda s: s.queue.insert(0, 1),
        lambda s: s.queue.remove(3),
        lambda s: s.queue.pop(),
        lambda s: s.queue.clear(),
        lambda s: s.queue.sort(),
        lambda s: s.queue.reverse(),
        lambda s: operator.setitem(s.queue, 0, 1),
        lambda s: operator.delitem(s.queue, 0),
        lambda s: operator.imul(s.queue, 2),
        lambda s: next(iter(s.items)).__setattr__("count", 1),
        lambda s: next(iter(s.by_sku.values())).__setattr__("count", 1),
        lambda s: setattr(s.point, "x", 3),
    ],
)
def test_writing_to_a_view_is_refused_with_the_place_to_do_it(program):
    """spec S4: a predicate only reads."""
    done = run(program)

    assert done.error == (
        "TypeError: a predicate only reads; change the state in update or take's claim"
    )


class Nosy:
    """Empties what it is compared with."""

    __hash__ = None

    def __eq__(self, other: Any) -> bool:
        with contextlib.suppress(TypeError):
            other.clear()
        return False


@pytest.mark.parametrize(
    "program",
    [
        lambda s: s.tags.add("mine"),
        lambda s: s.queue == Nosy(),
        lambda s: Nosy() == s.queue,
        lambda s: Nosy() in [s.by_sku],
        lambda s: s.twice[1].append(3),
        lambda s: plain(s.queue).append(3),
        lambda s: plain(s).queue.append(3),
        lambda s: list(s.queue).append(3),
        lambda s: (s.queue + [1]).clear(),  # noqa: RUF005
        lambda s: dict(s.by_sku).clear(),
        lambda s: copy.copy(s.box).items.append(3),
        lambda s: copy.deepcopy(s).by_sku.clear(),
        lambda s: setattr(plain(s.by_sku)["a"], "count", 9),
    ],
)
def test_what_leaves_a_view_is_detached_from_the_state(program):
    """case 173: changing a copy changes no state."""
    state = stock()
    program(view(state, Readings()))

    assert state == stock()


def test_plain_keeps_everything_and_runs_no_code_of_the_authors():
    """spec S4: plain(view) is the state itself; making it again may not change it."""

    class Counted(msgspec.Struct, dict=True):
        n: int

        def __post_init__(self) -> None:
            self.n += 1
            self.noted = [self.n]

    state = {"c": Counted(1), "deep": (1, {"x"}, [Color.RED, Pair(1, 2)])}
    copied = plain(view(state, Readings()))

    assert copied == state
    assert copied["c"] is not state["c"]
    assert copied["c"].noted == [2]
    assert copied["c"].noted is not state["c"].noted


def test_the_deepest_state_that_can_be_stored_can_be_read_and_copied():
    """spec V1, S4: as deep as values may be."""
    state: Any = "bottom"
    for _ in range(codec.MAX_DEPTH - 1):
        state = [state]

    def bottom(s: Any) -> Any:
        while isinstance(s, list):
            s = s[0]
        return s

    done = run(bottom, state)

    assert done.value == "bottom"
    assert done.paths == [(0,) * (codec.MAX_DEPTH - 1)]
    assert plain(view(state, Readings())) == state


def test_a_view_kept_after_its_predicate_has_returned_cannot_be_read():
    """spec S4: nobody would know of the reading."""
    tracker = Readings()
    kept = view(stock(), tracker)
    inner = list(kept.items)[0]  # noqa: RUF015
    tracker.close()

    for late in (
        lambda: kept.boss,
        lambda: kept.queue[0],
        lambda: inner.count,
        lambda: plain(kept),
    ):
        with pytest.raises(RuntimeError, match="predicate that has returned"):
            late()
    assert tracker.paths() == ((KIND,), ("items",))


def test_reading_one_field_of_a_large_state_walks_no_state():
    """case 175; spec S4: the cost is that of the paths."""

    def calls(program: Program, size: int) -> int:
        state = {"one": {"x": 1}, "many": [{"n": n} for n in range(size)]}
        counted: list[str] = []
        sys.setprofile(lambda frame, event, arg: counted.append(event))
        try:
            program(view(state, Readings()))
        finally:
            sys.setprofile(None)
        return len(counted)

    def one_field(s: Any) -> int:
        return int(s["one"]["x"] + s["many"][7]["n"])

    assert calls(one_field, 10) == calls(one_field, 50_000)
    assert calls(plain, 10) < calls(plain, 50_000)


# --- functions -----------------------------------------------------------------------------------


async def _async(s: Any) -> None: ...


def _generator(s: Any) -> Iterator[int]:
    yield 1


class _AsyncCall:
    async def __call__(self, s: Any) -> None: ...


@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (_async, "_async is async"),
        (functools.partial(_async, 1), "async"),
        (_AsyncCall(), "_AsyncCall is async"),
        (_generator, "_generator is a generator function"),
        (functools.partial(_generator), "generator"),
        (lambda s: (yield s), "generator"),
        (5, "given a function, not int"),
    ],
)
def test_functions_that_answer_later_are_refused(fn, words):
    """case 167; spec S2: synchronous and pure."""
    with pytest.raises(TypeError, match=words):
        check_pure(fn)


@pytest.mark.parametrize("fn", [len, str, Item.is_low, functools.partial(max, 1), lambda s: s])
def test_ordinary_functions_are_not_refused(fn):
    """spec S2."""
    assert check_pure(fn) is None


@pytest.mark.parametrize("answer", [_async, _generator, lambda s: iter(s.queue)])
def test_an_answer_that_is_computed_later_is_refused(answer):
    """case 167: also where the function does not show it."""
    done = run(lambda s: answer(s))

    assert done.error is not None
    assert "computed later" in done.error


# --- in general ----------------------------------------------------------------------------------


def test_a_view_is_taken_for_what_it_shows():
    """spec S4: isinstance says what it would say of the state."""
    shown = view(stock(), Readings())

    assert isinstance(shown, Stock)
    assert isinstance(shown.by_sku, dict)
    assert isinstance(shown.by_sku, Mapping)
    assert isinstance(shown.queue, list)
    assert isinstance(shown.queue, Sequence)
    assert isinstance(shown.box, Box)
    assert not isinstance(shown.pair, collections.abc.Iterable)
    assert not callable(shown.pair)
