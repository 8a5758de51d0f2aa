"""Two domains in, a network for the second one out: train the source, adapt, judge, report."""

from residapt.run.api import AdaptedRun, adapt, run_request
from residapt.run.prepare import prepare
from residapt.run.request import Plan, Request
from residapt.run.resume import recorded_config

__all__ = ["AdaptedRun", "Plan", "Request", "adapt", "prepare", "recorded_config", "run_request"]
