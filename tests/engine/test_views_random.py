"""Random states, random predicates, random changes: no wake-up is lost, and few are idle."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from yieldstar_cli import codec
from yieldstar_cli.digests import KIND, digest_at, digests
from yieldstar_cli.engine.views import Readings, plain, view
from yieldstar_cli.model import Path


class Mark(Enum):
    ONE = "one"
    MARK = "$ys"


class Leaf(msgspec.Struct, tag="leaf", omit_defaults=True):
    name: str = ""
    size: int | None = None


class Twig(msgspec.Struct, tag="twig", rename="camel"):
    first_name: str
    leaves: list[Leaf]


@dataclass
class Bag:
    label: str
    marks: list[Mark] = field(default_factory=list)
    more: dict[str, int | None] = field(default_factory=dict)

    def total(self) -> int:
        return sum(size or 0 for size in self.more.values())

    def __len__(self) -> int:
        return len(self.marks)


class Spot(msgspec.Struct, array_like=True):
    x: int
    y: int


class Tree(msgspec.Struct, omit_defaults=True):
    name: str = ""
    grown: Leaf | Twig | None = None
    bags: dict[str, Bag] = {}
    kids: list[Tree] = []
    spot: Spot | None = None
    extra: Any = None


TEXTS = ["a", "b", "$ys"]
texts = st.sampled_from(TEXTS)
sizes = st.sampled_from([0, 1, 2, None])
atoms = st.one_of(sizes, texts, st.booleans(), st.sampled_from([1.0, (1,), ("a", [1])]))
extras = st.recursive(
    atoms,
    lambda below: st.one_of(
        st.lists(below, max_size=3),
        st.dictionaries(texts, below, max_size=3),
        st.tuples(below),
    ),
    max_leaves=8,
)
leaves = st.builds(Leaf, texts, sizes)
twigs = st.builds(Twig, texts, st.lists(leaves, max_size=3))
bags = st.builds(
    Bag,
    texts,
    st.lists(st.sampled_from(Mark), max_size=3),
    st.dictionaries(texts, sizes, max_size=3),
)
spots = st.builds(Spot, st.integers(0, 2), st.integers(0, 2))


def trees(below: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    return st.builds(
        Tree,
        texts,
        st.one_of(leaves, twigs, st.none()),
        st.dictionaries(texts, bags, min_size=1, max_size=3),
        st.lists(below, max_size=2),
        st.one_of(spots, st.none()),
        extras,
    )


small = st.builds(Tree, texts, leaves, st.dictionaries(texts, bags, max_size=2), extra=extras)
states = trees(st.one_of(small, trees(small)))


# --- programs ------------------------------------------------------------------------------------

NAMES = ["name", "grown", "bags", "kids", "spot", "extra", "size", "first_name", "leaves"]
NAMES += ["label", "marks", "more", "x", "y", "nothing"]


def inwards(v: Any, word: str, n: int) -> Any:
    """To a part of what is there, whatever it is."""
    kind = v.__class__
    if kind is dict:
        return v[word] if n % 2 else v.get(word)
    if kind is list or kind is tuple:
        return v[n % 2]
    if names := getattr(kind, "__match_args__", ()):
        return getattr(v, names[n % len(names)])
    return v


#: One step further in, given a word and a number.
MOVES: list[Callable[[Any, str, int], Any]] = [
    *[inwards] * 30,
    lambda v, word, n: getattr(v, NAMES[n % len(NAMES)]),
    lambda v, word, n: v[word],
    lambda v, word, n: v.get(word),
    lambda v, word, n: v[-1 - n % 2],
    lambda v, word, n: v[n % 3 :][0],
    lambda v, word, n: next(iter(v)),
    lambda v, word, n: list(v.values())[n % 2],
    lambda v, word, n: list(v.items())[n % 2][1],
    lambda v, word, n: min(v, key=repr),
    lambda v, word, n: v.copy(),
    lambda v, word, n: v or word,
]

#: What a program ends with: of anything, of texts, lists and dicts, of dicts, of lists.
OF_ANY: list[Callable[[Any, str, int], Any]] = [
    lambda v, word, n: v,
    lambda v, word, n: v is None,
    lambda v, word, n: isinstance(v, dict),
    lambda v, word, n: isinstance(v, list | tuple),
    lambda v, word, n: isinstance(v, Leaf),
    lambda v, word, n: v.__class__.__name__,
    lambda v, word, n: bool(v),
    lambda v, word, n: v == word,
    lambda v, word, n: v == [],
    lambda v, word, n: {} == v,  # noqa: SIM300
    lambda v, word, n: repr(v),
    lambda v, word, n: f"{v}",
    lambda v, word, n: v == copy.deepcopy(v),
    lambda v, word, n: hasattr(v, NAMES[n % len(NAMES)]),
]
OF_MANY: list[Callable[[Any, str, int], Any]] = [
    *OF_ANY[:4],
    lambda v, word, n: len(v),
    lambda v, word, n: word in v,
    lambda v, word, n: n in v,
    lambda v, word, n: list(v),
    lambda v, word, n: sorted(v),
    lambda v, word, n: [*v],
    lambda v, word, n: v[word],
    lambda v, word, n: v[n],
]
OF_DICTS: list[Callable[[Any, str, int], Any]] = [
    *OF_MANY,
    lambda v, word, n: sorted(v.keys() - {word}),
    lambda v, word, n: dict(v),
    lambda v, word, n: v | {word: n},
    lambda v, word, n: [k for k, item in v.items() if item],
]
OF_LISTS: list[Callable[[Any, str, int], Any]] = [
    *OF_MANY,
    lambda v, word, n: sum(v),
    lambda v, word, n: v + [n],  # noqa: RUF005
    lambda v, word, n: v.index(word),
    lambda v, word, n: v[n:],
]
OF_BAGS: list[Callable[[Any, str, int], Any]] = [
    *OF_ANY,
    lambda v, word, n: v.total(),
    lambda v, word, n: len(v),
    lambda v, word, n: v.more[word],
]
ENDS = {dict: OF_DICTS, list: OF_LISTS, tuple: OF_LISTS, Bag: OF_BAGS}

Step = tuple[int, str, int]
steps = st.tuples(st.integers(0, len(MOVES) - 1), texts, st.integers(0, len(NAMES) - 1))
ends = st.tuples(st.integers(0, 100), texts, st.integers(0, 3))
walks = st.tuples(st.lists(steps, min_size=2, max_size=6), ends)


programs = st.lists(walks, min_size=1, max_size=4)


def walk(state: Any, moves: list[Step], end: Step) -> Any:
    for which, word, number in moves:
        state = MOVES[which](state, word, number)
    fitting = ENDS.get(state.__class__, OF_ANY)
    return fitting[end[0] % len(fitting)](state, *end[1:])


def answer(state: Any, program: list[tuple[list[Step], Step]]) -> list[str]:
    """What each walk comes to; an error is an answer, too."""
    said = []
    for moves, end in program:
        try:
            said.append(repr(plain(walk(state, moves, end))))
        except Exception as error:
            said.append(type(error).__name__)
    return said


# --- changes -------------------------------------------------------------------------------------


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a state where something can be put: its container, and its name there."""
    if isinstance(value, msgspec.Struct | Bag):
        keys: list[Any] = list(getattr(value, "__struct_fields__", ("label", "marks", "more")))
        below = [getattr(value, key) for key in keys]
    elif isinstance(value, dict):
        keys, below = list(value), list(value.values())
    elif isinstance(value, list):
        keys, below = list(range(len(value))), list(value)
    else:
        return
    for key, item in zip(keys, below, strict=True):
        yield value, key
        yield from places(item)


def changed(state: Tree, data: st.DataObject) -> Tree:
    """A state that differs in one place, or is quite another."""
    fresh = copy.deepcopy(state)
    container, key = data.draw(st.sampled_from(list(places(fresh))))
    how = data.draw(st.integers(0, 3))
    if isinstance(container, dict | list) and how == 0:
        del container[key]
    elif isinstance(container, dict) and how == 1:
        # At the end from now on.
        container[key] = container.pop(key)
    elif isinstance(container, list) and how == 1:
        container.insert(key, container[key])
    elif isinstance(container, list) and how == 2:
        container.reverse()
    else:
        item = container[key] if isinstance(container, dict | list) else getattr(container, key)
        put(container, key, data.draw(like(item, key)))
    return fresh


def put(container: Any, key: Any, item: Any) -> None:
    if isinstance(container, dict | list):
        container[key] = item
    else:
        setattr(container, key, item)


def like(item: Any, key: Any) -> st.SearchStrategy[Any]:
    """Values that may stand where `item` does."""
    fitting: dict[Any, st.SearchStrategy[Any]] = {
        "grown": st.one_of(st.none(), leaves, twigs),
        "bags": st.dictionaries(texts, bags, max_size=2),
        "kids": st.lists(states, max_size=2),
        "spot": st.one_of(st.none(), spots),
        "extra": extras,
        "size": sizes,
        "leaves": st.lists(leaves, max_size=2),
        "marks": st.lists(st.sampled_from(Mark), max_size=2),
        "more": st.dictionaries(texts, sizes, max_size=2),
    }
    if key in fitting:
        return fitting[key]
    for kind, those in ((Tree, states), (Leaf, leaves), (Bag, bags)):
        if isinstance(item, kind):
            return those
    if isinstance(item, Mark):
        return st.sampled_from(Mark)
    if isinstance(item, bool) or isinstance(key, int) or item is None:
        return sizes
    return texts if isinstance(item, str) else sizes


def fits(state: Tree) -> bool:
    """Whether it can be stored: a random change may have put the wrong thing somewhere."""
    try:
        return bool(codec.decode(codec.encode(state, Tree), Tree) == state)
    except Exception:
        return False


def read(state: Tree, program: list[tuple[list[Step], Step]]) -> tuple[list[str], Readings, Any]:
    text = codec.encode(state, Tree)
    tracker = Readings()
    said = answer(view(codec.decode(text, Tree), tracker), program)
    return said, tracker, msgspec.json.decode(text)


# --- tests ---------------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(state=states, program=programs)
def test_a_program_says_the_same_of_a_view_as_of_the_state(state, program):
    """spec S4: a view reads like what it shows."""
    said, _, _ = read(state, program)

    assert said == answer(state, program)


@settings(max_examples=400, deadline=None)
@given(state=states, program=programs, data=st.data())
def test_where_the_answer_changes_a_reading_has_changed(state, program, data):
    """spec S3, S4: no wake-up is lost."""
    other = changed(state, data)
    if not fits(other):
        other = data.draw(states)
    before, tracker, tree = read(state, program)
    after, _, new_tree = read(other, program)

    readings = digests(tree, tracker.paths())
    same = all(digest_at(new_tree, reading.path) == reading.digest for reading in readings)
    assert before == after or not same


@settings(max_examples=200, deadline=None)
@given(state=states, program=programs, data=st.data())
def test_what_is_read_below_no_changed_place_has_not_changed(state, program, data):
    """spec S4: nobody is woken for what they did not read."""
    other = changed(state, data)
    _, tracker, tree = read(state, program)
    if not fits(other):
        other = data.draw(states)
    new_tree = msgspec.json.decode(codec.encode(other, Tree))

    touched = set(differing(tree, new_tree, ()))
    for reading in digests(tree, tracker.paths()):
        if not any(meets(reading.path, path) for path in touched):
            assert digest_at(new_tree, reading.path) == reading.digest


def differing(one: Any, other: Any, path: Path) -> Iterator[Path]:
    """The places that two states do not share, as deep as they can be told."""
    if type(one) is dict and type(other) is dict and list(one) == list(other):
        for key in one:
            yield from differing(one[key], other[key], (*path, key))
    elif codec.encode(one) != codec.encode(other):
        yield path


def meets(reading: Path, touched: Path) -> bool:
    """Whether a change at `touched` may be seen by a reading, by prefix in both directions."""
    place = reading[:-1] if reading[-1:] == (KIND,) else reading
    shared = min(len(place), len(touched))
    if reading[-1:] == (KIND,) and len(touched) > len(place):
        return False
    return place[:shared] == touched[:shared]


@settings(max_examples=200, deadline=None)
@given(state=states, turns=st.lists(st.integers(0, 20), min_size=1, max_size=5))
def test_fields_and_items_are_read_one_by_one(state, turns):
    """spec S4: following fields and keys to an end reads that end, and nothing beside it."""
    text = codec.encode(state, Tree)
    tracker = Readings()
    shown, value, path = view(codec.decode(text, Tree), tracker), state, ()
    for turn in turns:
        stored = stored_names(value)
        if not stored:
            break
        name, key = stored[turn % len(stored)]
        in_dict = isinstance(value, dict)
        shown = shown[name] if in_dict else getattr(shown, name)
        value = value[name] if in_dict else getattr(value, name)
        path = (*path, key)

    assert plain(shown) == value
    tree = msgspec.json.decode(text)
    noted = [reading.path for reading in digests(tree, tracker.paths())]
    read = [each for each in noted if each[-1] not in (KIND, "type") or each == path]
    assert read == [path]
    if digest_at(tree, path):
        assert not [each for each in noted if each[-1] == KIND]


def stored_names(value: Any) -> list[tuple[str, str]]:
    """How the parts of `value` that have places of their own are called: here, and stored."""
    if isinstance(value, dict):
        return [(key, key) for key in value]
    if isinstance(value, Twig):
        return [("first_name", "firstName"), ("leaves", "leaves")]
    if isinstance(value, Tree | Leaf | Bag):
        return [(name, name) for name in type(value).__match_args__]
    return []
