"""What a worker does between claim and acknowledgement (spec E7, E12, R4, L2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypedDict

from yieldstar_cli.errors import StaleDelivery, StorageError, UnreadableText, YieldstarError
from yieldstar_cli.model import Claimed, Delivery, Look, Recorded, Round
from yieldstar_cli.storage.sqlite import claimed, tokens
from yieldstar_cli.storage.sqlite.claims import Claims
from yieldstar_cli.storage.sqlite.database import Database, strikes_all
from yieldstar_cli.storage.sqlite.endings import Endings
from yieldstar_cli.storage.sqlite.history import History
from yieldstar_cli.storage.sqlite.looks import Looks
from yieldstar_cli.storage.sqlite.releases import Releases
from yieldstar_cli.storage.sqlite.together import Together
from yieldstar_cli.storage.sqlite.waits import Waits

# A fault of the code is held without a moment. It may be tried again when the module is another
# than the one it was tried with, or by a worker that starts, once the last try is old enough.
# What could not be read was tried with none: other code does not mend it.
END_CODE_HOLDS = """
UPDATE executions
   SET held_since = NULL, held_until = NULL, held_code = NULL, held_module = NULL
 WHERE held_code IS NOT NULL
   AND held_until IS NULL
   AND workflow_id = :workflow_id
   AND version = :version
   AND (held_module <> :module OR held_since <= :quiet_since)
"""


class _Narrowed(TypedDict):
    """What a claim is narrowed to."""

    worker: int
    limit: int
    workflows: Sequence[tuple[str, int]]
    suspects: bool
    only: str | None
    tags: Sequence[str]


class SqliteDeliveries:
    """Deliveries on SQLite; `contract.Deliveries` says what each method means."""

    def __init__(
        self,
        db: Database,
        claims: Claims,
        endings: Endings,
        releases: Releases,
        history: History,
        waits: Waits,
        looks: Looks,
        together: Together,
    ) -> None:
        self._db = db
        self._claims = claims
        self._endings = endings
        self._releases = releases
        self._history = history
        self._waits = waits
        self._looks = looks
        self._together = together

    def claim(
        self,
        now: int,
        *,
        worker: int,
        limit: int,
        workflows: Sequence[tuple[str, int]],
        suspects: bool = False,
        only: str | None = None,
        tags: Sequence[str] = (),
        known: Callable[[int, int], int] | None = None,
        fresh: int = 0,
    ) -> list[Claimed]:
        """See `contract.Deliveries.claim`."""
        narrowed: _Narrowed = {
            "worker": worker,
            "limit": limit,
            "workflows": workflows,
            "suspects": suspects,
            "only": only,
            "tags": tags,
        }
        try:
            with self._db.atomic():
                rows = self._claims.take(now, **narrowed, fresh=fresh)
                return claimed.read(rows, self._history, self._waits, known)
        except UnreadableText:
            return self._claim_readable(now, narrowed, known)

    def _claim_readable(
        self, now: int, narrowed: _Narrowed, known: Callable[[int, int], int] | None
    ) -> list[Claimed]:
        """Claim one by one; what cannot be read is held and is in nobody's way (spec E12)."""
        found: list[Claimed] = []
        with self._db.writing():
            for number, take in self._claims.each(now, **narrowed):
                try:
                    with self._db.atomic():
                        found += claimed.read([take()], self._history, self._waits, known)
                except UnreadableText as error:
                    self._releases.hold_unreadable(number, error.message)
        return found

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        """See `contract.Deliveries.record`."""
        with self._db.writing():
            return self._endings.end(delivery, changes)

    def record_all(
        self, rounds: Sequence[tuple[Delivery, Round]]
    ) -> list[Recorded | YieldstarError]:
        """See `contract.Deliveries.record_all`."""
        if not self._db.in_part:
            before = self._db.connection.total_changes()
            try:
                with self._db.writing():
                    return self._record_together(rounds)
            except Exception as error:
                # What has changed something undoes the transaction; the writer then comes again,
                # in parts. So do we where the transaction was our own.
                within = self._db.in_transaction
                if strikes_all(error) or (within and self._db.connection.total_changes() != before):
                    raise
        with self._db.writing():
            return [self._record_apart(*one) for one in rounds]

    def _record_together(
        self, rounds: Sequence[tuple[Delivery, Round]]
    ) -> list[Recorded | YieldstarError]:
        """Plain rounds first and in a few statements, then the others one by one."""
        plain = [one for one in rounds if self._together.plain(*one)]
        # One alone is written in fewer statements by itself.
        written = self._together.write(plain) if len(plain) > 1 else {}
        answers: list[Recorded | YieldstarError] = []
        for delivery, changes in rounds:
            answer = written.get(delivery.number)
            answers.append(answer or self._told(delivery, changes))
        return answers

    def _told(self, delivery: Delivery, changes: Round) -> Recorded | YieldstarError:
        try:
            return self.record(delivery, changes)
        except StaleDelivery as error:
            return error  # it has changed nothing

    def _record_apart(self, delivery: Delivery, changes: Round) -> Recorded | YieldstarError:
        try:
            with self._db.atomic():
                return self._endings.end(delivery, changes)
        except Exception as error:
            if strikes_all(error) or not self._db.in_transaction:
                raise
            if isinstance(error, YieldstarError):
                return error
            return StorageError(f"a round could not be written: {type(error).__name__}: {error}")

    def look(
        self,
        delivery: Delivery,
        *,
        queues: Mapping[str, tuple[int, int]],
        depths: Sequence[str] = (),
        statuses: Sequence[str] = (),
        stores: Sequence[tuple[str, str]] = (),
    ) -> Look:
        """See `contract.Deliveries.look`."""
        number = tokens.number_of(self._db, delivery)
        return self._looks.look(number, queues, depths, statuses, stores)

    def nudged(self, worker: int) -> list[tuple[int, int]]:
        """See `contract.Deliveries.nudged`."""
        return self._looks.nudged(worker)

    def note(self, delivery: Delivery, code: str, message: str) -> None:
        """See `contract.Deliveries.note`."""
        with self._db.writing():
            self._releases.note(delivery, code, message)

    def next_due(
        self,
        workflows: Sequence[tuple[str, int]],
        *,
        suspects: bool = False,
        worker: int | None = None,
        tags: Sequence[str] = (),
    ) -> int | None:
        """See `contract.Deliveries.next_due`."""
        return self._claims.next_due(workflows, suspects=suspects, worker=worker, tags=tags)

    def end_code_holds(
        self, now: int, modules: Mapping[tuple[str, int], str], *, quiet_ms: int
    ) -> int:
        """See `contract.Deliveries.end_code_holds`."""
        with self._db.writing():
            return sum(
                self._db.run(
                    END_CODE_HOLDS,
                    {
                        "workflow_id": workflow_id,
                        "version": version,
                        "module": module,
                        "quiet_since": now - quiet_ms,
                    },
                )
                for (workflow_id, version), module in modules.items()
            )
