"""Conformance tables, RFC 001's and our own, as tests that any storage adapter can be held to.

Subclass `ExecutionConformance` (an adapter's ExecutionClient), `StorageConformance` (all its rooms)
or `TriggerConformance` (a whole runtime) in a pytest module, say how yours is opened, and every
row runs on it in virtual time.
"""

from yieldstar_cli.testing.conformance.adapter import Adapter, StorageAdapter
from yieldstar_cli.testing.conformance.suite import ExecutionConformance, StorageConformance
from yieldstar_cli.testing.conformance.triggering import Shop, TriggerConformance

__all__ = [
    "Adapter",
    "ExecutionConformance",
    "Shop",
    "StorageAdapter",
    "StorageConformance",
    "TriggerConformance",
]
