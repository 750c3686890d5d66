"""Reads the words of a hot command by the table; None for whatever is not plainly meant."""

from __future__ import annotations

from typing import Any

from yieldstar_cli.cli.quick.table import CHOICES, GLOBALS, VERBS

#: Longer numbers are left to typer.
_DIGITS = 9


class Asked:
    """One call: the verb, what its function takes, and the global options that were given."""

    def __init__(self, verb: str, values: dict[str, Any], settings: dict[str, Any]) -> None:
        self.verb = verb
        self.values = values
        self.settings = settings


class _NotPlain(Exception):
    """For typer to read."""


def read(words: list[str]) -> Asked | None:
    """What `words` ask for, exactly as typer would read them; None where that is not certain."""
    try:
        return _read(words)
    except _NotPlain:
        return None


def _read(words: list[str]) -> Asked:
    settings: dict[str, Any] = {}
    rest = iter(words)
    verb = _until_word(rest, GLOBALS, settings)
    if verb not in VERBS:
        raise _NotPlain
    place, options, defaults = VERBS[verb]
    given: dict[str, Any] = {}
    placed: list[str] = []
    own = {**GLOBALS, **options}
    while (word := _until_word(rest, own, given)) is not None:
        placed.append(word)
    for name in {name for name, _ in GLOBALS.values()} & given.keys():
        _add(settings, name, given.pop(name))
    return Asked(verb, {**defaults, **given, **_placed(place, placed)}, settings)


def _until_word(rest: Any, options: dict[str, tuple[str, str]], into: dict[str, Any]) -> str | None:
    """The next word that is no option; the options before it are put into `into`."""
    for word in rest:
        if word == "-" or not word.startswith("-"):
            return str(word)
        option, sign, value = word.partition("=")
        name, kind = options.get(option, ("", "unknown"))
        if kind in ("flag", "count"):
            if sign:
                raise _NotPlain
            _add(into, name, True if kind == "flag" else 1)
            continue
        if not sign:
            value = next(rest, "-")
        if value.startswith("-") or (sign and not option.startswith("--")):
            raise _NotPlain
        if name in into and kind != "texts":
            raise _NotPlain
        _add(into, name, _value(name, kind, value))
    return None


def _value(name: str, kind: str, text: str) -> Any:
    if kind == "text" and text in CHOICES.get(name, (text,)):
        return text
    if kind == "texts":
        return [text]
    if kind == "number" and text.isascii() and text.isdigit() and len(text) <= _DIGITS:
        number = int(text)
        if number > 0:
            return number
    raise _NotPlain


def _add(into: dict[str, Any], name: str, value: Any) -> None:
    """A count goes up, a list grows; what was given once before stands or is not plain."""
    before = into.get(name)
    if before is None or value is True:
        into[name] = value
    elif isinstance(before, str):
        raise _NotPlain
    else:
        into[name] = before + value


def _placed(place: tuple[str, str] | None, words: list[str]) -> dict[str, Any]:
    """The words that are no options, as the verb's argument."""
    if place is None:
        if words:
            raise _NotPlain
        return {}
    name, kind = place
    if kind == "words":
        return {name: words} if words else {}
    if len(words) > 1 or (kind == "word" and not words):
        raise _NotPlain
    return {name: words[0]} if words else {}
