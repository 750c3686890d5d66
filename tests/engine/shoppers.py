"""Random shoppers that pay through one bank, and what is held of them (spec F1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Coroutine
from typing import Any

from hypothesis import strategies as st

from tests.engine.worlds import histories
from yieldstar_cli import EffectAnswer, Step, Workflow, codec, not_found, settled, unknown, workflow
from yieldstar_cli.errors import EffectMismatch, StepTimeout
from yieldstar_cli.model import Completed
from yieldstar_cli.testing import Bench
from yieldstar_cli.worker.ports import StepCall

#: What may become of a call: the answer comes, or is lost before or after the bank did it, or
#: (a look) nobody can say yet. Once they are used up the bank is as it should be.
TROUBLES = ("", "", "before", "after", "unknown", "raises")


class FarBank:
    """A bank behind a slow line: what it is told to do is done when the call begins.

    It is told by `span`, which a bench asks how long each call takes; so a call whose worker is
    killed meanwhile has been done.
    """

    def __init__(self, troubles: list[str], slow: bool) -> None:
        self.charges: Counter[str] = Counter()
        self.receipts: dict[str, str] = {}
        self._troubles = list(troubles)
        self._slow = slow
        #: What each call under way is answered.
        self._answers: dict[tuple[str, str, str], str] = {}

    def span(self, call: StepCall) -> int:
        """How long a call takes; the bank hears of it now."""
        name = getattr(call.fn, "__name__", "")
        if name.startswith("charge"):
            effect_id, amount = call.args
            trouble = self._troubles.pop(0) if self._troubles else ""
            if trouble != "before":
                self.charges[effect_id] += 1
                self.receipts.setdefault(effect_id, f"{effect_id} for {amount}")
            lost = trouble in ("before", "after", "raises")
            self._answers[call.execution_id, call.step_key, "charge"] = "lost" if lost else ""
        if not self._slow:
            return 0
        return (sum(call.step_key.encode()) * 7 + call.attempt * 501) % 2_000

    def charge(self, effect_id: str, amount: int) -> str:
        """The answer to what was done when the call began."""
        from yieldstar_cli import this_step

        me = this_step()
        if self._answers.pop((me.execution_id, me.step_key, "charge"), "lost"):
            raise ConnectionError("no answer")
        return self.receipts[effect_id]

    async def charge_soon(self, effect_id: str, amount: int) -> str:
        """The same, async."""
        return self.charge(effect_id, amount)

    def look(self, effect_id: str, amount: int) -> EffectAnswer[str]:
        """What the bank has done so far."""
        trouble = self._troubles.pop(0) if self._troubles else ""
        if trouble == "unknown":
            return unknown
        if trouble == "raises":
            raise ConnectionError("no answer")
        found = self.receipts.get(effect_id)
        return not_found if found is None else settled(found)

    async def look_soon(self, effect_id: str, amount: int) -> EffectAnswer[str]:
        """The same, async."""
        return self.look(effect_id, amount)


Act = tuple[str, str, int, bool]
HOWS = ("plain", "plain", "spawn", "hasty", "twice", "finally", "cancel", "sleep", "continue")
acts = st.tuples(
    st.sampled_from(HOWS),
    st.sampled_from(["x", "x", "y", "z"]),
    st.sampled_from([1, 1, 1, 2]),
    st.booleans(),
)
lives = st.lists(acts, min_size=1, max_size=4)


def shopper(bank: FarBank) -> Workflow[..., list[str]]:
    """A workflow that pays as its acts say, and gives what it was told."""

    async def pay(step: Step, effect_id: str, amount: int, asynchronous: bool) -> str:
        try:
            return await step.effect(
                effect_id,
                operation="charge",
                input=amount,
                lookup=bank.look_soon if asynchronous else bank.look,
                perform=bank.charge_soon if asynchronous else bank.charge,
                retry_in="3s",
            )
        except EffectMismatch:
            return "mismatch"

    @workflow(id="shopper")
    async def shop(step: Step, acts: list[Act], told: list[str]) -> list[str]:
        spawned = []
        for index, (how, *about) in enumerate(acts):

            def paying(about: Any = about) -> Coroutine[Any, Any, str]:
                return pay(step, *about)

            match how:
                case "spawn":
                    spawned.append(step.spawn(paying()))
                    continue
                case "hasty":
                    try:
                        told.append(await step.timeout(paying(), "1s"))
                    except StepTimeout:
                        told.append("late")
                case "twice":
                    told += await step.all([paying(), paying()])
                case "cancel":
                    branch = step.spawn(paying())
                    await step.sleep("400ms")
                    branch.cancel()
                case "finally":
                    try:
                        await step.sleep("700ms")
                    finally:
                        told.append(await paying())
                case "sleep":
                    await step.sleep("2s")
                    told.append(await paying())
                case "continue" if index + 1 < len(acts):
                    await step.continue_as({"acts": acts[index + 1 :], "told": told})
                case _:
                    told.append(await paying())
        return told + [await branch for branch in spawned]

    return shop


def hold_effects(bench: Bench, bank: FarBank, *, lost: int = 0) -> None:
    """Nothing is left open, everything was done once, and all were told the same (spec F1).

    `lost` says how many leases were lost: a worker that is stopped between its right and its try
    may do what another does too.
    """
    found = {record.effect_id: record for record in bench.storage.effects.find()}
    assert all(times <= 1 + lost for times in bank.charges.values()), bank.charges
    for record in found.values():
        assert record.holder is None, record
        if not lost:
            assert not [r for r in record.reports if r.kind == "conflict"], record
        if record.status == "settled":
            assert record.result is not None
            assert codec.decode(record.result) == bank.receipts[record.effect_id]
    for execution in bench.storage.reader.find(limit=None):
        assert execution.status.terminal, (execution.execution_id, execution.status)
        assert execution.problem is None, execution.problem
        for history in histories(bench, execution):
            for entry in history:
                if entry.kind == "effect" and entry.ok:
                    assert entry.value == found[entry.label].result, entry
        if isinstance(execution.outcome, Completed):
            for line in codec.decode(execution.outcome.result):
                assert line in ("late", "mismatch", *bank.receipts.values()), line
    assert not bench.storage.db.rows("SELECT * FROM waits")
    assert not bench.storage.db.rows("SELECT * FROM effects WHERE holder IS NOT NULL")


def nobody_waits_in_vain(bench: Bench) -> None:
    """Whoever waits for an effect is told of it, or it is in other hands (case 358)."""
    assert not bench.storage.db.rows(
        """
        SELECT e.execution_id, w.effect, f.status, f.holder
          FROM waits AS w
          JOIN executions AS e ON e.n = w.n
          JOIN effects AS f ON f.effect_id = w.effect
          LEFT JOIN executions AS h ON h.n = f.holder
         WHERE w.ready_at IS NULL
           AND (f.status = 'settled' OR h.claimed_by IS NULL OR h.token <> f.holder_token)
        """
    )
