"""For authors' tests and for ours: run a workflow on the real driver and real storage (spec K10).

Only the clock and the step functions are replaced; sleeps of days take milliseconds.
"""

from yieldstar_cli.clock import ManualClock
from yieldstar_cli.testing.faultpoints import FaultPoints, Killed
from yieldstar_cli.testing.kit import Bench, run
from yieldstar_cli.testing.result import RunResult

__all__ = ["Bench", "FaultPoints", "Killed", "ManualClock", "RunResult", "run"]
