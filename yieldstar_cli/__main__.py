"""`python -m yieldstar_cli` is `ys`."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

# `-m` puts the current directory first: a json.py there would be imported in place of Python's.
# Where it is gone there is nothing to import, and `ys` says so in its own words.
with suppress(OSError):
    if sys.path and sys.path[0] == os.getcwd() != os.path.dirname(os.path.dirname(__file__)):
        del sys.path[0]

from yieldstar_cli.cli.entry import main

if __name__ == "__main__":
    sys.exit(main())
