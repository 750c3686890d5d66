"""How things look: on a terminal, in a pipe, and as JSON."""
