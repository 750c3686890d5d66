"""The exit statuses of `ys`, which programs may rely on."""

from __future__ import annotations

DONE = 0
BUG = 1
USAGE = 2
CONFLICT = 3
NOT_FOUND = 4
BAD_VALUE = 5
REFUSED = 6
BAD_NEWS = 7
PENDING = 8
CANCELLED = 9
DATABASE = 10
UNKNOWN_COMMIT = 11
INTERRUPTED = 130
TERMINATED = 143

#: Status and meaning, as `ys help exit-codes` prints them.
TABLE = (
    ("0", "done; an empty list is 0, and so is a worker that stopped cleanly"),
    ("1", "a bug of ours; a crash report was written, its path is printed"),
    ("2", "usage: an unknown option, words that do not fit together"),
    ("3", "conflict: the execution ID exists, or the store is at another version"),
    ("4", "not found: no such execution, workflow or store"),
    ("5", "bad value: an invalid ID, params or a state that do not fit, what cannot be stored"),
    ("6", "refused by the state of things: already ended, no decision awaited, a file in the way"),
    ("7", "the answer is bad news: the execution failed, or doctor or check found something"),
    ("8", "still pending: the timeout passed; nothing was changed"),
    ("9", "the awaited execution was cancelled"),
    ("10", "database: missing, busy too long, newer, damaged, read-only; nothing happened"),
    ("11", "database: it is not known whether the commit stands; look with ys show ID"),
    ("130", "Ctrl-C (a worker: only the second one)"),
    ("143", "SIGTERM (a worker: only the second one)"),
)


def meaning(code: int) -> str:
    """What status `code` means, for help pages."""
    return dict(TABLE)[str(code)]
