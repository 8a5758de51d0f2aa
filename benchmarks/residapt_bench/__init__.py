"""The laboratory of residapt: benchmarks, experiments and their records."""
