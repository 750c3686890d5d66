"""One client: calls at random, each written down when it begins and when it is answered.

python -m tests.linear.actor DB SEED CALLS NAMES
"""

from __future__ import annotations

import json
import os
import sys
import time
from random import Random

from tests.linear.search import CANCELLED
from yieldstar_cli.errors import CommitUnknown, ExecutionIdConflict, ExecutionNotFound, StorageError
from yieldstar_cli.model import CancelledOutcome
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

#: What is asked, and how often.
OPS = ["trigger"] * 4 + ["get"] * 5 + ["wake"] * 2 + ["cancel"]


def main() -> None:
    """Make the calls."""
    path, seed, calls, names = sys.argv[1], *map(int, sys.argv[2:])
    dice = Random(seed)
    storage = SqliteStorage(path)
    for number in range(calls):
        # All go through the executions at about the same pace, so that calls meet.
        name = f"x-{max(0, number * names // calls - dice.randrange(3))}"
        op, argument = dice.choice(OPS), str(dice.choice((1, 1, 1, 2)))
        say("call", number, op, name, argument)
        try:
            answer = ask(storage, op, name, argument)
        except (StorageError, CommitUnknown):
            # Never answered: it may have been done.
            storage.close()
            storage = SqliteStorage(path)
            continue
        say("answer", number, answer)


def say(*what: object) -> None:
    """One line, at once: whoever is killed has said what it had begun."""
    os.write(1, (json.dumps([time.monotonic_ns(), *what]) + "\n").encode())


def ask(storage: SqliteStorage, op: str, name: str, argument: str) -> str:
    """Make one call; what it was told."""
    try:
        match op:
            case "trigger":
                params = {"n": int(argument)}
                storage.executions.admit(workflow_id="brief", params=params, execution_id=name)
                return "admitted"
            case "get":
                found = storage.executions.get(name)
                if found is None:
                    return "none"
                if isinstance(found.outcome, CancelledOutcome):
                    return CANCELLED
                return "open" if found.outcome is None else str(found.outcome)
            case "wake":
                return str(storage.executions.request_wake(name, 1))
            case _:
                return str(storage.steering.cancel(name))
    except ExecutionIdConflict:
        return "conflict"
    except ExecutionNotFound:
        return "none"


if __name__ == "__main__":
    main()
