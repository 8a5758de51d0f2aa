"""Terms that any method can add to its own losses."""
