"""Many executions while workers die, stand still, find no room and meet locks (C.10)."""
