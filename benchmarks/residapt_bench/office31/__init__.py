"""Office-31: six pairs of domains and a deep network with frozen first stages."""
