"""Serves calls of `ys` the short way, one JSON line each: nothing here but what that loads."""

# The nouns of this process are light because this is imported first, as a hot command does.
import yieldstar_cli.nouns_light  # isort: skip  # noqa: F401

import io
import json
import os
import sys
from typing import Any

from yieldstar_cli.cli.quick.call import serve
from yieldstar_cli.cli.quick.words import read
from yieldstar_cli.clock import ManualClock


class Pipe(io.StringIO):
    encoding = "utf-8"  # type: ignore[assignment]

    def reconfigure(self, **options: object) -> None:
        """As a real text stream's."""


class Screen(Pipe):
    def isatty(self) -> bool:
        return True


def answer(asked: Any) -> dict[str, object] | None:
    plain = read(asked["words"])
    if plain is None:
        return None
    os.chdir(asked["root"])
    columns = asked["columns"]
    os.environ["COLUMNS"] = str(columns) if columns else ""
    out, err = (Screen(), Screen()) if columns else (Pipe(), Pipe())
    sys.stdin = io.StringIO()
    sys.stdout, sys.stderr = out, err
    try:
        code = serve(plain, asked["words"], clock=ManualClock(asked["now"]))
    finally:
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    return {"code": code, "out": out.getvalue(), "err": err.getvalue()}


def main() -> None:
    asked = sys.__stdin__
    assert asked is not None
    for line in asked:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    # The kit of the tests keeps the same settings out of its own process.
    for name in ("YS_DB", "YS_WORKFLOWS", "YS_COLOR", "YS_ASCII", "NO_COLOR", "FORCE_COLOR"):
        os.environ.pop(name, None)
    os.environ.update(TERM="xterm", TZ="UTC")
    main()
