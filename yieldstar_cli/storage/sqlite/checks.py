"""Finds what no sound file shows, on one unchanging view, and writes nothing (spec E13)."""

from __future__ import annotations

from collections.abc import Iterator

from yieldstar_cli.errors import YieldstarError
from yieldstar_cli.storage.sqlite import (
    check_histories,
    check_others,
    check_records,
    check_waiting,
    readings,
)
from yieldstar_cli.storage.sqlite.check_file import damaged, file_breaches
from yieldstar_cli.storage.sqlite.check_rules import WAKE, Rule, Rules
from yieldstar_cli.storage.sqlite.database import BEGIN_READ, Database
from yieldstar_cli.storage.sqlite.readings import State
from yieldstar_cli.storage.upkeep import Breach

#: So many breaches of one rule are told.
MOST = 1_000

# First what will not go on: that can be helped. Then what contradicts itself, and what lies about.
RULES: Rules = (
    *check_waiting.RULES,
    *check_records.RULES,
    *check_others.RULES,
    *check_histories.RULES,
)
# Waits for stores that nobody has marked, those for one store together.
WATCHED = """
SELECT e.execution_id, w.step_key, w.store_name, w.store_id, w.store_instance, w.store_read
  FROM waits AS w INDEXED BY waits_stores
  JOIN executions AS e ON e.n = w.n
 WHERE w.store_name IS NOT NULL AND w.ready_at IS NULL
 ORDER BY w.store_name, w.store_id
"""
STATE = "SELECT instance, state FROM stores WHERE name = :name AND store_id = :store_id"


def breaches(db: Database, *, quick: bool) -> Iterator[Breach]:
    """See `upkeep.Upkeep.breaches`."""
    alone = not db.in_transaction
    if alone:
        # A view of its own, which ends with this; on a file that others write it stays as it is.
        db.rows(BEGIN_READ)
    try:
        yield from _each_once(db, quick)
    finally:
        if alone:
            db.rollback()


def _each_once(db: Database, quick: bool) -> Iterator[Breach]:
    """Damage that more than one question meets is told once."""
    told: set[str] = set()
    for breach in _all(db, quick):
        if breach.code != "DAMAGED" or breach.text not in told:
            told.add(breach.text)
            yield breach


def _all(db: Database, quick: bool) -> Iterator[Breach]:
    yield from file_breaches(db, quick=quick)
    for rule in RULES:
        if not (quick and rule.slow):
            yield from _of(db, rule)
    if not quick:
        try:
            yield from _stores(db)
        except YieldstarError as error:
            yield damaged(error)


def _of(db: Database, rule: Rule) -> Iterator[Breach]:
    """Of a damaged file, too, what it still says is told."""
    try:
        rows = db.rows(rule.statement, {"most": MOST})
    except YieldstarError as error:
        yield damaged(error)
        return
    for row in rows:
        yield rule.breach(row)


def _stores(db: Database) -> Iterator[Breach]:
    """Waits whose store is not as it was read, and which nobody marked (spec S3, S4)."""
    found: tuple[str, str] | None = None
    state = State(None, None)
    for execution_id, key, name, store_id, instance, read in db.rows(WATCHED):
        if (name, store_id) != found:
            found = (name, store_id)
            row = db.row(STATE, {"name": name, "store_id": store_id})
            state = State(None, None) if row is None else State(*row)
        if state.differs(instance, readings.told(read)):
            yield Breach(
                "STORE_UNTOLD",
                f"{key} waits for store {name} {store_id!r}, which is not as it was read",
                "It waits for something that has happened, and nobody has told it.",
                WAKE,
                execution_id,
            )
