"""The worker: claims what is due, drives it, runs its steps, records, acknowledges."""
