"""Plants faults in a copy of the product and asks the simulator, then the tests, to find them.

python scripts/mutants.py            # all, as `make mutants` does
python scripts/mutants.py NAME ...   # some
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
SEEDS = 120


class Mutant(NamedTuple):
    """One fault: in `file`, `old` becomes `new`; `tests` are asked where the simulator is blind."""

    name: str
    file: str
    old: str
    new: str
    tests: str = ""


S = "yieldstar_cli/storage/sqlite/"
W = "yieldstar_cli/worker/"
MUTANTS = [
    Mutant(
        "a dead token may write",
        S + "endings.py",
        " WHERE n = :n AND token = :token AND claimed_by IS NOT NULL",
        " WHERE n = :n AND :token > 0 AND claimed_by IS NOT NULL",
    ),
    Mutant(
        "commits are not synced",
        S + "connection.py",
        '"full": ("PRAGMA synchronous = FULL", 2)',
        '"full": ("PRAGMA synchronous = NORMAL", 1)',
    ),
    Mutant(
        "a wake is lost where nobody claims",
        S + "consequences.py",
        "SET due_at = iif(claimed_by IS NULL, min(ifnull(due_at, :now), :now), due_at),",
        "SET due_at = due_at,",
    ),
    Mutant(
        "an open delivery is not nudged",
        S + "consequences.py",
        "nudged = nudged + (claimed_by IS NOT NULL)\n WHERE n = :n",
        "nudged = nudged\n WHERE n = :n",
        "tests/storage/test_conformance.py",
    ),
    Mutant(
        "a wake during a delivery is forgotten",
        S + "endings.py",
        "due_at         = CASE WHEN :due_at IS NULL THEN due_at\n",
        "due_at         = CASE WHEN :due_at IS NULL THEN NULL\n",
        "tests/storage/test_conformance.py tests/storage/test_wakes_and_claims.py",
    ),
    Mutant(
        "the end of a child marks nobody's wait",
        S + "waits.py",
        " WHERE target_n = :target_n AND ready_at IS NULL",
        " WHERE target_n = -:target_n AND ready_at IS NULL",
    ),
    Mutant(
        "a store's change marks nobody's wait",
        S + "waits.py",
        "            if state.differs(instance, readings.told(read))\n        ]",
        "            if state.differs(instance, readings.told(read)) and n < 0\n        ]".replace(
            "and n < 0", "and number < 0"
        ),
        "tests/storage/test_conformance.py tests/engine/test_stores.py",
    ),
    Mutant(
        "a message is read and not consumed",
        S + "endings.py",
        "        if changes.consumed or changes.invalid:",
        "        if changes.invalid:",
    ),
    Mutant(
        "a linked child outlives its parent",
        S + "consequences.py",
        "   AND NOT detached\n",
        "   AND detached\n",
    ),
    Mutant(
        "an effect is never in doubt",
        S + "effects.py",
        'return Hold(asked.step_key, "uncertain")',
        'return Hold(asked.step_key, "certain")',
    ),
    Mutant(
        "two may try one effect at once",
        S + "effects.py",
        'return Hold(asked.step_key, "busy")',
        'return Hold(asked.step_key, "uncertain")',
        "tests/engine/test_effects.py",
    ),
    Mutant(
        "who waits for an effect is not woken",
        S + "effects.py",
        "        for waiting in self._waits.mark_effect(effect_id, now):\n",
        "        for waiting in self._waits.mark_effect(effect_id, now)[:0]:\n",
    ),
    Mutant(
        "what a lost delivery covered is not due again",
        S + "claims.py",
        "   SET due_at         = min(ifnull(covered_due_at, due_at),"
        " ifnull(due_at, covered_due_at)),\n       covered_due_at = NULL,\n"
        "       claimed_by     = NULL\n WHERE n = :n\nRETURNING token",
        "   SET covered_due_at = NULL,\n       claimed_by     = NULL\n WHERE n = :n\n"
        "RETURNING token",
    ),
    Mutant(
        "who was ended may claim",
        S + "claims.py",
        "        if ended:\n            return []",
        "        if ended and worker < 0:\n            return []",
    ),
    Mutant(
        "a commit of unknown fate is taken for none",
        S + "writer.py",
        "            if stands > self._batch:\n",
        "            if stands > self._batch + 1:\n",
        "tests/storage/test_writer.py tests/storage/test_writer_faults.py",
    ),
    Mutant(
        "a commit of unknown fate is taken for one",
        S + "writer.py",
        "            if stands > self._batch:\n",
        "            if stands >= self._batch:\n",
        "tests/storage/test_writer.py tests/storage/test_writer_faults.py",
    ),
    Mutant(
        "a change of a store does not look at the version",
        S + "stores.py",
        "            met = instance in (None, standing[0]) and version in (None, standing[1])",
        "            met = instance in (None, standing[0])",
    ),
    Mutant(
        "steps start before the commit that leads to them",
        W + "carrier.py",
        "        elif changes.empty:\n            self._go_on(now)\n        else:\n"
        "            self._commit(changes)",
        "        elif changes.empty:\n            self._go_on(now)\n        else:\n"
        "            self._commit(changes)\n            self._go_on(now)",
    ),
    Mutant(
        "a resident is fed on a history that is not its own",
        W + "dispatcher.py",
        "                and driver.position == claimed.first_position\n",
        "",
        "tests/engine/test_residents.py tests/engine/test_lost_leases.py",
    ),
    Mutant(
        "a suspension does not look whether it is ready",
        S + "endings.py",
        "        if ready.anything:\n            if not (must_end",
        "        if False:\n            if not (must_end",
    ),
    Mutant(
        "a timer fires early",
        W + "waiting.py",
        "        while self._heap and self._heap[0][0] <= now:",
        "        while self._heap and self._heap[0][0] <= now + 60_000:",
        "tests/engine/test_timers.py",
    ),
    Mutant(
        "an outcome may be written twice",
        S + "consequences.py",
        " WHERE n = :n\n   AND status IN ('admitted', 'suspended')\n"
        "RETURNING execution_id, updated_at",
        " WHERE n = :n\nRETURNING execution_id, updated_at",
        "tests/storage",
    ),
]


def main(asked: list[str]) -> int:
    """How many were not found, beyond the one that may be."""
    chosen = [m for m in MUTANTS if not asked or m.name in asked]
    missed = []
    for mutant in chosen:
        found = tried(mutant)
        print(f"{found or 'NOT FOUND':12} {mutant.name}", flush=True)
        if not found:
            missed.append(mutant.name)
    print(f"{len(chosen) - len(missed)} of {len(chosen)} found")
    return len(missed) > len(chosen) // 20


def tried(mutant: Mutant) -> str:
    """What found it: "simulator", "tests", or nothing."""
    with tempfile.TemporaryDirectory(prefix="ys-mutant-") as folder:
        for name in ("yieldstar_cli", "tests", "workflows", "pyproject.toml"):
            source, target = ROOT / name, Path(folder) / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)
        place = Path(folder) / mutant.file
        text = place.read_text()
        if text.count(mutant.old) != 1:
            raise SystemExit(f"{mutant.name}: {text.count(mutant.old)} places in {mutant.file}")
        place.write_text(text.replace(mutant.old, mutant.new))
        environment = {**os.environ, "PYTHONPATH": folder}
        for batch in range(0, SEEDS, 20):
            words = [sys.executable, "-m", "tests.sim", str(batch), str(batch + 20), "--quick"]
            if _fails(words, folder, environment):
                return "simulator"
        if mutant.tests:
            words = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
            if _fails([*words, *mutant.tests.split()], folder, environment):
                return "tests"
    return ""


def _fails(words: list[str], folder: str, environment: dict[str, str]) -> bool:
    try:
        ended = subprocess.run(
            words, cwd=folder, env=environment, capture_output=True, timeout=600, check=False
        )
    except subprocess.TimeoutExpired:
        return True
    return ended.returncode != 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
