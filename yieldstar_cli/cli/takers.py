"""Says whether a worker lives that can take an execution, and what is missing if none does."""

from __future__ import annotations

from yieldstar_cli.cli.facts import Facts, seen_at
from yieldstar_cli.cli.render.times import rough
from yieldstar_cli.cli.typed import word


def start_line(facts: Facts) -> str:
    """The command that starts a worker which can take it."""
    return " ".join(["ys worker", *(f"--tag {word(tag)}" for tag in facts.tags)])


def missing(facts: Facts) -> tuple[list[str], list[str]]:
    """Sentences about what keeps every worker from taking it, and commands; none if one can.

    Whatever it waits for: without such a worker it does not move (spec E12, O5, R11).
    """
    crew, record = facts.crew, facts.record
    if not crew.alive:
        return _nobody(facts)
    if crew.has(record.workflow_id, record.version):
        return [], []
    return _without_code(facts)


def _nobody(facts: Facts) -> tuple[list[str], list[str]]:
    last = facts.crew.last
    start = [f"Start one here: {start_line(facts)}"]
    if last is None:
        return ["No worker has run on this database yet."], start
    how = f", {last.how}" if last.how else ""
    since = facts.now_ms - seen_at(last)
    # The one that just died or stopped was seen until now.
    ago = f"has been seen for {rough(since)}" if since >= 1000 else "is running now"
    return [f"No worker {ago} (last: {last.name}{how})."], start


def _without_code(facts: Facts) -> tuple[list[str], list[str]]:
    """Workers live, and none of them runs its workflow."""
    record, crew = facts.record, facts.crew
    name = record.workflow_id
    which = name if record.version == 1 else f"{name} version {record.version}"
    others = crew.versions(name)
    if others:
        found = " and ".join(map(str, others))
        text = (
            f"{name} version {record.version} is recorded; live workers have {found} "
            "(UNKNOWN_WORKFLOW)."
        )
        return [text], [f"Put version {record.version} back beside them: ys workflows {name}"]
    if facts.tags:
        tags = " and ".join(facts.tags)
        return (
            [f"{which} asks for workers with the tag {tags}, and no live one has it."],
            [f"Start one: {start_line(facts)}"],
        )
    notes = [f"No live worker has loaded {which} (UNKNOWN_WORKFLOW)."]
    broken = dict(pair for row in crew.alive for pair in row.broken)
    notes += [f"{file} does not load: {message}" for file, message in broken.items()]
    if not broken:
        notes.append("No module of theirs registers that name.")
    return notes, ["Put the file right, or back: ys workflows", "Check: ys doctor"]
