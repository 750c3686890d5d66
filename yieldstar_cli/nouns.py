"""`dataclass`, `field` and `replace` of Python, or the light ones in a process of one hot command.

Python's cost such a command more time than all of its own work: 30 classes of many methods each.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import dataclass, field, replace
elif "yieldstar_cli.nouns_light" in sys.modules:
    from yieldstar_cli.nouns_light import dataclass, field, replace
else:
    from dataclasses import dataclass, field, replace

__all__ = ["dataclass", "field", "replace"]
