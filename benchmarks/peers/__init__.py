"""Other systems on the same work: each program runs in an environment of its own."""
