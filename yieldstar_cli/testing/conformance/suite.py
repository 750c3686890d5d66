"""The whole suite: every row that an adapter is held to, of one client or of all its rooms."""

from __future__ import annotations

from yieldstar_cli.testing.conformance.rows_admission import AdmissionRows
from yieldstar_cli.testing.conformance.rows_again import AgainRows
from yieldstar_cli.testing.conformance.rows_children import ChildRows
from yieldstar_cli.testing.conformance.rows_effect_waits import EffectWaitRows
from yieldstar_cli.testing.conformance.rows_effects import EffectRows
from yieldstar_cli.testing.conformance.rows_messages import MessageRows
from yieldstar_cli.testing.conformance.rows_outcomes import OutcomeRows
from yieldstar_cli.testing.conformance.rows_steering import SteeringRows
from yieldstar_cli.testing.conformance.rows_store_changes import StoreChangeRows
from yieldstar_cli.testing.conformance.rows_store_waits import StoreWaitRows
from yieldstar_cli.testing.conformance.rows_stores import StoreRows
from yieldstar_cli.testing.conformance.rows_wakes import WakeRows


class ExecutionConformance(AdmissionRows, WakeRows, OutcomeRows):
    """RFC 001's adapter and outcome tables.

    Subclass it in a pytest module, and say in `open` how your adapter is opened. The row
    about store commits is among those of `StorageConformance`.
    """

    def rows(self) -> list[str]:
        """The names of all rows, so that a program can run them one by one."""
        return sorted(name for name in dir(self) if name.startswith("test_"))


class StorageConformance(
    MessageRows,
    ChildRows,
    SteeringRows,
    AgainRows,
    EffectWaitRows,
    EffectRows,
    StoreChangeRows,
    StoreWaitRows,
    StoreRows,
):
    """Messages, children, cancel, pause, continue-as-new, tags, stores, effects.

    Subclass it likewise.
    """

    def rows(self) -> list[str]:
        """The names of all rows, so that a program can run them one by one."""
        return sorted(name for name in dir(self) if name.startswith("test_"))
