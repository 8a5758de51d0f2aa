"""The methods of this library: importing them registers them."""

from residapt.methods import adda, baselines, dsn, low_rank, rpt, shared, source_free, target_parts, two_stream

__all__ = ["adda", "baselines", "dsn", "low_rank", "rpt", "shared", "source_free", "target_parts", "two_stream"]
