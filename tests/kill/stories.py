"""What is told before a kill, which command is killed, and what must have come of it in the end."""

from __future__ import annotations

from dataclasses import dataclass, field

WORKER = ("worker", "--until-idle", "--linger", "5s")


def trigger(workflow_id: str, *params: str, id: str = "") -> tuple[str, ...]:
    given = tuple(word for param in params for word in ("-p", param))
    return ("trigger", workflow_id, "--id", id or workflow_id, *given)


def send(number: int) -> tuple[str, ...]:
    return ("send", "mailbox", "numbers", "--data", str(number))


@dataclass(frozen=True)
class Story:
    """One scene of the kill tests."""

    name: str
    #: What is run before, once; it all ends well.
    before: tuple[tuple[str, ...], ...]
    #: The command that is killed.
    deadly: tuple[str, ...]
    #: What is run after it; a command that had its effect before the kill may say so.
    after: tuple[tuple[str, ...], ...] = (WORKER,)
    #: How it all ends: execution, status, result.
    ends: dict[str, tuple[str, object]] = field(default_factory=dict)
    #: How many steps may be under way at once, and so be run a second time.
    at_once: int = 1
    #: How many changes are made to the shelf.
    changes: int = 0


TIDY_ENDS = {f"tidy-{depth}": ("cancelled", None) for depth in range(3)}
TIDY_WAITS = (trigger("tidy", id="tidy-2"), WORKER)
DECIDE_WAITS = (trigger("decide"), WORKER)

STORIES = (
    Story(
        "household",
        (trigger("household"),),
        WORKER,
        ends={
            "household": (
                "completed",
                ["pack-a", "away", "household/break-down failed: Broken: b", "pack-a"],
            ),
            "household/pack": ("completed", "pack-a"),
            "household/break-down": ("failed", None),
            "away": ("completed", "pack-away"),
            "household/linger": ("cancelled", None),
        },
        at_once=4,
    ),
    Story(
        "fan-out",
        (trigger("fan-out", "count=6"),),
        WORKER,
        ends={
            "fan-out": (
                "completed",
                ["many-f0", "many-f1", "failed", "many-f3", "many-f4", "failed"],
            ),
            "fan-out/one-of-many": ("completed", "many-f0"),
            "fan-out/one-of-many#2": ("completed", "many-f1"),
            "fan-out/one-of-many#3": ("failed", None),
            "fan-out/one-of-many#4": ("completed", "many-f3"),
            "fan-out/one-of-many#5": ("completed", "many-f4"),
            "fan-out/one-of-many#6": ("failed", None),
        },
        at_once=2,
    ),
    Story(
        "mailbox",
        (trigger("mailbox", "wanted=10"), *(send(i) for i in range(10))),
        WORKER,
        ends={"mailbox": ("completed", list(range(10)))},
    ),
    Story(
        "relay",
        (trigger("relay"),),
        WORKER,
        ends={
            "relay": ("completed", [f"pack-r{i}" for i in range(4)]),
            "relay/pack": ("completed", "pack-r0"),
            **{f"relay/pack~{i + 1}": ("completed", f"pack-r{i}") for i in range(1, 4)},
        },
        at_once=3,
    ),
    Story(
        "talk",
        (trigger("asks"), trigger("answers")),
        WORKER,
        ends={
            "asks": (
                "completed",
                [word for i in range(3) for word in ("delivered", "requested", f"re {i}")]
                + ["answered"],
            ),
            "answers": ("completed", "answered"),
        },
        at_once=2,
    ),
    Story(
        "shelf",
        (trigger("fetches"), trigger("stocks")),
        WORKER,
        ends={"fetches": ("completed", [0, 1, 2]), "stocks": ("completed", "sold-out")},
        at_once=2,
        changes=6,
    ),
    Story(
        "bills",
        (trigger("pays", id="he"), trigger("pays", id="she")),
        WORKER,
        ends={"he": ("completed", [0, 1, 2]), "she": ("completed", [0, 1, 2])},
        at_once=2,
    ),
    Story(
        "deferring",
        (trigger("deferring"),),
        WORKER,
        ends={"deferring": ("completed", "did-third")},
    ),
    Story(
        "cancelled worker",
        (*TIDY_WAITS, ("cancel", "tidy-2", "--reason", "enough")),
        WORKER,
        ends=TIDY_ENDS,
        at_once=3,
    ),
    Story(
        "cancel",
        TIDY_WAITS,
        ("cancel", "tidy-2", "--reason", "enough"),
        (("cancel", "tidy-2", "--reason", "enough"), WORKER),
        ends=TIDY_ENDS,
    ),
    Story(
        "cancel --now",
        TIDY_WAITS,
        ("cancel", "tidy-2", "--now"),
        (("cancel", "tidy-2", "--now"), WORKER),
        ends=TIDY_ENDS,
    ),
    Story(
        "approved worker",
        (*DECIDE_WAITS, ("approve", "decide")),
        WORKER,
        ends={"decide": ("completed", "approved")},
    ),
    Story(
        "approve",
        DECIDE_WAITS,
        ("approve", "decide"),
        (("approve", "decide"), WORKER),
        ends={"decide": ("completed", "approved")},
    ),
    Story(
        "send",
        (trigger("mailbox", "wanted=1"), WORKER),
        (*send(7), "--idempotency-key", "k"),
        ((*send(7), "--idempotency-key", "k"), WORKER),
        ends={"mailbox": ("completed", [7])},
    ),
)
