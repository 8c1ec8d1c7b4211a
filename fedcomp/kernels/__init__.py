"""Inner loops in more than one implementation that give the same bits: torch, the reference, and faster ones."""
