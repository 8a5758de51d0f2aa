"""The last stage: judge the adapted network against the source network, and write what was found."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from residapt.evaluate.calibration import beyond_source, fit_temperature, unusualness
from residapt.evaluate.class_sets import absent_classes, absent_note
from residapt.evaluate.collect import collect, plain_streams
from residapt.evaluate.evidence import Evidence
from residapt.evaluate.guard import compare
from residapt.evaluate.scores import SCORES
from residapt.report import write_report
from residapt.run.along import scores_of
from residapt.run.outputs import remove_outputs
from residapt.run.pictures import changed_predictions, project, unusual_images
from residapt.run.request import Setup
from residapt.run.scoring import LabelScores, Stage, score_labelled
from residapt.run.source_free import SCORED
from residapt.run.stages import Adapted
from residapt.storage import base_hashes, save_pretrained
from residapt.storage.adapter import has_adapter
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
    """What was trained of the source network."""
    setup: Setup
    predicted: Tensor
    """Classes that the adapted network predicts for the target images of ``setup.sample``."""

    def adapted(self) -> nn.Module:
        """The adapted streams, merged into a plain network for the target."""
        return self.setup.whole(self.method.target_model())

    def selected(self) -> nn.Module:
        """The plain network for the target that was selected: the adapted one, or the source network."""
        return self.whole_source if self.summary.verdict.selected == "source" else self.adapted()

    @property
    def whole_source(self) -> nn.Module:
        """The source network, frozen stages included."""
        return self.setup.whole(self.source)

    @property
    def streams(self) -> TwoStream:
        """The adapted streams, frozen stages included."""
        return self.setup.whole_streams(self.method.streams)


def finish(setup: Setup, run: RunDirectory | None, source: nn.Module, adapted: Adapted) -> Finished:
    """Score before and after, select one of the networks, and write the files."""
    source.eval()
    adapted.method.eval()
    with setup.during("scoring", "computing the final scores"):
        before, after = evidence_of(setup, source, adapted.method)
        verdict = _judge(setup, before, after)
        temperatures = _temperatures(setup, before, after)
        scored = score_labelled(setup, source, adapted.method, temperatures)
        summary = _summary(setup, adapted, before, after, verdict, scored)
    finished = Finished(summary, adapted.method, source, setup, after.target_logits.argmax(1))
    if run is not None and setup.engine.is_main:
        with setup.during("report", "writing the networks and the report"):
            _write_networks(finished, run)
            finished = replace(finished, summary=_write_report(finished, run))
            remove_outputs(run.outputs)
    return finished


def evidence_of(setup: Setup, source: nn.Module, method: Method) -> tuple[Evidence, Evidence]:
    """Outputs of the source network and of the adapted one, on held-out source and on target images."""
    plain = plain_streams(source, setup.method_config.transform.features)
    before = collect(plain, setup.held_out_seen, setup.seen, target_stream="source", device=setup.device)
    after = collect(method.streams, setup.held_out_seen, setup.seen, target_stream="target", device=setup.device)
    return before, after


def _temperatures(setup: Setup, before: Evidence, after: Evidence) -> dict[Stage, float]:
    """Fitted on held-out source images, since the target's labels are for scoring only."""
    stages: tuple[tuple[Stage, Evidence], ...] = (("source_only", before), ("adapted", after))
    return {stage: _temperature(setup, seen) for stage, seen in stages}


def _temperature(setup: Setup, seen: Evidence) -> float:
    """1, which changes nothing, where there are no source images to fit it to."""
    return 1.0 if setup.source_free else fit_temperature(seen.source_logits, seen.source_labels)


def _judge(setup: Setup, before: Evidence, after: Evidence) -> Verdict:
    judged = compare(before, after)
    forced = judged.helped is False and setup.config.force
    back = judged.helped is False and not setup.config.force
    return Verdict(
        helped=judged.helped,
        selected="source" if back else "adapted",
        reasons=judged.reasons,
        measurements={name: (round(a, 6), round(b, 6)) for name, (a, b) in judged.votes.items()},
        chosen_by="force" if forced else "guard",
    )


def _summary(
    setup: Setup,
    adapted: Adapted,
    before: Evidence,
    after: Evidence,
    verdict: Verdict,
    scored: LabelScores,
) -> RunSummary:
    known = SCORED if setup.source_free else tuple(SCORES)
    names = tuple(name for name in known if name != "devn" or setup.config.select == name)
    first, second = scores_of(before, names), scores_of(after, names)
    old, new = before.target_logits, after.target_logits
    changed = float((old.argmax(1) != new.argmax(1)).double().mean())
    unusual_count = 0 if setup.source_free else int(beyond_source(after).sum())
    unusual = unusualness(after).argsort(descending=True, stable=True)[:unusual_count]
    frequencies = _frequencies(setup, old, new, adapted.method)
    notes = list(adapted.notes)
    if absent := absent_classes(before, after, torch.tensor(frequencies["source"])):
        notes.append(absent_note(absent, setup.classes))
    if setup.source_free:
        notes.append("no source images were given: scores and guard use target images alone.")
    if len(setup.sample) < len(setup.target):
        notes.append(f"scores and changes were computed on {len(setup.sample)} of {len(setup.target)} target images.")
    return RunSummary(
        version=__version__,
        method=setup.config.method,
        model=setup.config.model.spec,
        classes=setup.classes,
        input=setup.input,
        seconds=setup.stopwatch.rounded(),
        steps=setup.steps,
        source_images=0 if setup.source_free else len(setup.pair.source.images) + len(setup.held_out.images),
        target_images=len(setup.target),
        labelled_images=len(setup.labelled),
        verdict=verdict,
        scores={name: (first[name], second[name]) for name in first if name in second},
        accuracies=scored.accuracies,
        detections=scored.detections,
        ranks=layer_ranks(adapted.method.streams),
        parameters=_parameters(setup, adapted.method),
        frequencies=frequencies,
        changed=changed_predictions(old, new, setup.target, setup.sample, setup.classes, setup.input),
        changed_count=round(changed * len(setup.target)),
        projection=project(before, after),
        notes=notes,
        selected=adapted.selected,
        frozen=setup.kept,
        temperature=None if setup.source_free else _temperature(setup, after),
        calibrations=scored.calibrations,
        unusual=unusual_images(unusual, new, setup.target, setup.sample, setup.classes, setup.input),
        unusual_count=unusual_count,
    )


def layer_ranks(streams: TwoStream) -> list[LayerRanks]:
    """Ranks at the start, which follow from the settings, and now."""
    found = []
    for name, after in streams.ranks().items():
        layer = streams.layers[name]
        start = build_transform(layer, streams.model.get_parameter(layer.weight).to("meta"), streams.config)
        outputs, inputs = streams.source_tensors(name)[0].shape
        found.append(LayerRanks(layer=name, shape=(outputs, inputs), before=start.ranks, after=after))
    return found


def _parameters(setup: Setup, method: Method) -> dict[str, int]:
    network = _count(setup.whole(method.streams.model))
    groups = {name: sum(p.numel() for p in parameters) for name, parameters in method.groups().items()}
    return {
        "network": network,
        "transforms": groups.get("transform", 0),
        "adversary": groups.get("adversary", 0),
        "deployed": network,
    }


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _frequencies(setup: Setup, before: Tensor, after: Tensor, method: Method) -> dict[str, list[float]]:
    labels = torch.cat([setup.pair.source.labels, setup.held_out.labels])
    named = {"source": labels, "target_before": before.argmax(1), "target_after": after.argmax(1)}
    count = len(setup.classes)
    shares = {name: torch.bincount(values, minlength=count).double() / len(values) for name, values in named.items()}
    found = {name: values.tolist() for name, values in shares.items()}
    if setup.source_free:
        found["source"] = list(setup.metadata.frequencies or [1.0 / count] * count)
    if "prior" in (known := method.record()):
        found["target_assumed"] = known["prior"]["target"]
    return found


def _write_networks(finished: Finished, run: RunDirectory) -> None:
    setup = finished.setup
    run.summary.unlink(missing_ok=True)  # of another choice
    if finished.summary.verdict.selected == "source":
        # The adapted network is kept, for residapt accept, but where nothing takes it for the result.
        write_model(finished.whole_source, run.model, setup.metadata.model_copy(update={"method": "source_only"}))
        model, adapter = run.rejected / run.model.name, run.rejected / run.adapter.name
        shutil.rmtree(run.adapter, ignore_errors=True)
    else:
        shutil.rmtree(run.rejected, ignore_errors=True)
        model, adapter = run.model, run.adapter
    write_model(finished.adapted(), model, setup.metadata)
    if has_adapter(finished.method.streams) and (setup.frozen is None or type(finished.streams) is TwoStream):
        write_adapter(finished, adapter, overwrite=True)


def _write_report(finished: Finished, run: RunDirectory) -> RunSummary:
    """The summary comes after what it describes, so that a run with a summary is a whole run.

    The page is written once more when it is known how long that takes, for it has a table of where the time went.
    """
    setup, started = finished.setup, time.monotonic()
    write_summary(finished.summary, run.summary)
    write_report(run)
    if not setup.keep_checkpoints:
        shutil.rmtree(run.checkpoint, ignore_errors=True)
    seconds = setup.stopwatch.rounded()
    seconds["report"] = round(seconds["report"] + time.monotonic() - started, 3)
    summary = finished.summary.model_copy(update={"seconds": seconds})
    write_summary(summary, run.summary)
    write_report(run)
    return summary


def write_adapter(finished: Finished, folder: Path, *, overwrite: bool) -> None:
    """The adapter on the source network, which it carries where training has changed it."""
    setup = finished.setup
    save_pretrained(
        finished.streams,
        folder,
        metadata=setup.metadata,
        base="reference" if finished.method.streams.fixed else "included",
        original=base_hashes(finished.whole_source),
        overwrite=overwrite,
    )
