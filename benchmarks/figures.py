"""Figures that workloads measure, their medians over several runs, and the table of them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Figure:
    """One number from one run."""

    name: str
    value: float
    unit: str
    #: The name of the figure of the same workload that this one is shown beside, as a ratio.
    beside: str | None = None
    #: The single measurements behind `value`, where a picture shows how they are spread.
    samples: tuple[float, ...] = ()


@dataclass(slots=True)
class Row:
    """One figure over all runs."""

    workload: str
    name: str
    unit: str
    beside: str | None
    values: list[float] = field(default_factory=list)
    samples: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The middle value."""
        return statistics.median(self.values)


class Results:
    """All figures of all runs, in the order in which they first came."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], Row] = {}

    def add(self, workload: str, figures: Iterable[Figure]) -> None:
        """Take the figures of one run of `workload`."""
        for figure in figures:
            row = self._rows.setdefault(
                (workload, figure.name), Row(workload, figure.name, figure.unit, figure.beside)
            )
            row.values.append(figure.value)
            row.samples += figure.samples

    @property
    def rows(self) -> list[Row]:
        """The rows, workload by workload."""
        order = list(dict.fromkeys(workload for workload, _ in self._rows))
        return sorted(self._rows.values(), key=lambda row: order.index(row.workload))

    def ratio(self, row: Row) -> float | None:
        """The row's median over that of the figure it is shown beside."""
        other = self._rows.get((row.workload, row.beside)) if row.beside else None
        return row.median / other.median if other is not None and other.median else None

    def document(self) -> list[dict[str, object]]:
        """The rows as JSON values."""
        return [
            {
                "workload": row.workload,
                "name": row.name,
                "unit": row.unit,
                "median": row.median,
                "values": row.values,
                "beside": row.beside,
                "ratio": self.ratio(row),
                **({"samples": [round(one, 4) for one in row.samples]} if row.samples else {}),
            }
            for row in self.rows
        ]

    def table(self) -> str:
        """The rows as aligned text."""
        head = ("", "measured", "median", "lowest", "highest", "unit", "ratio")
        lines = [head, *(self._cells(row) for row in self.rows)]
        widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
        shown, last = [], ""
        for line in lines:
            if line[0] not in ("", last):
                shown.append("")
            workload = line[0] if line[0] != last else ""
            last = line[0]
            shown.append(_aligned((workload, *line[1:]), widths))
        return "\n".join(shown)

    def _cells(self, row: Row) -> tuple[str, ...]:
        ratio = self.ratio(row)
        return (
            row.workload,
            row.name,
            rounded(row.median),
            rounded(min(row.values)),
            rounded(max(row.values)),
            row.unit,
            f"{rounded(ratio)} x {row.beside}" if ratio is not None else "",
        )


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    numbers = (2, 3, 4)
    return "  ".join(
        cell.rjust(width) if column in numbers else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ).rstrip()


def rounded(value: float) -> str:
    """Three significant digits, whole from 100 on: the rest is noise."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        whole = round(value, 3 - len(str(int(abs(value)))))
        return f"{int(whole):,}"
    return f"{value:.3g}"


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of `values` that is not less than `share` of them."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
