"""Ways to damage a database file, each chosen from a seed, and what of it can still be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from types import MappingProxyType

import apsw

PAGE = 4096


def flip_byte(data: bytearray, dice: Random) -> None:
    """One bit pattern of one byte is another one."""
    data[dice.randrange(len(data))] ^= dice.randrange(1, 256)


def flip_in_header(data: bytearray, dice: Random) -> None:
    """The same, in the header of the file or of its first page."""
    data[dice.randrange(112)] ^= dice.randrange(1, 256)


def flip_in_page_header(data: bytearray, dice: Random) -> None:
    """The same, in the header of a page or in its list of cells."""
    data[dice.randrange(1, len(data) // PAGE) * PAGE + dice.randrange(40)] ^= dice.randrange(1, 256)


def spoil_page(data: bytearray, dice: Random) -> None:
    """A page holds noise."""
    start = dice.randrange(len(data) // PAGE) * PAGE
    data[start : start + PAGE] = dice.randbytes(PAGE)


def empty_page(data: bytearray, dice: Random) -> None:
    """A page holds zeros."""
    start = dice.randrange(1, len(data) // PAGE) * PAGE
    data[start : start + PAGE] = bytes(PAGE)


def zero_header(data: bytearray, dice: Random) -> None:
    """The header is gone, or its beginning."""
    size = dice.choice((16, 100, PAGE))
    data[:size] = bytes(size)


def cut_short(data: bytearray, dice: Random) -> None:
    """The end is missing."""
    del data[dice.randrange(len(data)) :]


def cut_pages(data: bytearray, dice: Random) -> None:
    """The last pages are missing."""
    del data[dice.randrange(1, len(data) // PAGE) * PAGE :]


def swap_pages(data: bytearray, dice: Random) -> None:
    """Two pages stand in each other's place."""
    one, other = (n * PAGE for n in dice.sample(range(1, len(data) // PAGE), 2))
    data[one : one + PAGE], data[other : other + PAGE] = (
        data[other : other + PAGE],
        data[one : one + PAGE],
    )


KINDS: Mapping[str, Callable[[bytearray, Random], None]] = MappingProxyType(
    {
        way.__name__: way
        for way in (
            flip_byte,
            flip_in_header,
            flip_in_page_header,
            spoil_page,
            empty_page,
            zero_header,
            cut_short,
            cut_pages,
            swap_pages,
        )
    }
)

Rows = dict[str, set[str]]
#: The tables whose rows belong to one execution each, under its number `n`.
OF_ONE = ("executions", "history", "waits", "retries", "attempts", "incarnations")
#: Those that executions share.
SHARED = ("stores", "messages", "effects", "effect_reports", "workers", "pauses", "file")


def rows_of(path: Path) -> Rows:
    """What can be read of the rows of each execution, and of what they share, by any scan."""
    found: Rows = {}
    connection = apsw.Connection(str(path))
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    for table in (*OF_ONE, *SHARED):
        try:
            for row in connection.execute(f"SELECT * FROM {table} NOT INDEXED"):
                key = f"n {row[0]}" if table in OF_ONE else "shared"
                found.setdefault(key, set()).add(f"{table} {row!r}")
        except (apsw.Error, UnicodeDecodeError):
            found.setdefault("shared", set()).add(f"{table} cannot be read")
    connection.close()
    return found
