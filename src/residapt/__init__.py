"""Adapt any PyTorch classifier to a new domain by low-rank residual parameter transfer."""

__version__ = "0.1.0"
