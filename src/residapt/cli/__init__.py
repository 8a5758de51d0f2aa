"""The command line: parsing and printing only."""

from residapt.cli.app import main

__all__ = ["main"]
