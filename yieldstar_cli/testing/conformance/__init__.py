"""RFC 001's conformance tables as tests that any storage adapter can be held to.

Subclass `ExecutionConformance` (and `TriggerConformance` for a whole runtime) in a pytest module,
say how your adapter is opened, and every row runs on it in virtual time.
"""

from yieldstar_cli.testing.conformance.adapter import Adapter
from yieldstar_cli.testing.conformance.suite import ExecutionConformance

__all__ = ["Adapter", "ExecutionConformance"]
