"""Search: growing-tree CFR, re-solving, agents, and how exploitable they are."""
