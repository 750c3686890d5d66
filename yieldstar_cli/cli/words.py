"""Turns typer's complaints about the words of a call into ours, with the nearest right words."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Sequence

import typer

from yieldstar_cli.cli.verbs import NAMES
from yieldstar_cli.errors import UsageError

#: What typer raises for words that do not fit; its private base class, through a public one.
Complaint: type[Exception] = typer.BadParameter.__bases__[0]

# The values after these may be secret: they are not repeated in a corrected line.
_PRIVATE = ("-p", "--param", "--context")
_PRIVATE_WHOLE = ("--params", "--data", "--note", "--reason")


def nearest(word: str, choices: Sequence[str]) -> list[str]:
    """The choices that look like `word`, best first, three at most."""
    return difflib.get_close_matches(word, choices, n=3, cutoff=0.6)


def unknown_verb(word: str, argv: Sequence[str]) -> UsageError:
    """`ys shwo`: there is no such command; the nearest ones are named and none is run."""
    matches = nearest(word, NAMES)
    if not matches:
        return UsageError(f"there is no command {word!r}", remedy=("ys --help",))
    return UsageError(
        f"there is no command {word!r}. Did you mean {' or '.join(matches)}?",
        remedy=tuple(corrected(argv, word, match) for match in matches[:1]),
    )


def unknown_action(verb: str, word: str, known: Sequence[str], argv: Sequence[str]) -> UsageError:
    """`ys store gett`: the verb has no such action; the nearest ones are named, none is run."""
    matches = nearest(word, known)
    if not matches:
        return UsageError(
            f"ys {verb} has no action {word!r}; it has {', '.join(known)}",
            remedy=(f"ys {verb} --help",),
        )
    return UsageError(
        f"ys {verb} has no action {word!r}. Did you mean {' or '.join(matches)}?",
        remedy=tuple(corrected(argv, word, match) for match in matches[:1]),
    )


def usage_error(complaint: Exception, argv: Sequence[str]) -> UsageError:
    """What typer complains about, in our words."""
    context = getattr(complaint, "ctx", None)
    path = context.command_path if context is not None else "ys"
    option = getattr(complaint, "option_name", None)
    possibilities: list[str] = list(getattr(complaint, "possibilities", None) or ())
    if option is not None and type(complaint).__name__ == "NoSuchOption":
        return _unknown_option(option, possibilities, path, argv)
    message = getattr(complaint, "format_message", complaint.__str__)()
    if path == "ys trigger" and "extra argument" in message:
        # The words may be params: they are not repeated.
        return UsageError(
            "ys trigger takes one workflow; params are given with -p", remedy=("ys help params",)
        )
    return UsageError(_small_first(message.rstrip(".")), remedy=(f"{path} --help",))


def _unknown_option(
    option: str, possibilities: list[str], path: str, argv: Sequence[str]
) -> UsageError:
    best = nearest(option, possibilities)
    if not best:
        return UsageError(f"{path} has no option {option}", remedy=(f"{path} --help",))
    return UsageError(
        f"{path} has no option {option}. Did you mean {' or '.join(best)}?",
        remedy=(corrected(argv, option, best[0]), f"{path} --help"),
    )


def corrected(argv: Sequence[str], wrong: str, right: str) -> str:
    """The whole line with `right` for `wrong`; values that may be secret are left out."""
    words = []
    before = ""
    done = False
    for word in argv:
        # A misspelt option may be one whose value is secret.
        option = right if before == wrong else before
        if option in _PRIVATE or option in _PRIVATE_WHOLE:
            shown = _hidden(option, word)
        elif not done and (word == wrong or word.startswith(f"{wrong}=")):
            done = True
            shown = _without_value(right + word[len(wrong) :])
        else:
            shown = _without_value(word)
        words.append(shown if "…" in shown else shlex.quote(shown))
        before = word
    return " ".join(["ys", *words])


def _hidden(option: str, value: str) -> str:
    """What may be told of a param: its name."""
    if option in _PRIVATE_WHOLE or "=" not in value:
        return "…"
    return value.partition("=")[0].rstrip(":") + "=…"


def _without_value(word: str) -> str:
    """`word`, where it holds a param itself (`--param=k=v`, `-pk=v`) without that."""
    option, sign, value = word.partition("=")
    if sign and option in (*_PRIVATE, *_PRIVATE_WHOLE):
        return f"{option}={_hidden(option, value)}"
    if word.startswith("-p") and len(word) > 2:
        return f"-p{_hidden('-p', word[2:])}"
    # A param whose -p was forgotten.
    if sign and not word.startswith("-"):
        return f"{option.rstrip(':')}=…"
    return word


def _small_first(text: str) -> str:
    return text[:1].lower() + text[1:]
