"""Read-only views of a decoded state that note every place that is read (spec S4).

A view looks like the value it shows: `isinstance`, `match`, methods and operators work. Fields,
items of dicts and items of lists by position are noted one by one; whatever else is asked of a
container notes the whole of it. Code in C, which looks past the disguise, refuses a view; so does
`type(view)`, which says what a view is: ask with `isinstance`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import ItemsView as Items
from collections.abc import ValuesView as Values
from enum import Enum
from functools import partial
from typing import Any, NoReturn

from yieldstar_cli.codec import MARK
from yieldstar_cli.digests import KIND
from yieldstar_cli.engine.detached import ATOMS, detached, encode_names
from yieldstar_cli.engine.purity import check_pure, refuse_lazy
from yieldstar_cli.engine.readings import Readings
from yieldstar_cli.model import Path

#: What a view may be compared with as it is: types that run no code of the author's.
_HARMLESS = ATOMS | {list, dict, tuple, set, frozenset}

_field = object.__getattribute__
_put = object.__setattr__


def view(value: Any, tracker: Readings) -> Any:
    """A read-only view of `value`, a decoded state; what is read of it is noted in `tracker`.

    A value without fields or items is read whole at once, and comes as a copy. Source: spec S4.
    """
    return _seen(value, (), tracker)


def plain(value: Any) -> Any:
    """The value behind a view, all of it, as a copy; the whole of it counts as read.

    Other values are copied, too, and the views in them made plain. Raises TypeError for what is
    computed later, such as a generator. Source: spec S4.
    """
    refuse_lazy(value)
    return detached(value)


def _seen(value: Any, path: Path | None, tracker: Readings) -> Any:
    """What a reader gets for `value` that stands at `path`; None: it was noted above."""
    kind: Any = type(value)
    if kind in ATOMS:
        tracker.note(path)
        return value
    if kind is dict:
        shape: type[View] = DictView
    elif kind is list:
        shape = ListView
        first = value[0] if value else None
        if (first.value if isinstance(first, Enum) else first) == MARK:
            # Stored as a tagged array, which has no places inside.
            tracker.note(path)
            path = None
    elif (names := encode_names(kind)) is not None:
        from yieldstar_cli.engine.views_objects import view_class

        shape = view_class(kind)
        if not names.whole:
            tracker.note(None if path is None or names.tag is None else (*path, names.tag))
        else:
            tracker.note(path)
            path = None
    else:
        tracker.note(path)
        return detached(value)
    tracker.note(None if path is None else (*path, KIND))
    return shape(value, path, tracker)


def _refused(self: View, *args: Any, **named: Any) -> NoReturn:
    raise TypeError("a predicate only reads; change the state in update or take's claim")


class View:
    """What all views share; the author's names never meet ours, which stand in slots."""

    __slots__ = ("_ys_path", "_ys_tracker", "_ys_value")

    def __init__(self, value: Any, path: Path | None, tracker: Readings) -> None:
        _put(self, "_ys_value", value)
        _put(self, "_ys_path", path)
        _put(self, "_ys_tracker", tracker)

    @property  # type: ignore[misc]  # the disguise: isinstance, match and super() ask for it
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return type(_field(self, "_ys_value"))

    def __eq__(self, other: object) -> bool:
        return bool(_compare(self, other, operator.eq))

    def __lt__(self, other: Any) -> bool:
        return bool(_compare(self, other, operator.lt))

    def __le__(self, other: Any) -> bool:
        return bool(_compare(self, other, operator.le))

    def __gt__(self, other: Any) -> bool:
        return bool(_compare(self, other, operator.gt))

    def __ge__(self, other: Any) -> bool:
        return bool(_compare(self, other, operator.ge))

    def __hash__(self) -> int:
        return hash(whole(self))

    def __repr__(self) -> str:
        return repr(whole(self))

    def __copy__(self) -> Any:
        return detached(self)

    def __deepcopy__(self, memo: Any) -> Any:
        return detached(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return detached(self).__reduce_ex__(protocol)

    def __reduce__(self) -> Any:
        return detached(self).__reduce__()

    def __getstate__(self) -> Any:
        return detached(self).__getstate__()

    __setattr__ = __delattr__ = _refused


def whole(shown: View) -> Any:
    """The value itself, not to be given away; all of it is noted as read."""
    _field(shown, "_ys_tracker").note(_field(shown, "_ys_path"))
    return _field(shown, "_ys_value")


def child(shown: View, key: str | int, value: Any) -> Any:
    """What a reader gets for `value`, which stands at `key` in what is shown."""
    path = _field(shown, "_ys_path")
    return _seen(value, None if path is None else (*path, key), _field(shown, "_ys_tracker"))


def part(shown: View, value: Any) -> Any:
    """What a reader gets for `value` after all of what is shown has been noted."""
    return _seen(value, None, _field(shown, "_ys_tracker"))


def absent(shown: View, key: str) -> None:
    """Note that nothing stands at `key`."""
    path = _field(shown, "_ys_path")
    _field(shown, "_ys_tracker").note(None if path is None else (*path, key))


def _compare(shown: View, other: Any, how: Callable[[Any, Any], Any]) -> Any:
    ours = whole(shown)
    kind = type(other)
    if issubclass(kind, View):
        return how(ours, whole(other))
    return how(ours if kind in _HARMLESS else detached(ours), other)


class ListView(View, Sequence[Any]):
    """A list, seen: positions from 0 one by one, all else as a whole."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, index: Any) -> Any:
        items = _field(self, "_ys_value")
        if not isinstance(index, slice):
            at = operator.index(index)
            if 0 <= at < len(items):
                return child(self, at, items[at])
        found = whole(self)[index]
        if isinstance(index, slice):
            return [part(self, item) for item in found]
        return part(self, found)

    def __len__(self) -> int:
        return len(whole(self))

    def __iter__(self) -> Iterator[Any]:
        return map(partial(part, self), whole(self))

    def __reversed__(self) -> Iterator[Any]:
        return map(partial(part, self), reversed(whole(self)))

    def __contains__(self, wanted: object) -> bool:
        return wanted in list(self)

    def index(self, value: Any, *between: Any) -> int:
        """The first position of `value`."""
        return list(self).index(value, *between)

    def copy(self) -> list[Any]:
        """A list of its items."""
        return list(self)

    def __add__(self, other: Any) -> Any:
        return list(self) + (list(other) if issubclass(type(other), ListView) else other)

    def __radd__(self, other: Any) -> Any:
        return other + list(self)

    def __mul__(self, times: Any) -> Any:
        return list(self) * times

    __rmul__ = __mul__
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refused
    append = extend = insert = remove = pop = clear = sort = reverse = _refused


class DictView(View, Mapping[str, Any]):
    """A dict, seen: items by key one by one, absent ones too, all else as a whole."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, key: Any) -> Any:
        found = self._find(key)
        if found is _ABSENT:
            raise KeyError(key)
        return found

    def get(self, key: Any, default: Any = None) -> Any:
        """The item at `key`, or `default`."""
        found = self._find(key)
        return default if found is _ABSENT else found

    def __contains__(self, key: object) -> bool:
        return self._find(key) is not _ABSENT

    def _find(self, key: Any) -> Any:
        items = _field(self, "_ys_value")
        if type(key) is not str:
            # Its own class decides which keys it equals.
            items = whole(self)
            return part(self, items[key]) if key in items else _ABSENT
        if key in items:
            return child(self, key, items[key])
        absent(self, key)
        return _ABSENT

    def __len__(self) -> int:
        return len(whole(self))

    def __iter__(self) -> Iterator[str]:
        return iter(whole(self))

    def __reversed__(self) -> Iterator[str]:
        return iter(reversed(whole(self)))

    def keys(self) -> Any:
        """Its keys."""
        return whole(self).keys()

    def values(self) -> Values[Any]:
        """Its values."""
        return Values(self._known())

    def items(self) -> Items[str, Any]:
        """Its keys and values."""
        return Items(self._known())

    def copy(self) -> dict[str, Any]:
        """A dict of its items."""
        return dict(self.items())

    def _known(self) -> DictView:
        return DictView(whole(self), None, _field(self, "_ys_tracker"))

    def __or__(self, other: Any) -> Any:
        return self.copy() | (other.copy() if issubclass(type(other), DictView) else other)

    def __ror__(self, other: Any) -> Any:
        return other | self.copy()

    __setitem__ = __delitem__ = __ior__ = _refused
    update = pop = popitem = setdefault = clear = _refused


_ABSENT = object()

__all__ = ["Readings", "View", "check_pure", "plain", "view"]
