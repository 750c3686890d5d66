"""The one writer of a process: whatever waits shares one transaction and one fsync (design)."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence

from yieldstar_cli.errors import (
    CommitUnknown,
    DatabaseBusy,
    DiskFull,
    StorageError,
    YieldstarError,
)
from yieldstar_cli.storage.contract import Reply
from yieldstar_cli.storage.sqlite.batch import (
    Answer,
    Asked,
    Post,
    Request,
    Undo,
    deliver,
    run_batch,
)
from yieldstar_cli.storage.sqlite.inline_writer import InlineWriter
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

OnTrouble = Callable[[BaseException | None], None]

#: Pauses between tries while the disk is full, in seconds; the last one repeats.
FULL_PAUSES_S = (1.0, 2.0, 4.0, 8.0, 15.0)
#: A batch is at most this long, so that nobody waits for a transaction without end.
LONGEST_BATCH = 1_000

NEXT_BATCH = "UPDATE workers SET batch = :batch WHERE n = :worker"
LAST_BATCH = "SELECT batch FROM workers WHERE n = :worker"


class GroupWriter:
    """`contract.Writer` on a thread and a connection of its own.

    A request is a short plain function; it may be run more than once, and only the run that was
    committed counts. `worker` is the worker's row: its `batch` column tells whether a commit of
    unknown fate stands; without one it cannot be told. `on_trouble` hears on the writer's thread of
    what keeps it from writing, and None when that has passed. A busy or full database is tried
    again until `close`; a commit that cannot be settled answers CommitUnknown and ends the writer.
    """

    def __init__(
        self,
        storage_factory: Callable[[], SqliteStorage],
        post: Post,
        *,
        worker: int | None = None,
        on_trouble: OnTrouble | None = None,
        full_pauses_s: Sequence[float] = FULL_PAUSES_S,
    ) -> None:
        self._factory = storage_factory
        self._post = post
        self._worker = worker
        self._on_trouble = on_trouble or (lambda _: None)
        self._full_pauses_s = tuple(full_pauses_s)
        self._waiting: deque[Asked] = deque()
        self._wake = threading.Condition()
        self._closing = False
        self._fatal: BaseException | None = None
        self._trouble: BaseException | None = None
        self._batch = 0
        self._opened = threading.Event()
        self._thread = threading.Thread(target=self._main, name="ys-writer", daemon=True)
        self._thread.start()
        self._opened.wait()
        if self._fatal is not None:
            self._thread.join()
            raise self._fatal

    # --- for any thread --------------------------------------------------------------------

    @property
    def fatal(self) -> BaseException | None:
        """What ended the writer before it was closed."""
        return self._fatal

    @property
    def trouble(self) -> BaseException | None:
        """What keeps it from writing just now, for which it waits."""
        return self._trouble

    def submit(self, request: Request, reply: Reply) -> None:
        """See `contract.Writer.submit`."""
        with self._wake:
            refused = self._fatal or (
                StorageError("the writer is closed", why=("Nothing was changed.",))
                if self._closing
                else None
            )
            if refused is None:
                self._waiting.append(Asked(request, reply))
                self._wake.notify()
        if refused is not None:
            self._post(lambda: reply(None, refused))

    def close(self) -> None:
        """Commit what waits and stop; what cannot be written now is answered with its error."""
        with self._wake:
            self._closing = True
            self._wake.notify_all()
        self._thread.join()

    # --- the writer's thread ---------------------------------------------------------------

    def _main(self) -> None:
        try:
            self._storage = self._factory()
            self._batch = self._last_batch() or 0
        except BaseException as error:
            self._fatal = error
            self._opened.set()
            return
        self._opened.set()
        try:
            while batch := self._next():
                self._answer(self._commit(batch))
        except BaseException as error:
            self._die(error)
        finally:
            self._storage.close()

    def _next(self) -> list[Asked]:
        with self._wake:
            while not self._waiting and not self._closing:
                self._wake.wait()
            count = min(len(self._waiting), LONGEST_BATCH)
            return [self._waiting.popleft() for _ in range(count)]

    def _answer(self, answers: Sequence[Answer]) -> None:
        if answers:
            self._post(lambda: deliver(answers))

    def _die(self, error: BaseException) -> None:
        """Answer everybody who waits, now and later, with what ended the writer."""
        with self._wake:
            self._fatal = error
            left, self._waiting = list(self._waiting), deque()
        self._on_trouble(error)
        self._answer([Answer(asked.reply, None, error) for asked in left])

    def _commit(self, batch: Sequence[Asked]) -> Sequence[Answer]:
        """Commit `batch`, whatever it takes, and say what to answer."""
        tries = 0
        while True:
            try:
                answers = self._attempt(batch)
            except (DatabaseBusy, DiskFull) as error:
                self._say(error)
                tries += 1
                if not self._pause(error, tries):
                    return [Answer(asked.reply, None, error) for asked in batch]
            except CommitUnknown as error:
                return self._settle(batch, error)
            except StorageError as error:
                self._answer([Answer(asked.reply, None, error) for asked in batch])
                raise
            else:
                self._say(None)
                return answers

    def _attempt(self, batch: Sequence[Asked]) -> Sequence[Answer]:
        try:
            return self._transaction(batch, apart=False)
        except Undo:
            return self._transaction(batch, apart=True)

    def _transaction(self, batch: Sequence[Asked], *, apart: bool) -> Sequence[Answer]:
        db = self._storage.db
        db.begin()
        try:
            before = db.connection.total_changes()
            self._answers = run_batch(self._storage, batch, apart=apart)
            # Nothing written needs no commit, no fsync and no number.
            if self._worker is not None and db.connection.total_changes() != before:
                db.rows(NEXT_BATCH, {"batch": self._batch + 1, "worker": self._worker})
        except BaseException:
            db.rollback()
            raise
        db.commit()
        self._batch += 1
        return self._answers

    def _say(self, trouble: BaseException | None) -> None:
        if trouble is not None or self._trouble is not None:
            self._trouble = trouble
            self._on_trouble(trouble)

    def _pause(self, error: BaseException, tries: int) -> bool:
        """Wait for the next try; False once the writer is to close."""
        with self._wake:
            if isinstance(error, DiskFull) and not self._closing:
                pause = self._full_pauses_s[min(tries, len(self._full_pauses_s)) - 1]
                self._wake.wait_for(lambda: self._closing, timeout=pause)
            return not self._closing

    # --- a commit of unknown fate ----------------------------------------------------------

    def _last_batch(self) -> int | None:
        if self._worker is None:
            return None
        row = self._storage.db.row(LAST_BATCH, {"worker": self._worker})
        return int(row[0]) if row else None

    def _settle(self, batch: Sequence[Asked], unknown: CommitUnknown) -> Sequence[Answer]:
        """Find out whether the commit stands: if it does, its answers do; else run it once more."""
        self._say(unknown)
        try:
            # What counts is the sync below; a close that could not sync either changes nothing.
            with contextlib.suppress(YieldstarError):
                self._storage.close()
            self._storage = self._factory()
            self._storage.settle()
            stands = self._last_batch()
            if stands is None:
                raise unknown
            if stands > self._batch:
                self._batch += 1
                self._say(None)
                return self._answers
            answers = self._attempt(batch)
        except BaseException as error:
            self._answer([Answer(asked.reply, None, unknown) for asked in batch])
            raise unknown from error
        self._say(None)
        return answers


__all__ = ["GroupWriter", "InlineWriter"]
