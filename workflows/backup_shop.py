"""The smallest useful thing: a job with a record, retries and a result.

ys trigger backup-shop -p source=pyproject.toml -p target=/tmp/shop-backup
"""

import shutil
from pathlib import Path

from yieldstar_cli import RetryPolicy, workflow


@workflow(retry=RetryPolicy(attempts=3, first="1s"), timeout="10m")
def backup_shop(source: Path, target: Path) -> int:
    """Copy a file and say how many bytes it has. The whole function is one step."""
    shutil.copyfile(source, target)
    return target.stat().st_size
