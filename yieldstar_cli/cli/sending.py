"""Reads the value of a message, sends it, and tells what became of it (spec M1, M3)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from yieldstar_cli.cli import exits, identify
from yieldstar_cli.cli.call import Call
from yieldstar_cli.cli.given import read_json, read_pairs
from yieldstar_cli.cli.render import safe
from yieldstar_cli.cli.render.times import short
from yieldstar_cli.cli.steering import (
    Answer,
    Ended,
    answer_of,
    hint_paused,
    hint_worker,
    told_if_unknown,
)
from yieldstar_cli.cli.typed import typed
from yieldstar_cli.errors import ExecutionAdmissionError, InvalidMessageEvent
from yieldstar_cli.model import ExecutionRecord, SendAnswer
from yieldstar_cli.nouns import dataclass
from yieldstar_cli.project import Project
from yieldstar_cli.storage.contract import Storage

_NOTHING = "Nothing was sent."
_HELP = ("ys help params",)
#: Texts that are taken for numbers, truth values or null by who types them.
_LIKE_JSON = re.compile(r"-?\d+(\.\d+)?|true|false|null", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Sent:
    """One message, to whom, and what became of it."""

    execution_id: str
    queue: str
    answer: SendAnswer
    ttl_ms: int
    #: None where there is no such execution yet.
    record: ExecutionRecord | None


def read_message(fields: Sequence[str], data: str | None, limit: int) -> str:
    """The JSON text of a message's value: `--data`, and over it the fields `k=v`.

    Raises UsageError, InvalidMessageEvent.
    """
    from yieldstar_cli import params
    from yieldstar_cli.runtime_words import message_text

    try:
        value: Any = {} if data is None else read_json("--data", data, limit)
        pairs = read_pairs("ys send", fields, limit)
        if pairs:
            value = params.coerce(None, pairs, value, place="value", option="")
    except ExecutionAdmissionError as error:
        remedy = tuple(words.strip() for words in error.remedy)
        raise InvalidMessageEvent(error.message, why=(_NOTHING,), remedy=remedy or _HELP) from None
    return message_text(value, limit)


def hint_texts(call: Call, fields: Sequence[str]) -> None:
    """Say which fields went out as text although they look like numbers or truth values.

    A queue has no declared type; the receiver's may refuse text, and that ends it (spec M2).
    """
    pairs = [word.partition("=") for word in fields]
    texts = [(name, text) for name, _, text in pairs if name[-1:] != ":"]
    alike = [(name, text) for name, text in texts if _LIKE_JSON.fullmatch(text)]
    if alike:
        sent = " ".join(f"{name}={text}" for name, text in alike)
        meant = " ".join(f"{name}:={text.lower()}" for name, text in alike)
        call.hint(safe.visible(f"  Sent as text: {sent}. If no text is meant:  {meant}"))


def takes_stdin(fields: Sequence[str], data: str | None) -> bool:
    """Whether the value, or a field of it, is read from stdin."""
    return data in ("-", "@-") or any(word.partition("=")[2] == "@-" for word in fields)


def send(
    call: Call,
    project: Project,
    storage: Storage,
    targets: Sequence[tuple[str, bool]],
    queue: str,
    text: str,
    *,
    ttl_ms: int,
    idempotency_key: str | None = None,
) -> list[Sent]:
    """Send `text` to `queue` of each of `targets`, in one transaction, and ring the workers."""
    from yieldstar_cli.runtime_open import ring_workers

    ids = [
        identify.find_one(call, project, storage, word).execution_id
        if word == identify.LAST and not literal
        else word
        for word, literal in targets
    ]
    look = f"ys messages {typed(ids[0]) if len(ids) == 1 else 'ID'}"
    with told_if_unknown("the message was sent", look), storage.atomic():
        sent = [
            Sent(
                name,
                queue,
                storage.inbox.send(
                    name, queue, text, ttl_ms=ttl_ms, idempotency_key=idempotency_key
                ),
                ttl_ms,
                storage.executions.get(name),
            )
            for name in dict.fromkeys(ids)
        ]
    ring_workers(storage, project.db)
    return sent


def tell_sent(
    call: Call, project: Project, storage: Storage, sent: Sequence[Sent], *, single: bool
) -> int:
    """Print what became of the messages; the exit status. Raises Ended for a single refused one."""
    if single:
        refuse_ended(call, sent[0])
    answers: list[Answer] = [
        answer_of(one.execution_id, one.answer, queue=one.queue) for one in sent
    ]
    if call.settings.json:
        call.print_document(answers[0] if single else answers)
    else:
        call.print_lines(_line(call, one) for one in sent)
        call.flush()
        for one in sent:
            _hint(call, storage, one)
        delivered = [one.execution_id for one in sent if one.answer == "delivered"]
        if len(delivered) == 1 and hint_paused(call, storage, delivered[0]):
            return exits.DONE
        if delivered:
            hint_worker(call, project, storage)
    return exits.REFUSED if any(one.answer == "refused" for one in sent) else exits.DONE


def refuse_ended(call: Call, sent: Sent) -> None:
    """Raise Ended where the message was refused."""
    if sent.answer == "refused" and sent.record is not None:
        raise Ended(sent.record, call.times, _NOTHING)


def _line(call: Call, sent: Sent) -> str:
    name, queue = safe.visible(sent.execution_id), safe.visible(sent.queue)
    if not call.drawn:
        return f"{name}\t{sent.answer}"
    good = call.look.paint("good", call.look.g("✓"))
    match sent.answer:
        case "delivered":
            return f"{good} Delivered to {name}, queue {queue}."
        case "buffered":
            return (
                f"{good} Buffered for {name}, queue {queue}, for {short(sent.ttl_ms)}: "
                "there is no such execution yet."
            )
        case "refused":
            return f"{call.look.g('·')} Not sent to {name}: it has ended."


def _hint(call: Call, storage: Storage, sent: Sent) -> None:
    """Say what a person may have overlooked: another queue, another ID."""
    if sent.answer == "buffered":
        near = storage.reader.nearest_ids(sent.execution_id)
        if near:
            call.hint(f"  Nearest: {', '.join(safe.visible(name) for name in near)}.")
        call.hint(safe.visible(f"  What becomes of it:  ys messages {typed(sent.execution_id)}"))
        return
    if sent.answer == "refused" or sent.record is None or not sent.record.deliveries:
        return
    waits = storage.reader.waits(sent.record.number)
    queues = list(dict.fromkeys(wait.queue for wait in waits if wait.queue is not None))
    if sent.queue not in queues:
        found = f"it waits on {', '.join(queues)}" if queues else "it waits on no queue now"
        call.hint(safe.visible(f"  Nobody waits on {sent.queue}: {found}."))
