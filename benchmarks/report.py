"""Makes the pictures and the tables of benchmarks/README.md from the JSON of runs.

.venv/bin/python benchmarks/report.py FILE.json ...
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from figures import rounded
from targets import Row, judged
from workloads.beside_peers import WORDS

HERE = Path(__file__).resolve().parent
README = HERE / "README.md"
PICTURES = HERE / "pictures"
BEGIN, END = "<!-- {}: generated -->", "<!-- {}: end -->"


def main(argv: Sequence[str] | None = None) -> int:
    """Read the runs, draw, and put the tables in place."""
    parser = argparse.ArgumentParser(prog="benchmarks/report.py", description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--readme", type=Path, default=README, help="whose tables are replaced")
    parser.add_argument("--pictures", type=Path, default=PICTURES, metavar="DIR")
    asked = parser.parse_args(argv)
    runs = [json.loads(path.read_text()) for path in asked.runs if path.exists()]
    if not runs:
        parser.error("none of the files is there: `make bench` and `make bench-peers` write them")
    figures = together(runs)
    text = asked.readme.read_text()
    for name, table in (
        ("machine", machine(runs)),
        ("peers", beside_peers(figures)),
        ("targets", targets(figures)),
        ("figures", everything(figures)),
    ):
        text = replaced(text, name, table)
    asked.readme.write_text(text)
    try:
        from pictures import draw
    except ModuleNotFoundError as error:
        print(f"no pictures: {error.name} is not installed (pip install -e '.[bench]')")
        return 1
    for path in draw(figures, asked.pictures):
        print(path)
    return 0


def together(runs: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The figures of all runs; of a workload that several have, those of the last."""
    by_workload: dict[str, list[Row]] = {}
    for run in runs:
        for name in dict.fromkeys(row["workload"] for row in run["figures"]):
            by_workload[name] = [row for row in run["figures"] if row["workload"] == name]
    return [row for rows in by_workload.values() for row in rows]


def machine(runs: Sequence[Mapping[str, Any]]) -> str:
    """What the runs were taken on, and how busy that was."""
    lines = []
    for run in runs:
        about = ", ".join(f"{key} {value}" for key, value in run["machine"].items())
        load = ", ".join(f"{value:.1f} {when}" for when, value in run["load"].items())
        workloads = ", ".join(dict.fromkeys(row["workload"] for row in run["figures"]))
        lines.append(f"- {workloads}: {run['repeats']} runs; {about}; load {load}")
    return "\n".join(lines)


def beside_peers(figures: Sequence[Row]) -> str:
    """Rates of all, and how many times as fast ours is."""
    rows = {row["name"]: row for row in figures if row["workload"] == "peers"}
    if not rows:
        return "No other system was measured."
    whos = list(
        dict.fromkeys(
            name.removeprefix(f"{words}, ")
            for words in WORDS.values()
            for name, row in rows.items()
            if name.startswith(f"{words}, ") and row["unit"] == "/s"
        )
    )
    head = ["", *(f"{words}{what}" for words in WORDS.values() for what in ("", ": ours is"))]
    lines = []
    for who in whos:
        cells = [who]
        for words in WORDS.values():
            rate = rows.get(f"{words}, {who}")
            ratio = rows.get(f"{words}: ours, async, beside {who}")
            cells.append(f"{rounded(rate['median'])} /s" if rate else "–")
            cells.append(f"{rounded(ratio['median'])} x" if ratio else "–")
        lines.append(cells)
    return _markdown(head, lines)


def targets(figures: Sequence[Row]) -> str:
    """What was aimed at, and what was found."""
    lines = []
    for target, row in judged(figures):
        found = target.found(row)
        unit = f" x {row['beside']}" if target.ratio else f" {row['unit']}".rstrip()
        lines.append(
            [
                row["workload"],
                row["name"],
                "–" if found is None else f"{rounded(found)}{unit}",
                f"{target.sense} {rounded(target.bound)}",
                "yes" if target.met(row) else "**no**",
            ]
        )
    return _markdown(["", "what", "median", "target", "reached"], lines)


def everything(figures: Sequence[Row]) -> str:
    """Every figure of the runs, but those of the peers."""
    lines = []
    for row in figures:
        if row["workload"] != "peers":
            low, high = (rounded(edge(row["values"])) for edge in (min, max))
            ratio = "" if row["ratio"] is None else f"{rounded(row['ratio'])} x {row['beside']}"
            median = f"{rounded(row['median'])} {row['unit']}".rstrip()
            lines.append([row["workload"], row["name"], median, f"{low} – {high}", ratio])
    return _markdown(["", "what", "median", "lowest and highest", "ratio"], lines)


def _markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows)


def replaced(text: str, name: str, table: str) -> str:
    """`text` with `table` between the marks called `name`; unchanged where it has none."""
    begin, end = BEGIN.format(name), END.format(name)
    before, found, rest = text.partition(begin)
    if not found:
        return text
    _, closed, after = rest.partition(end)
    if not closed:
        raise ValueError(f"{begin} has no {end}")
    return f"{before}{begin}\n\n{table}\n\n{end}{after}"


if __name__ == "__main__":
    sys.exit(main())
