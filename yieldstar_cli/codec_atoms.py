"""The values without parts: how each is written, read, and told apart from others (spec V1)."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from math import copysign, isfinite
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from yieldstar_cli.codec import INT_MAX, INT_MIN, MARK
from yieldstar_cli.codec_words import named


class Refused(Exception):
    """Why a part cannot be stored: a sentence that still lacks its place."""


def checked_text(value: str) -> str:
    """`value` itself. Raises Refused for text with half a character pair."""
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise Refused(
                f"the text has a lone surrogate ({value[error.start]!a}) at character "
                f"{error.start}; it is no valid text: decode bytes with errors='replace', or "
                "store the bytes"
            ) from None
    return value


def _integer(value: int) -> Any:
    return value if INT_MIN <= value <= INT_MAX else [MARK, "int", hex(value)]


def _float(value: float) -> Any:
    return value if isfinite(value) else [MARK, "float", repr(value)]


def zone_of(zone: tzinfo | None) -> tuple[str | int | None, str | None]:
    """What names a zone beside the text: its key, or its odd offset in microseconds; its name.

    Offsets of whole minutes stand in the text, which Python reads exactly; others it does not.
    """
    if zone is None:
        return None, None
    if type(zone) is ZoneInfo and zone.key is not None:
        return checked_text(zone.key), None
    if type(zone) is not timezone:
        raise Refused(
            f"the time zone is {named(zone)}; use datetime.timezone or zoneinfo.ZoneInfo(key)"
        )
    offset = zone.utcoffset(None)
    odd = None if offset % _MINUTE == _NOTHING else offset // timedelta.resolution
    name = zone.tzname(None)
    return odd, None if name == timezone(offset).tzname(None) else checked_text(name)


_MINUTE, _NOTHING = timedelta(minutes=1), timedelta(0)


def _moment(tag: str) -> Callable[[Any], Any]:
    def write(value: Any) -> Any:
        zone, name = zone_of(value.tzinfo)
        written = value.replace(fold=0) if zone is None else value.replace(tzinfo=None, fold=0)
        packed = [MARK, tag, written.isoformat(), zone, value.fold, name]
        while packed[-1] is None or packed[-1] == 0:
            packed.pop()
        return packed

    return write


def _read_moment(kind: Any) -> Callable[..., Any]:
    def read(
        text: str, zone: str | int | None = None, fold: int = 0, name: str | None = None
    ) -> Any:
        value = kind.fromisoformat(text)
        offset: Any = value.tzinfo
        if isinstance(zone, str):
            offset = ZoneInfo(zone)
        elif zone is not None:
            offset = timezone(timedelta(microseconds=zone))
        if name is not None:
            offset = timezone(offset.utcoffset(None), name)
        return value.replace(tzinfo=offset, fold=fold)

    return read


WRITE_ATOM: dict[type, Callable[[Any], Any]] = {
    type(None): lambda value: value,
    bool: lambda value: value,
    str: checked_text,
    int: _integer,
    float: _float,
    bytes: lambda value: [MARK, "bytes", base64.b64encode(value).decode("ascii")],
    datetime: _moment("datetime"),
    time: _moment("time"),
    date: lambda value: [MARK, "date", value.isoformat()],
    timedelta: lambda value: [MARK, "timedelta", value.days, value.seconds, value.microseconds],
    Decimal: lambda value: [MARK, "decimal", str(value)],
    UUID: lambda value: [MARK, "uuid", str(value)],
    type(Path()): lambda value: [MARK, "path", checked_text(str(value))],
}

READ_ATOM: dict[str, Callable[..., Any]] = {
    "int": lambda text: int(text, 16),
    "float": float,
    "bytes": lambda text: base64.b64decode(text, validate=True),
    "datetime": _read_moment(datetime),
    "time": _read_moment(time),
    "date": date.fromisoformat,
    "timedelta": timedelta,
    "decimal": Decimal,
    "uuid": UUID,
    "path": Path,
}


def _moment_identity(value: Any) -> Any:
    return value.isoformat(), value.fold, zone_of(value.tzinfo)


#: What makes two values of one type the same, where == does not say it.
IDENTITY: dict[type, Callable[[Any], Any]] = {
    float: lambda value: "nan" if value != value else (value, copysign(1.0, value)),
    Decimal: str,
    datetime: _moment_identity,
    time: _moment_identity,
}
