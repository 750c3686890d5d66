"""Short words for the storage tests: what a worker and its rounds look like."""

from __future__ import annotations

from yieldstar_cli.model import Claimed, Delivery, Entry
from yieldstar_cli.storage.contract import Storage

#: The one workflow of these tests, as a worker names it.
WORKFLOWS = [("w", 1)]
LEASE_MS = 30_000


def new_worker(storage: Storage, now: int, *, name: str = "w-1", alone: bool = False) -> int:
    """Register a worker whose lease ends `LEASE_MS` from `now`."""
    return storage.workers.register(
        name=name,
        host="here",
        pid=1,
        slot=1,
        nonce=b"nonce",
        boot_id="boot",
        device=1,
        inode=1,
        lease_until_at=now + LEASE_MS,
        alone=alone,
    )


def admit(storage: Storage, execution_id: str, **event: object) -> int:
    """Admit an execution of the one workflow; its number."""
    record = storage.executions.admit(workflow_id="w", execution_id=execution_id, **event)  # type: ignore[arg-type]
    return record.number


def claim(storage: Storage, now: int, worker: int, **narrowed: object) -> list[Claimed]:
    """Claim up to ten for `worker`."""
    return storage.deliveries.claim(
        now,
        worker=worker,
        **{"limit": 10, "workflows": WORKFLOWS, **narrowed},  # type: ignore[arg-type]
    )


def claim_one(storage: Storage, now: int, worker: int, **narrowed: object) -> Delivery:
    """Claim exactly one for `worker`."""
    (claimed,) = claim(storage, now, worker, **narrowed)
    return claimed.delivery


def entry(position: int, step_key: str = "", at: int = 0, **words: object) -> Entry:
    """A step's resolution."""
    return Entry(
        position=position,
        kind="step",
        step_key=step_key or f"step-{position}",
        ok=True,
        value='"value"',
        at=at,
        **words,  # type: ignore[arg-type]
    )


def ids(found: list[Claimed] | list[Delivery]) -> list[str]:
    """The execution IDs, in their order."""
    return [
        each.delivery.execution_id if isinstance(each, Claimed) else each.execution_id
        for each in found
    ]
