"""What a place of a `ys` line may hold: fixed words, files, names from the database."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from yieldstar_cli.cli.call import Call
from yieldstar_cli.cli.facts import DECISION
from yieldstar_cli.cli.quick.table import CHOICES
from yieldstar_cli.errors import YieldstarError

if TYPE_CHECKING:
    from yieldstar_cli.project import Project
    from yieldstar_cli.storage.contract import Storage

_COMMANDS = os.path.join(os.path.dirname(__file__), "pages", "commands.tsv")
#: So many names are offered at most.
_MOST = 200
_OPEN = ("admitted", "suspended")
_STATUSES = (*_OPEN, "completed", "failed", "cancelled")
#: Verbs for which an ended execution is nothing to do with.
_FOR_OPEN = ("send", "approve", "reject", "cancel", "pause", "resume", "wake")
_WORDS = {
    **CHOICES,
    "status": _STATUSES,
    "sort": ("updated", "due", "admitted", "took"),
    "if_exists": ("fail", "show", "same"),
    "shell": ("bash", "zsh", "fish"),
    "topic": ("exit-codes", "params", "times", "values", "ids", "files"),
    "example": ("charge-order", "approval", "fanout", "agent"),
}
_FILES = ("db", "directory", "trust_dir", "workflows", "where")


class Offer(NamedTuple):
    """One candidate, and a word about it."""

    value: str
    about: str = ""


#: Finds them in a project and its database, for what was begun.
Finder = Callable[["Project", "Storage", str], list[Offer]]


class Command(NamedTuple):
    """One command: its summary, the names of its arguments, its options with their values."""

    summary: str
    places: list[str]
    options: dict[str, str]


class Offers:
    """Finds candidates; opens the database only where it takes that, and only reads."""

    def __init__(self) -> None:
        self.commands = _commands()
        self._call = Call()
        self._given: dict[str, str] = {}

    def set(self, name: str, value: str) -> None:
        """An option that was given before."""
        self._given[name] = value

    def close(self) -> None:
        """Close what was opened."""
        self._call.close()

    def below(self, name: str) -> list[Offer]:
        """The verbs, or the actions of a verb."""
        inside = f"{name} ".lstrip()
        return [
            Offer(found.removeprefix(inside), command.summary)
            for found, command in self.commands.items()
            if found.startswith(inside) and found and " " not in found.removeprefix(inside)
        ]

    def of(self, command: str, name: str, begun: str, placed: list[str]) -> list[Offer]:
        """What the argument or option value `name` of `command` may be."""
        if name in _FILES and not (command == "list" or command == "cancel"):
            return _files(begun)
        if name in _WORDS:
            return [Offer(word) for word in _WORDS[name]]
        find = self._finder(command, name, placed)
        if find is None:
            return []
        # What is damaged is told by the command, once it is typed.
        with suppress(YieldstarError, OSError, ValueError, TypeError, LookupError):
            return find(self._project(), self._storage(), begun)
        return []

    def _finder(self, command: str, name: str, placed: list[str]) -> Finder | None:
        verb, _, action = command.partition(" ")
        if verb == "store" and action:
            if name == "if_version":
                return lambda project, storage, begun: _store_version(storage, placed)
            chosen = placed[:1] if name in ("words", "literal") else []
            return lambda project, storage, begun: _stores(storage, chosen)
        if verb == "send" and name == "words" and placed:
            return lambda project, storage, begun: _queues(storage, placed[0])
        if name == "queue" and placed:
            return lambda project, storage, begun: _queues(storage, placed[0])
        if name in ("workflow_id", "name", "only", "except_"):
            return lambda project, storage, begun: _workflows(project, storage)
        if name == "params" and placed:
            return lambda project, storage, begun: _params(project, storage, placed[0])
        if name in ("execution_id", "execution_ids", "literal", "literals", "words"):
            return self._executions_for(verb)
        return None

    def _executions_for(self, verb: str) -> Finder | None:
        if verb == "trigger":
            return None
        statuses = _OPEN if verb in _FOR_OPEN else None
        awaiting = DECISION if verb in ("approve", "reject") else None
        return lambda project, storage, begun: _executions(storage, begun, statuses, awaiting)

    def _project(self) -> Project:
        from yieldstar_cli.cli.opened import project_of

        settings = self._call.settings
        settings.db, settings.directory = self._given.get("db"), self._given.get("directory")
        settings.trust_dirs = tuple(filter(None, (self._given.get("trust_dir"),)))
        return project_of(self._call, workflows=self._given.get("workflows"))

    def _storage(self) -> Storage:
        from yieldstar_cli.cli.opened import open_reading

        return open_reading(self._call, self._project())


def _commands() -> dict[str, Command]:
    found = {}
    with open(_COMMANDS, "rb") as file:
        for line in file.read().decode().splitlines():
            name, summary, places, options = line.split("\t")
            pairs = (option.partition("=") for option in options.split())
            found[name] = Command(summary, places.split(), {o: value for o, _, value in pairs})
    return found


def _files(begun: str) -> list[Offer]:
    folder, slash, name = begun.rpartition("/")
    try:
        with os.scandir(os.path.expanduser(folder + slash) or ".") as entries:
            found = [
                f"{folder}{slash}{entry.name}{'/' if entry.is_dir() else ''}"
                for entry in entries
                if entry.name.startswith(name) and (name or not entry.name.startswith("."))
            ]
    except OSError:
        return []
    return [Offer(path) for path in sorted(found)[:_MOST]]


def _executions(
    storage: Storage, begun: str, statuses: tuple[str, ...] | None, awaiting: str | None
) -> list[Offer]:
    found = storage.reader.find(statuses=statuses, awaiting=awaiting, limit=_MOST, payloads=False)
    latest = [Offer(r.execution_id, f"{r.workflow_id}, {r.status}") for r in found]
    near = [offer for offer in latest if offer.value.startswith(begun)]
    if near or not begun or awaiting is not None:
        return near
    return [Offer(name) for name in storage.reader.ids_beginning(begun, _MOST)]


def _workflows(project: Project, storage: Storage) -> list[Offer]:
    if project.workflows is None:
        return []
    modules = storage.catalog.modules(os.path.realpath(project.workflows))
    known = {info.workflow_id: info for module in modules for info in module.workflows}
    return [
        Offer(name, info.doc.strip().partition("\n")[0]) for name, info in sorted(known.items())
    ]


def _params(project: Project, storage: Storage, workflow_id: str) -> list[Offer]:
    if project.workflows is None:
        return []
    import json

    for module in storage.catalog.modules(os.path.realpath(project.workflows)):
        for info in module.workflows:
            if info.workflow_id == workflow_id:
                fields = json.loads(info.params_description).get("fields", [])
                return [Offer(f"{field['as']}=", field.get("doc", "")) for field in fields]
    return []


def _queues(storage: Storage, execution_id: str) -> list[Offer]:
    record = storage.executions.get(execution_id)
    if record is None:
        return []
    queues = {wait.queue: wait.kind for wait in storage.reader.waits(record.number)}
    return [Offer(queue, "waited for") for queue in queues if queue is not None]


def _stores(storage: Storage, chosen: list[str]) -> list[Offer]:
    """The names of stores, or the IDs of those of one name."""
    if chosen:
        return [
            Offer(s.store_id)
            for s in storage.stores.find(name=chosen[0], limit=_MOST, states=False)
        ]
    found = storage.stores.find(limit=_MOST, states=False)
    return [Offer(name) for name in dict.fromkeys(store.name for store in found)]


def _store_version(storage: Storage, placed: list[str]) -> list[Offer]:
    record = storage.stores.get(placed[0], placed[1]) if len(placed) > 1 else None
    return [] if record is None else [Offer(str(record.version))]
