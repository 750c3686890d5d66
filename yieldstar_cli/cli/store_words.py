"""Reads which store the words of `ys store` mean, and finds it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from yieldstar_cli.cli.identify import AmbiguousId
from yieldstar_cli.cli.typed import line, word
from yieldstar_cli.cli.words import nearest
from yieldstar_cli.errors import UnknownStore, UsageError
from yieldstar_cli.model import StoreRecord
from yieldstar_cli.nouns import dataclass, field
from yieldstar_cli.project import Project
from yieldstar_cli.storage.contract import Storage

#: How many are named where one has to be chosen.
_SHOWN = 3
#: How many stores are read at once, and at most for a likeness.
_PAGE = 100
_MOST = 2_000

StoreWords = Annotated[
    list[str] | None,
    typer.Argument(
        help="The store's name and ID; the ID may be left out where there is one of that name.",
        metavar="NAME [ID]",
        show_default=False,
    ),
]
StoreFields = Annotated[
    list[str] | None,
    typer.Argument(
        help="The store's name and ID, and fields: k=text, k:=JSON, k=@file.",
        metavar="NAME [ID] [K=V]...",
        show_default=False,
    ),
]
StoreId = Annotated[
    str | None, typer.Option("--id", help="The store's ID, taken literally.", metavar="ID")
]
IfVersion = Annotated[
    int | None,
    typer.Option(
        "--if-version",
        help="Only if it is at this version (-1: if it is not there); else exit 3.",
        metavar="N",
    ),
]
Reveal = Annotated[bool, typer.Option("--reveal", help="Show values whose key looks secret.")]


@dataclass(frozen=True, slots=True)
class Meant:
    """What the words of a call mean: a store, by name and perhaps ID, and fields."""

    name: str
    store_id: str | None
    fields: list[str] = field(default_factory=list)


def read_words(action: str, words: Sequence[str] | None, literal: str | None) -> Meant:
    """The store of `ys store get NAME [ID]` and its like. Raises UsageError."""
    name, *rest = words or [""]
    if not name or len(rest) > 1 or (rest and literal is not None):
        raise UsageError(
            f"ys store {action} takes the name of a store, and one ID",
            remedy=(f"ys store {action} --help",),
        )
    return Meant(name, rest[0] if rest else literal)


def read_fields(action: str, words: Sequence[str] | None, literal: str | None) -> Meant:
    """The same with fields after it: a word with `=` is one; `--id=ID` may be any ID."""
    name, *rest = words or [""]
    if not name or "=" in name:
        raise UsageError(
            f"which store? ys store {action} NAME [ID] [K=V]...",
            remedy=(f"ys store {action} --help",),
        )
    store_id = literal
    if rest and "=" not in rest[0]:
        store_id, *rest = rest
        if literal is not None:
            raise UsageError("give ID or --id=ID, not both")
    return Meant(name, store_id, rest)


# --- finding -------------------------------------------------------------------------------------


def find_store(project: Project, storage: Storage, meant: Meant, action: str) -> StoreRecord:
    """The store that is meant; without an ID the only one of its name.

    Raises UnknownStore, AmbiguousId.
    """
    if meant.store_id is not None:
        record = storage.stores.get(meant.name, meant.store_id)
        if record is None:
            raise unknown_store(project, storage, meant)
        return record
    found = storage.stores.find(name=meant.name, limit=_SHOWN + 1, states=False)
    if not found:
        raise unknown_store(project, storage, meant)
    if len(found) > 1:
        ids = [one.store_id for one in found[:_SHOWN]]
        more = ", …" if len(found) > _SHOWN else ""
        raise AmbiguousId(
            f"which {meant.name}? There are {', '.join(ids)}{more}",
            remedy=(
                *(line(action, meant.name, store_id) for store_id in ids),
                f"ys store list {word(meant.name)}",
            ),
        )
    record = storage.stores.get(meant.name, found[0].store_id)
    if record is None:
        raise unknown_store(project, storage, meant)  # deleted a moment ago
    return record


def chosen_id(project: Project, storage: Storage, meant: Meant, action: str) -> str:
    """The ID that is meant, for a store that need not be there. Raises UsageError without one."""
    if meant.store_id is not None:
        return meant.store_id
    if not storage.stores.find(name=meant.name, limit=1, states=False):
        raise UsageError(
            f"which {meant.name}? There is none yet: give it an ID",
            remedy=(f"ys store {action} {word(meant.name)} ID",),
        )
    return find_store(project, storage, meant, action).store_id


def unknown_store(project: Project, storage: Storage, meant: Meant) -> UnknownStore:
    """There is no such store: the nearest ones, and where was looked."""
    ids = [record.store_id for record in _some(storage, meant.name)]
    why = []
    if meant.store_id is not None and ids:
        what = f"store {meant.name} {meant.store_id!r}"
        near = nearest(meant.store_id, ids)
        remedies = [line("get", meant.name, found) for found in near[:1]]
    else:
        what = f"store {meant.name!r}"
        near = nearest(meant.name, sorted({record.name for record in _some(storage)}))
        remedies = [f"ys store list {word(found)}" for found in near[:1]]
    if near:
        why.append(f"Nearest: {', '.join(near)}.")
    return UnknownStore(
        f"there is no {what}",
        why=(*why, f"Looked in {project.db}."),
        remedy=(*remedies, "ys store list"),
    )


def _some(storage: Storage, name: str | None = None) -> Iterator[StoreRecord]:
    for offset in range(0, _MOST, _PAGE):
        page = storage.stores.find(name=name, limit=_PAGE, offset=offset, states=False)
        yield from page
        if len(page) < _PAGE:
            return
