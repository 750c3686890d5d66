"""The engine: what a workflow can await, and the driver that carries one delivery."""
