"""Two checks of `ys doctor`: what is paused, and what needs tags that no live worker has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from yieldstar_cli.cli.beyond import TagsOf
from yieldstar_cli.cli.facts import Crew
from yieldstar_cli.cli.findings import Finding
from yieldstar_cli.cli.steering_words import resume_line, scope_words
from yieldstar_cli.cli.typed import typed, word
from yieldstar_cli.clock import rfc3339
from yieldstar_cli.model import ExecutionRecord, Paused
from yieldstar_cli.nouns import dataclass
from yieldstar_cli.storage.contract import Storage

#: So many paused executions are named one by one.
_NAMED = 5


@dataclass(frozen=True, slots=True)
class SteeringCheck:
    """What people have stopped, and what no worker can take up."""

    storage: Storage
    people: Crew
    tags_of: TagsOf

    def findings(self, open_ones: Sequence[ExecutionRecord]) -> list[Finding]:
        """What is worth telling about the open executions."""
        return [*self._paused(open_ones), *self._untagged(open_ones)]

    def _paused(self, open_ones: Sequence[ExecutionRecord]) -> list[Finding]:
        found = [self._mark(mark, "") for mark in self.storage.steering.pauses()]
        own = [r for r in open_ones if r.paused is not None and r.paused.scope == "execution"]
        for record in own[:_NAMED]:
            assert record.paused is not None
            found.append(self._mark(record.paused, record.execution_id))
        if len(own) > _NAMED:
            text = f"{len(own) - _NAMED:,} more executions are paused."
            found.append(Finding("PAUSED", "warning", text, "ys list"))
        return found

    def _mark(self, mark: Paused, execution_id: str) -> Finding:
        what = f"{execution_id} is paused" if execution_id else scope_words(mark)
        why = f": {mark.reason}" if mark.reason else ""
        text = f"{what} by {mark.by} since {rfc3339(mark.at)}{why}"
        return Finding("PAUSED", "warning", text, resume_line(mark, execution_id))

    def _untagged(self, open_ones: Sequence[ExecutionRecord]) -> list[Finding]:
        """Executions that go on only where a tag is, with none there (spec O5)."""
        lacking: dict[tuple[str, ...], list[ExecutionRecord]] = {}
        for record in open_ones:
            key = (record.workflow_id, record.version)
            takers = self.people.who_has(*key)
            asked = self.tags_of(record)
            if asked and not takers:
                lacking.setdefault(asked, []).append(record)
            elif record.needs and not any(set(record.needs) & set(row.tags) for row in takers):
                lacking.setdefault(record.needs[:1], []).append(record)
        return [self._lacking(tags, records) for tags, records in sorted(lacking.items())]

    def _lacking(self, tags: tuple[str, ...], records: list[ExecutionRecord]) -> Finding:
        workflows = Counter(record.workflow_id for record in records)
        names = ", ".join(name for name, _ in workflows.most_common(3))
        count = len(records)
        which = typed(records[0].execution_id) if count == 1 else f"{count:,} executions"
        text = (
            f"{which} of {names} {'needs' if count == 1 else 'need'} a worker with the tag "
            f"{' and '.join(tags)}, and no live one has it."
        )
        line = " ".join(["ys worker", *(f"--tag {word(tag)}" for tag in tags)])
        return Finding("NO_TAGGED_WORKER", "error", text, line)
