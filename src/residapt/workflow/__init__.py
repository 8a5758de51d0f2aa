"""Two domains in, a network for the second one out: train the source, adapt, judge, report."""

from residapt.workflow.api import AdaptedRun, adapt, run_request
from residapt.workflow.plan import Plan, Request
from residapt.workflow.prepare import prepare
from residapt.workflow.resume import recorded_config

__all__ = ["AdaptedRun", "Plan", "Request", "adapt", "prepare", "recorded_config", "run_request"]
