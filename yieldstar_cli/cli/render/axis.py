"""The broken time axis of `ys show`: work is to scale, each wait has a fixed width."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from yieldstar_cli.nouns import dataclass

_LONGEST_WAIT = 12


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time in which one row worked or waited."""

    start: int
    end: int
    work: bool


class Axis:
    """Where on a line of `width` columns each moment of the given spans stands.

    On a linear axis a step of 41 ms beside a wait of ten minutes could not be seen. So every
    stretch in which nothing works gets the same few columns, and work shares the rest to scale.
    """

    def __init__(self, spans: Sequence[Span], width: int) -> None:
        moments = sorted({span.start for span in spans} | {span.end for span in spans})
        pieces = [
            (start, end, any(s.work and s.start < end and s.end > start for s in spans))
            for start, end in itertools.pairwise(moments)
        ]
        self._columns = _columns(pieces, width, any(span.work for span in spans))
        self._moments = moments

    def column(self, at: int) -> float:
        """The column of moment `at`, one of the spans' ends or between two of them."""
        moments, columns = self._moments, self._columns
        if len(moments) < 2 or at <= moments[0]:
            return 0.0
        for index in range(1, len(moments)):
            if at <= moments[index]:
                start, end = moments[index - 1], moments[index]
                share = (at - start) / (end - start)
                return columns[index - 1] + share * (columns[index] - columns[index - 1])
        return columns[-1]


def _columns(pieces: Sequence[tuple[int, int, bool]], width: int, any_work: bool) -> list[float]:
    """The column at which each piece begins, and where the last one ends."""
    worked = sum(end - start for start, end, work in pieces if work)
    # Waits that follow one another without a break are one stretch.
    stretches = [
        index
        for index, piece in enumerate(pieces)
        if not piece[2] and (index == 0 or pieces[index - 1][2])
    ]
    room = width / 2 if any_work else width
    each = room / len(stretches) if stretches else 0.0
    if any_work:
        each = min(_LONGEST_WAIT, each)
    for_work = width - each * len(stretches)
    waited = _stretch_lengths(pieces)
    columns = [0.0]
    for index, (start, end, work) in enumerate(pieces):
        share = for_work * (end - start) / worked if work else each * (end - start) / waited[index]
        columns.append(columns[-1] + share)
    return columns


def _stretch_lengths(pieces: Sequence[tuple[int, int, bool]]) -> list[int]:
    """For each piece, the length of the stretch of waiting pieces it belongs to."""
    lengths = [0] * len(pieces)
    index = 0
    while index < len(pieces):
        last = index
        while last < len(pieces) and pieces[last][2] == pieces[index][2]:
            last += 1
        total = pieces[last - 1][1] - pieces[index][0]
        lengths[index:last] = [max(1, total)] * (last - index)
        index = last
    return lengths
