"""Training loops, jitted end to end (none yet)."""
