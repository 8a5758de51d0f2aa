"""Two domains in, a network for the second one out: train the source, adapt, judge, report."""

from typing import TYPE_CHECKING

from residapt.lazy import lazy

if TYPE_CHECKING:
    from residapt.run.api import AdaptedRun, adapt, run_request
    from residapt.run.decision import accept, reject
    from residapt.run.recorded import recorded_config
    from residapt.run.request import Request, Setup

__all__ = ["AdaptedRun", "Request", "Setup", "accept", "adapt", "recorded_config", "reject", "run_request"]

__getattr__, __dir__ = lazy(
    __name__,
    {
        **dict.fromkeys(("AdaptedRun", "adapt", "run_request"), "residapt.run.api"),
        **dict.fromkeys(("accept", "reject"), "residapt.run.decision"),
        **dict.fromkeys(("Request", "Setup"), "residapt.run.request"),
        "recorded_config": "residapt.run.recorded",
    },
)
