"""The version, in a file of its own, so that any layer may stamp it without importing the others."""

__version__ = "0.1.0"
