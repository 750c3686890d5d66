"""The whole suite: every row of RFC 001's adapter and outcome tables, for one adapter."""

from __future__ import annotations

from yieldstar_cli.testing.conformance.rows_admission import AdmissionRows
from yieldstar_cli.testing.conformance.rows_outcomes import OutcomeRows
from yieldstar_cli.testing.conformance.rows_wakes import WakeRows


class ExecutionConformance(AdmissionRows, WakeRows, OutcomeRows):
    """Subclass it in a pytest module, and say in `open` how your adapter is opened.

    The row about store commits belongs to the stores and comes with them.
    """

    def rows(self) -> list[str]:
        """The names of all rows, so that a program can run them one by one."""
        return sorted(name for name in dir(self) if name.startswith("test_"))
