"""All commands. Importing a command's module registers it; each imports what it needs when it runs."""

from __future__ import annotations

from importlib import import_module

MODULES = (
    "adapt",
    "tune",
    "predict",
    "evaluate",
    "export",
    "inspect",
    "demo",
    "settings",
    "bench_speed",
    "bench_grid",
    "bench_records",
    "bench_office31",
    "bench_uav",
    "report",
)


def register() -> None:
    """Import every module with commands."""
    for name in MODULES:
        import_module(f"residapt.cli.{name}")
