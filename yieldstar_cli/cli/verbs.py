"""The verbs of `ys`: their groups, order and one-line summaries, without loading any of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from yieldstar_cli.nouns import dataclass


@dataclass(frozen=True, slots=True)
class Verb:
    """One command: its module is `yieldstar_cli.cli.<name>`."""

    name: str
    group: str
    summary: str


EVERY_DAY = "Every day"
LOOK_CLOSER = "Look closer"
STEER = "Steer"
LOOK_AFTER = "Look after"
GROUPS = (EVERY_DAY, LOOK_CLOSER, STEER, LOOK_AFTER)

VERBS = (
    Verb("init", EVERY_DAY, "Make a project here: a sample workflow and a database."),
    Verb("trigger", EVERY_DAY, "Admit one execution of a workflow and print its ID."),
    Verb("show", EVERY_DAY, "Show what happened to one execution."),
    Verb("list", EVERY_DAY, "List executions, unfinished ones first."),
    Verb("worker", EVERY_DAY, "Run due executions until stopped."),
    Verb("explain", LOOK_CLOSER, "Say in sentences what an execution waits for."),
    Verb("wait", LOOK_CLOSER, "Wait until executions have ended and print their outcomes."),
    Verb("messages", LOOK_CLOSER, "List the messages of an execution and what became of them."),
    Verb("workflows", LOOK_CLOSER, "List the workflows here, or describe one."),
    Verb("send", STEER, "Send a message to a queue of an execution."),
    Verb("approve", STEER, "Say yes to an execution that waits for a decision."),
    Verb("reject", STEER, "Say no to an execution that waits for a decision."),
    Verb("cancel", STEER, "Ask for executions to be cancelled, by ID or by filter."),
    Verb("pause", STEER, "Let no more deliveries begin until ys resume."),
    Verb("resume", STEER, "Let deliveries begin again after ys pause."),
    Verb("wake", STEER, "Ask for an execution to be delivered, now or later."),
    Verb("store", STEER, "Look at stores, or write them and wake who waits on them."),
    Verb("doctor", LOOK_AFTER, "Check the database, the workers and the workflow files."),
    Verb("check", LOOK_AFTER, "Check that the database holds to every rule of a sound one."),
    Verb("prune", LOOK_AFTER, "Forget the history and values of executions that ended long ago."),
    Verb("delete", LOOK_AFTER, "Forget the history and values of executions that have ended."),
    Verb("backup", LOOK_AFTER, "Copy the database as it is at one moment, while others write."),
    Verb("restore", LOOK_AFTER, "Put a backup in the place of the database."),
    Verb("completion", LOOK_AFTER, "Print the script that lets your shell complete ys lines."),
    Verb("help", LOOK_AFTER, "Show a help page: a command, or a topic such as exit-codes."),
)

NAMES = tuple(verb.name for verb in VERBS)

#: The verbs that have actions of their own: that of `ys store get` is in `cli.store_get`.
ACTIONS: Mapping[str, tuple[Verb, ...]] = MappingProxyType(
    {
        "store": (
            Verb("list", LOOK_CLOSER, "List the stores, or those of one name."),
            Verb("get", LOOK_CLOSER, "Print the state of a store."),
            Verb("watch", LOOK_CLOSER, "Print the state of a store whenever it changes."),
            Verb("set", STEER, "Write the whole state of a store."),
            Verb("patch", STEER, "Change fields of a store's state."),
            Verb("delete", STEER, "Delete a store."),
        )
    }
)
