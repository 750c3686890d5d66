"""`python -m yieldstar_cli` is `ys`."""

from __future__ import annotations

import sys

from yieldstar_cli.cli.entry import main

if __name__ == "__main__":
    sys.exit(main())
