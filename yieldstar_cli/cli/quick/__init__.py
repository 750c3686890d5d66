"""The short way for the hot commands: words read from a table, and typer is never loaded.

What is not understood at once goes to typer, every word of it, before anything was done. The
commands themselves are the same functions (`cli/show.py` and so on).
"""

from __future__ import annotations

import sys


def served(words: list[str]) -> int | None:
    """The exit status of a call that was served here; None for one that typer has to read."""
    if words and (words[-1] in ("-h", "--help") or words == ["--version"]):
        from yieldstar_cli.cli.quick.pages import page, print_page

        text = page(words)
        if text is None:
            return None
        _be_light()
        return print_page(text, words)
    if words[:1] == ["_complete"]:
        _be_light()
        from yieldstar_cli.cli.quick.completing import complete

        return complete(words[1:])
    from yieldstar_cli.cli.quick.words import read

    asked = read(words)
    if asked is None:
        return None
    _be_light()
    from yieldstar_cli.cli.quick.call import serve

    return serve(asked, words)


def _be_light() -> None:
    """Fit this process for one command: light nouns, and no search for garbage."""
    if "yieldstar_cli.nouns" not in sys.modules:
        import gc

        import yieldstar_cli.nouns_light  # noqa: F401

        gc.disable()
