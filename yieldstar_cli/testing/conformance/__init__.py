"""RFC 001's conformance tables as tests that any storage adapter can be held to.

Subclass `ExecutionConformance` (an adapter) or `TriggerConformance` (a whole runtime) in a pytest
module, say how yours is opened, and every row runs on it in virtual time.
"""

from yieldstar_cli.testing.conformance.adapter import Adapter
from yieldstar_cli.testing.conformance.suite import ExecutionConformance
from yieldstar_cli.testing.conformance.triggering import Shop, TriggerConformance

__all__ = ["Adapter", "ExecutionConformance", "Shop", "TriggerConformance"]
