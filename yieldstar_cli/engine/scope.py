"""Where the code that is running stands: in the body of a workflow function, or not (spec R9)."""

from __future__ import annotations

from contextvars import ContextVar

#: True while the driver steps a workflow function or one of its branches.
in_workflow_body: ContextVar[bool] = ContextVar("in_workflow_body", default=False)
