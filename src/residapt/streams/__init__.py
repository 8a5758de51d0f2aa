"""The two-stream model (paper Fig. 1)."""

from residapt.streams.merge import check_merge, merge_and_unload
from residapt.streams.norm import batch_norms
from residapt.streams.outputs import Outputs
from residapt.streams.two_stream import Stream, TwoStream

__all__ = ["Outputs", "Stream", "TwoStream", "batch_norms", "check_merge", "merge_and_unload"]
