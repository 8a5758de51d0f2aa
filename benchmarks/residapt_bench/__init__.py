"""Benchmarks: tasks, resumable grids of runs, records and tables."""
