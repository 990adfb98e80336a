"""Programs that play by UCI or GTP as players, our agents as such programs, and matches."""
