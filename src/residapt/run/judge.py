"""The last stage: judge the adapted network against the source network, and write what was found."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from residapt.evaluate.calibration import beyond_source, fit_temperature, unusualness
from residapt.evaluate.collect import collect, plain_streams
from residapt.evaluate.evidence import Evidence
from residapt.evaluate.guard import compare
from residapt.evaluate.scores import SCORES
from residapt.report import write_report
from residapt.run.along import scores_of
from residapt.run.label_scores import LabelScores, Stage, score_labelled
from residapt.run.pictures import changed_predictions, project, unusual_images
from residapt.run.request import Plan
from residapt.run.stages import Adapted
from residapt.storage import base_hashes, save_pretrained
from residapt.storage.model_file import write_model
from residapt.storage.run_directory import RunDirectory
from residapt.storage.summary import LayerRanks, RunSummary, Verdict, write_summary
from residapt.streams import TwoStream
from residapt.train import Method
from residapt.transform import build_transform
from residapt.version import __version__


@dataclass(frozen=True, eq=False)
class Finished:
    """A finished run: what was found, and both networks."""

    summary: RunSummary
    method: Method
    source: nn.Module
    plan: Plan

    def handed_out(self) -> nn.Module:
        """The plain network for the target: the adapted one, or the source network where that looks better."""
        if self.summary.verdict.handed_out == "source":
            return self.source
        return self.method.target_model()


def finish(plan: Plan, run: RunDirectory | None, source: nn.Module, adapted: Adapted) -> Finished:
    """Score before and after, decide which network is handed out, and write the files."""
    started = time.monotonic()
    source.eval()
    adapted.method.eval()
    before, after = _evidence(plan, source, adapted.method)
    verdict = _judge(plan, before, after)
    temperatures = _temperatures(before, after)
    scored = score_labelled(plan, source, adapted.method, temperatures)
    plan.seconds["scoring"] = time.monotonic() - started
    summary = _summary(plan, adapted, before, after, verdict, scored)
    finished = Finished(summary, adapted.method, source, plan)
    if run is not None and plan.engine.is_main:
        _write(finished, run)
    return finished


def _evidence(plan: Plan, source: nn.Module, method: Method) -> tuple[Evidence, Evidence]:
    plain = plain_streams(source, plan.config.transform.features)
    before = collect(plain, plan.held_out, plan.seen, target_stream="source", device=plan.device)
    after = collect(method.two, plan.held_out, plan.seen, target_stream="target", device=plan.device)
    return before, after


def _temperatures(before: Evidence, after: Evidence) -> dict[Stage, float]:
    """Fitted on held-out source images, since the target's labels are for scoring only."""
    stages: tuple[tuple[Stage, Evidence], ...] = (("source_only", before), ("adapted", after))
    return {stage: fit_temperature(seen.source_logits, seen.source_labels) for stage, seen in stages}


def _judge(plan: Plan, before: Evidence, after: Evidence) -> Verdict:
    judged = compare(before, after)
    back = judged.helped is False and not plan.config.force
    return Verdict(helped=judged.helped, handed_out="source" if back else "adapted", reasons=judged.reasons)


def _summary(
    plan: Plan,
    adapted: Adapted,
    before: Evidence,
    after: Evidence,
    verdict: Verdict,
    scored: LabelScores,
) -> RunSummary:
    names = tuple(name for name in SCORES if name != "devn" or plan.config.select == name)
    first, second = scores_of(before, names), scores_of(after, names)
    old, new = before.target_logits, after.target_logits
    changed = float((old.argmax(1) != new.argmax(1)).double().mean())
    unusual = unusualness(after).argsort(descending=True, stable=True)
    notes = list(adapted.notes)
    if len(plan.sample) < len(plan.target):
        notes.append(f"scores and changes were found on {len(plan.sample)} of {len(plan.target)} target images.")
    return RunSummary(
        version=__version__,
        method=plan.config.method,
        model=plan.config.model.spec,
        classes=plan.classes,
        input=plan.input,
        seconds={stage: round(value, 3) for stage, value in plan.seconds.items()},
        source_images=len(plan.pair.source.images) + len(plan.held_out.images),
        target_images=len(plan.target),
        labelled_images=len(plan.labelled),
        verdict=verdict,
        scores={name: (first[name], second[name]) for name in first if name in second},
        accuracies=scored.accuracies,
        detections=scored.detections,
        ranks=layer_ranks(adapted.method.two),
        parameters=_parameters(adapted.method),
        frequencies=_frequencies(plan, old, new, adapted.method),
        changed=changed_predictions(old, new, plan.target, plan.sample, plan.classes, plan.input),
        changed_count=round(changed * len(plan.target)),
        projection=project(before, after),
        notes=notes,
        selected=adapted.selected,
        temperature=fit_temperature(after.source_logits, after.source_labels),
        calibrations=scored.calibrations,
        unusual=unusual_images(unusual, new, plan.target, plan.sample, plan.classes, plan.input),
        unusual_count=int(beyond_source(after).sum()),
    )


def layer_ranks(two: TwoStream) -> list[LayerRanks]:
    """Ranks at the start, which follow from the settings, and now."""
    found = []
    for name, after in two.ranks().items():
        layer = two.layers[name]
        start = build_transform(layer, two.model.get_parameter(layer.weight).to("meta"), two.config)
        outputs, inputs = two.source_tensors(name)[0].shape
        found.append(LayerRanks(layer=name, shape=(outputs, inputs), before=start.ranks, after=after))
    return found


def _parameters(method: Method) -> dict[str, int]:
    network = _count(method.two.model)
    groups = {name: sum(p.numel() for p in parameters) for name, parameters in method.groups().items()}
    return {
        "network": network,
        "transforms": groups.get("transform", 0),
        "adversary": groups.get("adversary", 0),
        "deployed": network,
    }


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _frequencies(plan: Plan, before: Tensor, after: Tensor, method: Method) -> dict[str, list[float]]:
    labels = torch.cat([plan.pair.source.labels, plan.held_out.labels])
    named = {"source": labels, "target_before": before.argmax(1), "target_after": after.argmax(1)}
    count = len(plan.classes)
    shares = {name: torch.bincount(values, minlength=count).double() / len(values) for name, values in named.items()}
    found = {name: values.tolist() for name, values in shares.items()}
    if "prior" in (known := method.record()):
        found["target_assumed"] = known["prior"]["target"]
    return found


def _write(finished: Finished, run: RunDirectory) -> None:
    """The summary comes after what it describes, so that a run with a summary is a whole run."""
    plan = finished.plan
    network = finished.handed_out()
    method = "source_only" if finished.summary.verdict.handed_out == "source" else plan.config.method
    write_model(network, run.model, plan.metadata.model_copy(update={"method": method}))
    if type(finished.method.two) is TwoStream:
        # An adapter that the guard has turned down is kept, but nothing takes it for the result.
        turned_down = finished.summary.verdict.handed_out == "source"
        write_adapter(finished, run.adapter.with_name("adapter-turned-down") if turned_down else run.adapter)
    write_summary(finished.summary, run.summary)
    write_report(run)


def write_adapter(finished: Finished, folder: Path) -> None:
    """The adapter on the source network, which it carries where training has changed it."""
    plan = finished.plan
    save_pretrained(
        finished.method.two,
        folder,
        metadata=plan.metadata,
        base="included" if plan.config.train_source else "reference",
        original=base_hashes(finished.source),
    )
