"""Convert records of the first format, which had none of its own version, to version 1.

    python convert_records.py OLD.jsonl NEW.jsonl

Records of version 1 are read as well: settings that this version of the library no longer knows are left out where they
had the default of the version that wrote them, so that plans are recognised again. Both files may be the same.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from residapt.methods import MethodConfig
from residapt.train import TrainConfig
from residapt_bench.plan import Plan
from residapt_bench.record import Record

DEFAULTS: dict[str, Any] = json.loads(
    r"""
{"train": {"steps": 2000, "batch_size": 64, "few_batch": null, "seed": 0, "optimizer": "adam", "beta1": 0.5,
"beta2": 0.999, "momentum": 0.9, "network": {"lr": 0.0002, "weight_decay": 0.0}, "head": 1.0, "transform":
{"lr": 0.0002, "weight_decay": 0.0}, "adversary": {"lr": 0.0002, "weight_decay": 0.0}, "decay": "constant",
"clip": null, "accumulate": 1, "checkpointing": false, "channels_last": true, "log_every": 50,
"evaluate_every": 0, "checkpoint_every": 0}, "settings": {"discrepancy": {"weight": 1.0, "gamma": 10.0, "end":
1.0, "kind": null, "layer": null, "hidden": [500, 500], "dropout": 0.0, "steps": 1, "seed": 0, "sigma": null,
"kernels": "dsn", "multilinear": {"width": null, "limit": 4096, "g": "softmax", "detach": null, "confusion":
null, "distribution": "normal"}}, "stream_weight": 1.0, "few_weight": 1.0, "train_source": true, "penalty":
"prox", "rank": {"weight": 1.0, "step": 0.003, "every": 200, "start": 0, "end": null, "prox": "two-step",
"group_weights": "layer", "epsilon": 1e-08}, "transform": {"include": ["*"], "exclude": [], "freeze": [],
"features": null, "left_rank": 32, "right_rank": 32, "bias_rank": 1, "ranks": {}, "clamp": false, "bias":
"joint", "nonlinearity": "tanh", "form": "matrix", "column_norm": 1.0, "energy": 1.0, "norm": "per-domain",
"seed": 0}, "two_stream": {"weight": 1.0, "layers": ["*"], "regulariser": "exponential"}, "dsn": {"alpha":
0.01, "beta": 0.075, "gamma": 0.25, "start_share": 0.0, "layer": null}, "prior": {"kind": "as-is",
"estimator": "bbse", "start": "flat", "every": 20, "smoothing": 0.9, "decay": 0.98, "warmup": 0.1, "floor":
0.1, "max_condition": 100.0, "min_ess": 0.1, "search": {"rounds": 0, "settled": 0.08, "share": 0.5,
"smoothing": 0.5}}, "information": {"weight": 0.0, "gamma": 10.0, "end": 1.0, "diversity": 1.0}, "average":
{"decay": 0.0, "start": 0.5, "every": 10}, "consistency": {"weight": 0.0, "gamma": 10.0, "start": 0.0, "kind":
"kl", "threshold": 0.95, "view": "changed", "augment": {"shift": 2.0, "rotate": 10.0, "scale": 0.1, "shear":
0.1, "contrast": 0.3, "invert": 0.0}}, "pseudo": {"weight": 0.0, "start": 0.5, "decay": 0.98, "layer": null},
"augment": {"shift": 0.0, "rotate": 0.0, "scale": 0.0, "shear": 0.0, "contrast": 0.0, "invert": 0.0}}}
"""
)
"""Of the settings, in the version that wrote the first format."""


def main() -> None:
    """Convert one file."""
    source, target = map(Path, sys.argv[1:3])
    lines = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines() if line.strip()]
    records = [Record.model_validate(line if "version" in line else convert(line)) for line in lines]
    records = [with_known_settings(record) for record in records]
    target.write_text("".join(record.model_dump_json() + "\n" for record in records), encoding="utf-8")
    unknown = sum(parsed(record) is None for record in records)
    sys.stdout.write(f"{target}: {len(records)} records, {unknown} with settings that this version does not know\n")


def convert(old: dict[str, Any]) -> dict[str, Any]:
    """One record."""
    ranks = old["ranks"]
    return {
        "version": 1,
        "key": old["key"],
        "plan": plan_of(old),
        "scores": scores_of(old),
        "selection": old["selection"],
        "ranks": ranks,
        "parameters": old["parameters"],
        "label_free": old.get("label_free") or {},
        "predicted": old.get("predicted", ""),
        "curve": old.get("curve", []),
        "prior": old.get("prior"),
        "rounds": old.get("rounds", []),
        "stream_mmd": old.get("stream_mmd"),
        "labelled": old.get("labelled", 0),
        "seconds": old["seconds"],
        "peak_memory_mb": old["peak_memory_mb"],
        "data": data_of(old["data"]),
        "environment": old["environment"],
    }


def plan_of(old: dict[str, Any]) -> dict[str, Any]:
    """The plan, with what belongs to one benchmark in a group of its own."""
    plan = dict(old["plan"])
    bench = old.get("bench", "digits")
    if bench == "office31":
        network = dict(plan.pop("network"))
        plan["arch"], plan["standardise"] = network.pop("arch"), network.pop("standardise", False)
        plan["setup"] = {"kind": "office31", **network}
        plan["source"] = {**plan["source"], "weight_decay": 0.0, "decay": "inverse"}
    else:
        names = ("pixels", "counts") if bench == "digits" else ("labels", "part")
        given = {name: plan.pop(name) for name in ("pixels", "counts", "labels", "part") if name in plan}
        kind = "digits" if bench == "digits" else "drones"
        plan["setup"] = {"kind": kind, **{name: given[name] for name in names if name in given}}
    recipe = plan.get("recipe", "common")
    plan["recipe"] = "common" if recipe == "paper" else recipe
    first, _, rest = plan["note"].partition(" ")
    if first == "sweep" and rest in ("stream_weight", "rank.weight"):
        plan["swept"] = rest
    elif first == "layers" and plan["method"] == "two_stream":
        plan["swept"] = "two_stream.layers"
    return plan


def scores_of(old: dict[str, Any]) -> dict[str, Any]:
    """One entry for each scored set."""
    detection = {"ap": "average_precision", "positives": "positives", "negatives": "negatives"}
    return {
        name: {
            "accuracy": value,
            "protocol": old.get("protocols", {}).get(name, "held-out"),
            **{new: old[was][name] for was, new in detection.items() if was in old},
        }
        for name, value in old["accuracy"].items()
    }


def data_of(data: dict[str, Any]) -> dict[str, Any]:
    """What was read, as a list."""
    if "files" in data:
        return {"official": data.get("official", False), "files": data["files"]}
    return {"official": False, "files": [f"{name} {checksum}" for name, checksum in data.items()]}


def with_known_settings(record: Record) -> Record:
    """Every setting of this version, without those that it no longer knows and that had their default."""
    plan = record.plan
    train, settings = (
        known(getattr(plan, name), DEFAULTS[name], model)
        for name, model in (("train", TrainConfig), ("settings", MethodConfig))
    )
    cleaned = record.model_copy(update={"plan": plan.model_copy(update={"train": train, "settings": settings})})
    found = parsed(cleaned)
    if found is None:
        return cleaned
    full = found.model_dump(mode="json")
    plan = plan.model_copy(update={"train": full["train"], "settings": full["settings"]})
    return record.model_copy(update={"plan": plan, "key": found.key()})


def parsed(record: Record) -> Plan | None:
    """The plan as this version sees it, if it knows all settings."""
    try:
        return Plan.model_validate(record.plan.model_dump())
    except ValidationError:
        return None


def known(values: Mapping[str, Any], defaults: Mapping[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """Values without the unknown ones that have their default."""
    kept = {}
    for name, value in values.items():
        field = model.model_fields.get(name)
        default = defaults.get(name)
        if field is None and value == default:
            continue
        nested = field.annotation if field is not None else None
        if isinstance(value, Mapping) and isinstance(nested, type) and issubclass(nested, BaseModel):
            value = known(value, default if isinstance(default, Mapping) else {}, nested)
        kept[name] = value
    return kept


if __name__ == "__main__":
    main()
