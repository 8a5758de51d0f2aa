"""Search over settings by a score that needs no target labels."""
