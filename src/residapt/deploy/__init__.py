"""Use a finished run: predict, evaluate, export, inspect."""

from residapt.deploy.domains import DeployedDomains, load_domains
from residapt.deploy.evaluate import FolderScores, evaluate_folder
from residapt.deploy.export import FORMATS, Exported, Format, default_output, export_run
from residapt.deploy.inspect import Inspection, inspect_run
from residapt.deploy.load_run import DeployedModel, load_run
from residapt.deploy.predict import Prediction, UnreadableImage, predict_folder, print_predictions, write_predictions

__all__ = [
    "FORMATS",
    "DeployedDomains",
    "DeployedModel",
    "Exported",
    "FolderScores",
    "Format",
    "Inspection",
    "Prediction",
    "UnreadableImage",
    "default_output",
    "evaluate_folder",
    "export_run",
    "inspect_run",
    "load_domains",
    "load_run",
    "predict_folder",
    "print_predictions",
    "write_predictions",
]
