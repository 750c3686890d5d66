"""Errors are kept whole, come back to be caught, and reading them never fails (spec E11, O2)."""

from __future__ import annotations

import json
import sys
import types
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yieldstar_cli import clock, errors
from yieldstar_cli.codec import DecodeError
from yieldstar_cli.failures import (
    MAX_ERRORS,
    MAX_TEXT,
    ErrorView,
    decode_error,
    encode_error,
    summarize,
    view_error,
)


class CardDeclined(Exception):
    """Formats its message from two arguments, as many do."""

    def __init__(self, card: str, amount: int) -> None:
        super().__init__(f"card {card} was declined for {amount}")
        self.card = card
        self.amount = amount


class KeywordOnly(Exception):
    def __init__(self, *, status: int) -> None:
        self.status = status

    def __str__(self) -> str:
        return f"status {self.status}"


class Holding(Exception):
    """Its text needs an attribute that cannot be stored."""

    def __init__(self, thing: object) -> None:
        self.thing = thing

    def __str__(self) -> str:
        return f"holding {type(self.thing).__name__}"


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Picky(Exception):
    """Its `__new__` takes something else than its `args` hold."""

    def __new__(cls, *, code: int) -> Picky:
        made = super().__new__(cls, f"code {code}")
        made.code = code
        return made

    def __init__(self, *, code: int) -> None:
        pass

    code: int


class Slotted(Exception):
    __slots__ = ("where",)


class Outer:
    class Inner(Exception):
        pass


class Several(ExceptionGroup[Exception]):
    pass


class Stop(StopIteration):
    pass


class Hard(BaseException):
    pass


NAMESPACE = globals()


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


def revived(error: BaseException, namespace: dict[str, Any] | None = None) -> Exception:
    return decode_error(encode_error(raised(error)), NAMESPACE if namespace is None else namespace)


# --- coming back ---------------------------------------------------------------------------------


def test_an_error_with_its_own_init_comes_back_as_itself() -> None:
    """B80; spec O2: class, message and attributes, without calling __init__."""
    error = revived(CardDeclined("4711", 99))

    assert type(error) is CardDeclined
    assert str(error) == "card 4711 was declined for 99"
    assert (error.card, error.amount) == ("4711", 99)
    assert error.args == ("card 4711 was declined for 99",)


@pytest.mark.parametrize(
    "error",
    [
        ValueError(),
        ValueError("plain"),
        ValueError(1, "two", (3,)),
        KeyError("k"),
        KeywordOnly(status=3),
        Picky(code=7),
        FileNotFoundError(2, "No such file", "a.txt"),
        OSError("disk"),
        ImportError("no", name="n", path="p"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        SyntaxError("bad", ("f.py", 3, 1, "x y", 3, 2)),
        RecursionError("deep"),
        MemoryError(),
        TimeoutError("late"),
        Outer.Inner("inner"),
        errors.StepTimeout("charge took longer than 5s"),
        errors.Fatal("never"),
        errors.RetryableError("again", attempts=5, retry_in="10s"),
        errors.UnserializableValue("result.x", "a lock cannot be stored"),
        errors.StepFailed("gone", "Vanished"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_comes_back_with_class_message_args_and_attributes(error: Exception) -> None:
    """case 104; B80; spec O2."""
    back = revived(error)

    assert type(back) is type(error)
    assert str(back) == str(error)
    assert back.args == error.args
    assert {**vars(back)} == {**vars(error)}


def test_attributes_in_slots_and_in_c_come_back() -> None:
    """spec O2."""
    error = Slotted("s")
    error.where = ("a", 1)  # type: ignore[attr-defined]

    assert revived(error).where == ("a", 1)  # type: ignore[attr-defined]
    missing = revived(FileNotFoundError(2, "No such file", "a.txt"))
    assert isinstance(missing, FileNotFoundError)
    assert (missing.errno, missing.filename) == (2, "a.txt")
    assert revived(ImportError("no", name="n")).name == "n"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (Holding(object()), "holding object"),
        (Speechless(), "<str() of Speechless raised RuntimeError>"),
        (ValueError(object), "<class 'object'>"),
        (KeyError(NAMESPACE), None),
    ],
    ids=["unstorable attribute", "raising str", "unstorable argument", "unstorable key"],
)
def test_the_recorded_message_is_given_whatever_cannot_be_stored(
    error: Exception, message: str | None
) -> None:
    """case 104; B80; spec O2: `str()` always gives the recorded message, caught by its class."""
    text = encode_error(raised(error))

    back = decode_error(text, NAMESPACE)

    assert isinstance(back, type(error))
    assert type(back).__name__ == type(error).__name__
    assert str(back) == view_error(text).message
    assert message is None or str(back) == message


def test_an_error_that_came_back_can_be_recorded_again_unchanged() -> None:
    """B80; spec O2: caught on replay and raised on, it is the workflow's failure as on the
    first run."""
    for error in (CardDeclined("1", 2), Holding(object()), Speechless()):
        first = encode_error(error)
        second = encode_error(decode_error(first, NAMESPACE))

        assert view_error(second).name == view_error(first).name
        assert view_error(second).message == view_error(first).message
        assert isinstance(decode_error(second, NAMESPACE), type(error))


def test_a_class_is_found_as_attribute_of_a_module_of_the_namespace() -> None:
    """spec O2: named directly, or as attribute of a module there, under whatever alias."""
    module = types.ModuleType("shop")

    class Declined(Exception):
        pass

    Declined.__module__, Declined.__qualname__ = "shop.errors", "Declined"
    module.Declined = Declined  # type: ignore[attr-defined]

    assert type(revived(Declined("no"), {"shop": module})) is Declined
    assert type(revived(Declined("no"), {"Other": Declined})) is Declined


def test_a_class_of_the_same_name_from_elsewhere_is_another_class() -> None:
    """spec O2: names are compared with their module."""
    other = type("CardDeclined", (Exception,), {"__module__": "elsewhere"})

    back = revived(CardDeclined("1", 2), {"CardDeclined": other})

    assert type(back) is errors.StepFailed


def test_a_class_that_is_gone_comes_back_as_its_nearest_known_base() -> None:
    """case 104; spec O2: the first class of the MRO that can be named, else StepFailed."""

    class Gone(LookupError):
        pass

    class Lost(Exception):
        pass

    assert type(revived(Gone("g"), {})) is LookupError
    lost = revived(Lost("l"), {})
    assert type(lost) is errors.StepFailed
    assert (str(lost), lost.name) == ("l", "Lost")


def test_nothing_is_imported_and_no_module_is_asked_because_data_names_it() -> None:
    """security S16; spec O2: a module's own __getattr__ may import, so it is not called."""
    asked: list[str] = []
    module = types.ModuleType("lazy")
    module.__getattr__ = asked.append  # type: ignore[method-assign, assignment]
    text = encode_error(ValueError("x")).replace('"builtins"', '"xml.dom.minidom"')
    sys.modules.pop("xml.dom.minidom", None)

    back = decode_error(text, {"lazy": module})

    assert type(back) is errors.StepFailed
    assert "xml.dom.minidom" not in sys.modules
    assert asked == []


@pytest.mark.parametrize(
    "error",
    [
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        Hard("h"),
        errors.Cancelled("c"),
        StopIteration(4),
        StopAsyncIteration(),
        Stop("s"),
        BaseExceptionGroup("b", [KeyboardInterrupt()]),
        Exception("bare"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_a_workflow_must_not_catch_as_itself_comes_back_as_step_failed(
    error: BaseException,
) -> None:
    """case 104; spec O2: no Exception, and what Python gives a meaning of its own."""
    text = encode_error(error)

    back = decode_error(text, NAMESPACE)

    assert type(back) is errors.StepFailed
    assert back.name == type(error).__name__
    assert str(back) == view_error(text).message == str(error)


def test_a_group_comes_back_with_its_members() -> None:
    """B76; case 104; spec O2: also one of a class of one's own, and groups within groups."""
    group = Several("g", [ValueError("a"), ExceptionGroup("h", [CardDeclined("1", 2)])])

    back = revived(group)

    assert type(back) is Several
    assert str(back) == "g (2 sub-exceptions)"
    matched, rest = back.split(CardDeclined)
    assert matched is not None
    assert rest is not None
    assert str(rest.exceptions[0]) == "a"


def test_notes_and_cause_come_back() -> None:
    """spec O2, E11."""
    error = ValueError("second")
    error.add_note("while charging")
    error.__cause__ = CardDeclined("1", 2)

    back = revived(error)

    assert back.__notes__ == ["while charging"]
    assert type(back.__cause__) is CardDeclined


# --- what is kept for people ---------------------------------------------------------------------


def test_the_view_has_all_that_a_failed_outcome_keeps() -> None:
    """spec E11; B76: name, message, notes, cause chain, group members, traceback, place."""

    def charge() -> None:
        try:
            raise KeyError("order")
        except KeyError:
            group = ExceptionGroup("both", [ValueError("a"), KeyError("b")])
            group.add_note("n")
            raise group  # noqa: B904 - the context is what the test is about

    with pytest.raises(ExceptionGroup) as caught:
        charge()
    view = view_error(encode_error(caught.value))

    assert (view.name, view.message) == ("ExceptionGroup", "both (2 sub-exceptions)")
    assert view.notes == ("n",)
    assert view.cause == ErrorView("KeyError", "'order'", where=view.cause.where)  # type: ignore[union-attr]
    assert [(m.name, m.message) for m in view.members] == [("ValueError", "a"), ("KeyError", "'b'")]
    assert "in charge" in view.traceback
    assert "During handling of the above exception" in view.traceback
    assert view.where is not None
    assert view.where.file == __file__
    assert view.where.function.endswith("charge")
    assert json.loads(json.dumps(view.plain())).keys() == {
        "name",
        "message",
        "notes",
        "cause",
        "members",
        "traceback",
    }


def test_a_suppressed_context_is_no_cause() -> None:
    """spec E11: `raise … from None` hides what came before."""
    error = ValueError("x")
    error.__context__ = KeyError("y")
    error.__suppress_context__ = True

    assert view_error(encode_error(error)).cause is None


def test_the_place_of_a_library_error_is_where_the_author_called_it() -> None:
    """spec E11: the line to look at is the author's, not one of Python's own modules."""
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads("{")

    where = view_error(encode_error(caught.value)).where

    assert where is not None
    assert where.file == __file__


def test_frames_of_the_engine_are_not_the_place_of_the_error() -> None:
    """spec E11: what people are shown is the author's line, not ours."""
    with pytest.raises(TypeError) as caught:
        errors.StepFailed(1, 2, 3, 4)  # type: ignore[call-arg, arg-type]
    assert view_error(encode_error(caught.value)).where.function.startswith("test_frames")  # type: ignore[union-attr]

    with pytest.raises(ValueError, match="what") as inside:
        clock.span_ms("10")
    view = view_error(encode_error(inside.value))
    assert view.where is not None
    assert view.where.file == __file__


def test_locals_are_not_recorded() -> None:
    """security S24; spec E11: a traceback holds lines of code, never the values in them."""

    def charge(secret: str) -> None:
        raise ValueError("declined")

    with pytest.raises(ValueError, match="declined") as caught:
        charge("hunter" + "2")

    assert "hunter2" not in encode_error(caught.value).replace('charge("hunter" + "2")', "")


def test_a_megabyte_of_message_is_bounded_and_says_so() -> None:
    """case 105; spec E11."""
    error = ValueError("x" * 1_000_000)

    text = encode_error(raised(error))

    assert len(text) < 4 * MAX_TEXT
    message = view_error(text).message
    assert message.endswith(f"({1_000_000 - MAX_TEXT:,} of 1,000,000 characters left out)")
    back = decode_error(text, {})
    assert type(back) is ValueError
    assert str(back) == message


def test_a_message_of_wide_characters_is_bounded_in_bytes() -> None:
    """case 105."""
    assert len(encode_error(ValueError("é" * 1_000_000)).encode()) < 4 * MAX_TEXT


@pytest.mark.parametrize("message", ["a\x00b", "\ud83d", "\x1b[2J", "\u202e", "", " ", "a\nb"])
def test_any_message_is_stored_whole(message: str) -> None:
    """case 105; B84, B85: NUL is kept, a lone surrogate is escaped, nothing is lost."""
    text = encode_error(raised(ValueError(message)))

    text.encode("utf-8")
    assert view_error(text).message == message.encode("utf-8", "backslashreplace").decode()
    assert "ValueError" in view_error(text).traceback


def test_endless_chains_and_cycles_end() -> None:
    """spec E11: bounded, whatever refers to whatever."""
    first, second = ValueError("a"), KeyError("b")
    first.__cause__, second.__cause__ = second, first
    assert view_error(encode_error(first)).cause.name == "KeyError"  # type: ignore[union-attr]

    top: Exception = ValueError(0)
    for number in range(5_000):
        above = ValueError(number)
        above.__cause__ = top
        top = above
    assert len(encode_error(top)) < 1_000_000

    deep: Exception = ValueError("leaf")
    for _ in range(200):
        deep = ExceptionGroup("g", [deep])
    assert str(decode_error(encode_error(deep), {})) == str(deep)


def test_a_group_of_thousands_keeps_the_first_and_says_how_many_more() -> None:
    """B76; spec E11."""
    group = ExceptionGroup("g", [ValueError(n) for n in range(5_000)])

    view = view_error(encode_error(group))

    assert len(view.members) == MAX_ERRORS - 1
    assert view.notes == (f"{5_001 - MAX_ERRORS} more errors of this group were left out",)
    assert str(revived(group)) == "g (5000 sub-exceptions)"


def test_many_long_texts_are_bounded_together() -> None:
    """case 105; spec E11: a hundred megabytes of messages, notes and attributes."""
    members = []
    for _ in range(50):
        member = CardDeclined("c" * 50_000, 1)
        member.__notes__ = ["n" * 60_000] * 30
        vars(member).update({f"a{number}": "x" * 60_000 for number in range(30)})
        members.append(member)

    text = encode_error(ExceptionGroup("g", members))

    assert len(text) < 20 * MAX_TEXT
    assert len(view_error(text).members) == 50
    assert type(decode_error(text, NAMESPACE).exceptions[0]) is CardDeclined  # type: ignore[attr-defined]


def test_a_runaway_recursion_is_recorded_like_any_error() -> None:
    """case 104."""

    def forever() -> None:
        forever()

    with pytest.raises(RecursionError) as caught:
        forever()
    text = encode_error(caught.value)

    assert type(decode_error(text, {})) is RecursionError
    assert len(text) < 4 * MAX_TEXT


def test_one_line_says_name_and_message() -> None:
    """spec E11: for lists and worker lines."""
    assert summarize(encode_error(CardDeclined("1", 2))) == (
        "CardDeclined: card 1 was declined for 2"
    )
    assert summarize(encode_error(ValueError())) == "ValueError"
    assert summarize(encode_error(ValueError("\n first \nsecond"))) == "ValueError: first …"


@pytest.mark.parametrize("text", ["", "{", "null", "[]", '{"name":1}', "5", '"x"'])
def test_damaged_text_is_shown_to_people_and_a_decode_error_to_code(text: str) -> None:
    """B80: reading never fails; spec E12."""
    assert view_error(text).name == "UnreadableError"
    assert summarize(text)
    with pytest.raises(DecodeError):
        decode_error(text, {})


class Data(msgspec.Struct):
    x: int


arguments = st.one_of(
    st.none(),
    st.integers(),
    st.floats(),
    st.text(max_size=10),
    st.binary(max_size=5),
    st.characters(categories=["Cs"]),
    st.builds(Data, st.integers()),
    st.just(object()),
    st.lists(st.integers(), max_size=3),
)
kinds = st.sampled_from(
    [ValueError, KeyError, OSError, Holding, Speechless, Slotted, errors.Fatal, LookupError]
)


@settings(max_examples=200, deadline=None)
@given(kinds, st.lists(arguments, max_size=4), st.dictionaries(st.text(max_size=5), arguments))
def test_whatever_it_holds_an_error_comes_back_by_class_with_its_message(
    kind: type[Exception], args: list[Any], attributes: dict[str, Any]
) -> None:
    """case 104, 105; B80, B84, B85; spec O2, E11."""
    error = kind.__new__(kind, *args)
    vars(error).update(attributes)

    text = encode_error(error)
    back = decode_error(text, NAMESPACE)

    assert isinstance(back, type(error))
    assert str(back) == view_error(text).message
    assert view_error(encode_error(back)).message == view_error(text).message
