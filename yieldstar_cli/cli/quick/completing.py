"""`ys _complete SHELL WORD...`: what the last word may become, one candidate a line."""

from __future__ import annotations

import os
import shlex
import sys

from yieldstar_cli.cli.quick.offers import Offer, Offers
from yieldstar_cli.cli.render import safe

#: Where bash breaks words beside blanks.
_BREAKS = frozenset(":=")


def complete(argv: list[str]) -> int:
    """Print the candidates; for bash (`bash CURRENT`, the line in COMP_LINE) only their rest.

    Whatever goes wrong, nothing is printed: a shell that completes is no place for errors.
    """
    shell, *words = argv or ["bash"]
    if shell == "bash":
        words = split(os.environ.get("COMP_LINE", ""))[1:] or [""]
    found = candidates(words or [""])
    try:
        if shell == "bash":
            skip = len(words[-1]) - len(_seen_by_bash(words[-1], argv[-1])) if words else 0
            sys.stdout.write("".join(f"{quoted(offer.value)[skip:]}\n" for offer in found))
        else:
            lines = (f"{safe.visible(o.value)}\t{safe.visible(o.about)}\n" for o in found)
            sys.stdout.write("".join(lines))
        sys.stdout.flush()
    except (OSError, UnicodeError):
        return 0
    return 0


def split(line: str) -> list[str]:
    """The words of a line that is being typed, the last one as far as it is there."""
    for closing in ("", "'", '"'):
        try:
            words = shlex.split(line + closing)
        except ValueError:
            continue
        ended = not closing and line[-1:].isspace() and not line.endswith("\\ ")
        return [*words, ""] if ended or not words else words
    return []


def quoted(value: str) -> str:
    """`value` as bash reads it back."""
    return value if shlex.quote(value) == value or value.endswith("=") else shlex.quote(value)


def _seen_by_bash(word: str, current: str) -> str:
    """The part of `word` that bash replaces: what follows its last break."""
    if current and set(current) <= _BREAKS:
        return ""
    return current if word.endswith(current) else word


def candidates(words: list[str]) -> list[Offer]:
    """What the last of `words` may become, the others standing before it."""
    *before, current = words
    offers = Offers()
    line = _Line(offers)
    for word in before:
        line.take(word)
    found = [offer for offer in line.offered(current) if offer.value.startswith(current)]
    offers.close()
    # A name with a line feed or a tab in it would be two.
    return [offer for offer in found if offer.value.isprintable()]


class _Line:
    """The words before the one that is completed, as far as they say what it may be."""

    def __init__(self, offers: Offers) -> None:
        self._offers = offers
        self._commands = offers.commands
        self._name = ""
        self._placed: list[str] = []
        #: The option whose value comes next.
        self._awaited = ""
        self._only_words = False

    def take(self, word: str) -> None:
        """The next word of the line."""
        if self._awaited:
            self._offers.set(self._awaited, word)
            self._awaited = ""
        elif word == "--" and not self._only_words:
            self._only_words = True
        elif word.startswith("-") and word != "-" and not self._only_words:
            option, sign, value = word.partition("=")
            takes = self._options.get(option, "")
            if takes and sign:
                self._offers.set(takes, value)
            elif takes:
                self._awaited = takes
        elif (name := f"{self._name} {word}".strip()) in self._commands and not self._placed:
            self._name = name
        else:
            self._placed.append(word)

    def offered(self, current: str) -> list[Offer]:
        """What the word that begins with `current` may be."""
        if self._awaited:
            return self._offers.of(self._name, self._awaited, current, self._placed)
        if current.startswith("-") and not self._only_words:
            return self._of_option(current)
        below = self._offers.below(self._name)
        if below and not self._placed:
            return below
        place = self._commands[self._name].places[len(self._placed) :][:1]
        last = self._commands[self._name].places[-1:]
        wanted = place or [name for name in last if name.endswith("...")]
        if not self._name or not wanted:
            return []
        name = wanted[0].removesuffix("...")
        return self._offers.of(self._name, name, current, self._placed)

    def _of_option(self, current: str) -> list[Offer]:
        option, sign, value = current.partition("=")
        if not sign:
            # Those whose value follows may be given with it.
            return [Offer(word) for word in sorted(self._options) if word.startswith(current)]
        takes = self._options.get(option, "")
        found = self._offers.of(self._name, takes, value, self._placed) if takes else []
        return [Offer(f"{option}={offer.value}", offer.about) for offer in found]

    @property
    def _options(self) -> dict[str, str]:
        """Each option that may stand here, and the name of the value it takes, if any."""
        return {**self._commands[""].options, **self._commands[self._name].options}
