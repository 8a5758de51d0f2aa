"""Many runs at once: processes of this machine, or a Ray cluster."""

from residapt.parallel.pool import Pool, make_engine

__all__ = ["Pool", "make_engine"]
