"""Domains: images of the source with labels, images of the target without, and batches of both."""
