"""The command group ``residapt bench``; each command imports what it needs when it runs."""

from __future__ import annotations

from importlib import import_module

from residapt_bench.cli.group import app

MODULES = ("run", "report", "compare", "speed", "suggest", "newcomer")

for _name in MODULES:
    import_module(f"residapt_bench.cli.{_name}")

__all__ = ["app"]
