"""Draws the pictures of a run: PNG files with labelled axes, in colours that all can tell apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter
from targets import Row

#: Okabe and Ito's palette, told apart with any colour vision.
BLUE, ORANGE, GREEN, VERMILION, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#7F7F7F"

DOTS_PER_INCH = 150


def draw(figures: Sequence[Row], folder: Path) -> list[Path]:
    """Draw every picture that there are figures for; returns the files."""
    mpl.use("Agg")
    plt.rcParams.update(
        {
            "font.size": 10,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.alpha": 0.3,
            "savefig.dpi": DOTS_PER_INCH,
        }
    )
    folder.mkdir(exist_ok=True)
    drawings: dict[str, Callable[[Sequence[Row]], Figure | None]] = {
        "concurrency": _concurrency,
        "history": _history,
        "latency": _latency,
        "peers": _peers,
    }
    made = []
    for name, drawing in drawings.items():
        picture = drawing(figures)
        if picture is not None:
            path = folder / f"{name}.png"
            # No date in the file: the same figures make the same picture.
            picture.savefig(path, metadata={"Software": None})
            plt.close(picture)
            made.append(path)
    return made


def _of(figures: Sequence[Row], workload: str) -> list[Row]:
    return [row for row in figures if row["workload"] == workload]


def _numbered(rows: Sequence[Row], before: str, after: str = "") -> list[tuple[int, Row]]:
    """The rows named `before`, a number, `after`, by their number."""
    found = []
    for row in rows:
        name = row["name"]
        if name.startswith(before) and name.endswith(after):
            middle = name[len(before) : len(name) - len(after)].replace(",", "")
            if middle.isdigit():
                found.append((int(middle), row))
    return sorted(found, key=lambda pair: pair[0])


def _spread(axes: Axes, pairs: Sequence[tuple[int, Row]], color: str, label: str) -> None:
    """Medians as a line, with the lowest and the highest of the runs around them."""
    across = [number for number, _ in pairs]
    axes.plot(across, [row["median"] for _, row in pairs], "o-", color=color, label=label)
    low, high = ([edge(row["values"]) for _, row in pairs] for edge in (min, max))
    axes.fill_between(across, low, high, color=color, alpha=0.2, linewidth=0)


def _plain(axes: Axes, *, across: bool = False, up: bool = False) -> None:
    """Numbers instead of powers on logarithmic axes."""
    for axis, wanted in ((axes.xaxis, across), (axes.yaxis, up)):
        if wanted:
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
            axis.set_minor_formatter(NullFormatter())


def _concurrency(figures: Sequence[Row]) -> Figure | None:
    rows = _of(figures, "W2")
    pairs = _numbered(rows, "steps, ", " in flight")
    if not pairs:
        return None
    picture, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    _spread(axes, pairs, BLUE, "steps, one worker, async")
    for row, color, style in zip(
        (row for row in rows if row["name"].startswith("raw: ")),
        (VERMILION, GREY),
        ("--", ":"),
        strict=False,
    ):
        words = row["name"].replace("raw: ", "raw SQLite: ")
        axes.axhline(row["median"], color=color, linestyle=style, label=words)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks([number for number, _ in pairs])
    _plain(axes, across=True, up=True)
    axes.set(xlabel="executions in flight", ylabel="durable steps a second")
    axes.set_title("Throughput against concurrency: executions in flight share commits", loc="left")
    picture.legend(loc="outside lower center", ncols=2, frameon=False)
    return picture


def _history(figures: Sequence[Row]) -> Figure | None:
    rows = _of(figures, "W4")
    rounds, replays = _numbered(rows, "a round, of "), _numbered(rows, "replay of ", " operations")
    if not rounds or not replays:
        return None
    picture, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    _spread(left, rounds, BLUE, "a step and a 1 ms sleep")
    left.set_xscale("log")
    left.set_xticks([number for number, _ in rounds])
    left.set_ylim(bottom=0)
    left.set(xlabel="rounds of one execution", ylabel="milliseconds a round")
    left.set_title("Cost of a round as the history grows", loc="left")
    _spread(right, replays, GREEN, "by a worker that was just started")
    right.set_ylim(bottom=0)
    right.set_xlim(0, 1.06 * replays[-1][0])
    right.set(xlabel="recorded operations", ylabel="milliseconds for all of them")
    right.set_title("Replay after a restart", loc="left")
    for axes in (left, right):
        _plain(axes, across=True)
        axes.legend(frameon=False)
    return picture


def _latency(figures: Sequence[Row]) -> Figure | None:
    found = [
        (words, color, row)
        for letter, words, color in (
            ("a", "client and worker in one process", ORANGE),
            ("b", "in two processes", BLUE),
        )
        for row in _of(figures, "W3")
        if row["name"].startswith(f"{letter} ") and row.get("samples")
    ]
    if not found:
        return None
    picture, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    everything = sorted(value for _, _, row in found for value in row["samples"])
    # All but the last hundredth: one straggler would flatten the rest.
    most = everything[int(0.99 * (len(everything) - 1))] * 1.3
    edges = [most * n / 60 for n in range(61)]
    for words, color, row in found:
        samples = row["samples"]
        weights = [100 / len(samples)] * len(samples)
        label = f"{words}: median {row['median']:.2f} ms"
        axes.hist(samples, edges, weights=weights, histtype="stepfilled", color=color, alpha=0.35)
        axes.hist(samples, edges, weights=weights, histtype="step", color=color, label=label)
        axes.axvline(row["median"], color=color, linestyle="--", linewidth=1)
    beyond = sum(value > most for value in everything)
    axes.set(
        xlabel="milliseconds from trigger until the result is there"
        + (f" ({beyond} of {len(everything)} took longer)" if beyond else ""),
        ylabel="percent of the round trips",
        xlim=(0, most),
    )
    axes.set_title("Round trips of one step, one after the other", loc="left")
    axes.legend(framealpha=0.9, edgecolor="none")
    return picture


def _peers(figures: Sequence[Row]) -> Figure | None:
    rows = _of(figures, "peers")
    panels = ("one-step executions", "steps, ten in an execution")
    found = [
        sorted(
            (row["median"], row["name"].removeprefix(f"{words}, "))
            for row in rows
            if row["name"].startswith(f"{words}, ") and row["unit"] == "/s"
        )
        for words in panels
    ]
    if not all(found):
        return None
    picture, both = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained")
    for axes, words, bars in zip(both, panels, found, strict=True):
        colors = [BLUE if who.startswith("ours") else GREY for _, who in bars]
        drawn = axes.barh([who for _, who in bars], [rate for rate, _ in bars], color=colors)
        axes.bar_label(drawn, [f"{rate:,.0f}" for rate, _ in bars], padding=3)
        axes.set_xscale("log")
        least, most = bars[0][0], bars[-1][0]
        axes.set_xlim(least / 2, most * 6)
        _plain(axes, across=True)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("a second (logarithmic)")
        axes.set_title(f"{words[0].upper()}{words[1:]}", loc="left")
    return picture
