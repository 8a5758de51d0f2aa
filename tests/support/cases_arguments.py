"""Bad arguments and configurations."""

from __future__ import annotations

from pathlib import Path

from support.bad_case import ADAPT, Case, write

PREDICT = "predict {good}/run {good}/target"
CONFIG = ADAPT + " --config {bad}/c.toml"


def _folder(bad: Path, good: Path) -> None:
    (bad / "c.toml").mkdir()


ARGUMENTS = (
    Case("unknown command", "adpat", "usage", ("'adpat'",)),
    Case("unknown option", "adapt --sorce x", "usage", ("--sorce",)),
    Case("option without value", "adapt -s", "usage", ("'-s'",)),
    Case("missing argument", "predict {good}/run", "usage", ("predict",)),
    Case("argument too many", "inspect {good}/run again", "usage", ("inspect",)),
    Case("steps not a number", ADAPT + " --steps many", "usage", ("'--steps'",)),
    Case("steps negative", ADAPT + " --steps -5", "ConfigError", ("train.steps = -5",)),
    Case("seed not whole", ADAPT + " --seed 1.5", "usage", ("'--seed'",)),
    Case("seed beyond 64 bits", ADAPT + " --seed 99999999999999999999999", "ConfigError", ("99999999999999999999999",)),
    Case("image size zero", ADAPT + " --image-size 0", "ConfigError", ("data.image_size = 0",)),
    Case("image size too small for the network", ADAPT + " --image-size 9", "ModelError", ("image_size=9",)),
    Case("image size beyond reason", ADAPT + " --image-size 2000000", "ConfigError", ("data.image_size = 2000000",)),
    Case("image size beyond memory", ADAPT + " --image-size 20000", "ConfigError", ("image_size=20000",)),
    Case("unknown method", ADAPT + " --method rtp", "ConfigError", ("'rtp'", "'rpt'")),
    Case("method that needs more data", ADAPT + " --method target_only", "ConfigError", ("'target_only'",)),
    Case("unknown score", ADAPT + " --select luck", "ConfigError", ("'luck'", "'infomax'")),
    Case("unknown device", ADAPT + " --device tpu", "ConfigError", ("'tpu'",)),
    Case("no output", "adapt -s {good}/source -t {good}/target", "ConfigError", ("-o",)),
    Case("no source", "adapt -t {good}/target -o {bad}/run", "ConfigError", ("data.source",)),
    Case("no target", "adapt -s {good}/source -o {bad}/run", "ConfigError", ("data.target",)),
    Case("resume with an output", "adapt --resume {good}/run -o {bad}/run", "ConfigError", ("--resume",)),
    Case("set without value", ADAPT + " --set rank.weight", "ConfigError", ("'rank.weight'",)),
    Case("set without key", ADAPT + " --set =3", "ConfigError", ("'=3'",)),
    Case("set of an unknown key", ADAPT + " --set rank.wieght=1", "ConfigError", ("'rank.weight'",)),
    Case("set below a value", ADAPT + " --set seed.low=1", "ConfigError", ("'low'", "1")),
    Case(
        "set of a number that is none",
        ADAPT + " --set train.network.lr=nan",
        "ConfigError",
        ("train.network.lr = nan",),
    ),
    Case("set of a share above one", ADAPT + " --set pretrain.lr=-2", "ConfigError", ("pretrain.lr = -2",)),
    Case("set of an empty batch", ADAPT + " --set train.batch_size=0", "ConfigError", ("train.batch_size = 0",)),
    Case("set nested too deep", ADAPT + " --set seed=" + "[" * 5000, "ConfigError", ("--set",)),
    Case("prior of an unknown kind", ADAPT + " --set prior.kind=even", "ConfigError", ("'even'", "prior.kind")),
    Case("prior to be given that is not", ADAPT + " --set prior.kind=given", "ConfigError", ("'flat'", "prior.start")),
    Case(
        "prior of too few classes",
        ADAPT + " --set prior.kind=given --set prior.start=[1.0]",
        "ConfigError",
        ("'flat'",),
    ),
    Case("prior that never fades in", ADAPT + " --set prior.warmup=1", "ConfigError", ("prior.warmup = 1",)),
    Case("prior smoothed to a standstill", ADAPT + " --set prior.smoothing=1", "ConfigError", ("prior.smoothing = 1",)),
    Case(
        "information of negative weight",
        ADAPT + " --set information.weight=-1",
        "ConfigError",
        ("information.weight = -1",),
    ),
    Case("average that never moves", ADAPT + " --set average.decay=1", "ConfigError", ("average.decay = 1",)),
    Case(
        "consistency of an unknown kind",
        ADAPT + " --set consistency.kind=l1",
        "ConfigError",
        ("'l1'", "consistency.kind"),
    ),
    Case("no classifier steps", ADAPT + " --set discrepancy.steps=0", "ConfigError", ("discrepancy.steps = 0",)),
    Case("augmentation beyond reason", ADAPT + " --set augment.scale=1", "ConfigError", ("augment.scale = 1",)),
    Case("unknown recipe", ADAPT + " --recipe minus", "ConfigError", ("'minus'",)),
    Case("plus behind no method", ADAPT + " --method rtp+", "ConfigError", ("'rtp+'",)),
    Case("layers that match nothing", ADAPT + " --set 'transform.include=[\"conv9\"]'", "ModelError", ("'conv9'",)),
    Case("layers option that matches nothing", ADAPT + " --layers conv1,cnov2", "ModelError", ("'cnov2'",)),
    Case("frozen stages that match nothing", ADAPT + " --freeze cnov1", "ModelError", ("'cnov1'", "freeze")),
    Case("nothing left that is not frozen", ADAPT + " --freeze '*'", "ModelError", ("'*'",)),
    Case(
        "batch in parts that are not equal",
        ADAPT + " --set train.accumulate=3",
        "ConfigError",
        ("train.accumulate = 3",),
    ),
    Case(
        "bottleneck beyond memory",
        ADAPT + " --set model.bottleneck=900000000000",
        "ConfigError",
        ("model.bottleneck = 900000000000",),
    ),
    Case("prediction format", PREDICT + " --format xml", "ConfigError", ("--format",)),
    Case("batch of no images", PREDICT + " --batch-size 0", "usage", ("'--batch-size'",)),
    Case("prediction device", PREDICT + " --device tpu", "ConfigError", ("'tpu'",)),
    Case("export format", "export {good}/run --format tflite", "ConfigError", ("--format",)),
    Case("export suffix", "export {good}/run -f safetensors -o {bad}/x.onnx", "ConfigError", ("'.safetensors'",)),
    Case("demo in a full folder", "demo -o {good}/run", "ConfigError", ("{good}/run",)),
    Case("demo of a huge seed", "demo -o {bad}/demo --seed 99999999999999999999", "usage", ("'--seed'",)),
    Case("huge seed", ADAPT + " --set seed=-99999999999999999999", "ConfigError", ("seed = -9999",)),
    Case("seed of the transforms", ADAPT + " --set transform.seed=9", "ConfigError", ("transform.seed", "seed")),
)

TUNE = (
    "tune -s {good}/source -t {good}/target -o {bad}/out/study --steps 2 --trials 1 --set device=cpu "
    "--set pretrain.steps=2 --set train.batch_size=4"
)
WEIGHT = TUNE + " --search discrepancy.weight="

SEARCHES = (
    Case("nothing to search", TUNE, "ConfigError", ("--search",)),
    Case("no output", "tune -s {good}/source -t {good}/target --search seed=choice:1,2", "ConfigError", ("-o",)),
    Case(
        "no target",
        "tune -s {good}/source -o {bad}/study --search stream_weight=range:0..1",
        "ConfigError",
        ("data.target",),
    ),
    Case("no form", WEIGHT + "0.5", "ConfigError", ("log:LOW",)),
    Case("unknown key", TUNE + " --search discrepancy.wieght=log:1..2", "ConfigError", ("'discrepancy.weight'",)),
    Case("empty range", WEIGHT + "range:1..1", "ConfigError", ("'discrepancy.weight=range:1..1'",)),
    Case("range upside down", WEIGHT + "log:3..0.1", "ConfigError", ("'discrepancy.weight=log:3..0.1'",)),
    Case("log with zero", WEIGHT + "log:0..3", "ConfigError", ("0",)),
    Case("range of words", WEIGHT + "range:low..high", "ConfigError", ("'discrepancy.weight=range:low..high'",)),
    Case("range of a word", TUNE + " --search method=range:1..2", "ConfigError", ("'method=range:1..2'",)),
    Case("choice of another type", WEIGHT + "choice:1,much", "ConfigError", ("'much'", "discrepancy.weight")),
    Case("choice of one", WEIGHT + "choice:1", "ConfigError", ("'discrepancy.weight=choice:1'",)),
    Case(
        "fractions of a whole number",
        TUNE + " --search transform.left_rank=range:0.5..8",
        "ConfigError",
        ("'transform.left_rank=range:0.5..8'",),
    ),
    Case(
        "twice",
        WEIGHT + "range:0..1 --search discrepancy.weight=range:0..2",
        "ConfigError",
        ("'discrepancy.weight=range:0..2'",),
    ),
    Case(
        "labels",
        TUNE + " --search stream_weight=range:0..1 --set data.evaluate={good}/scored",
        "ConfigError",
        ("data.evaluate",),
    ),
    Case(
        "search over labels",
        TUNE + " --search data.evaluate=choice:a,b",
        "ConfigError",
        ("'data.evaluate=choice:a,b'",),
    ),
    Case("unknown score", WEIGHT + "range:0..1 --score accuracy", "ConfigError", ("'accuracy'", "--score")),
    Case("no trials", WEIGHT + "range:0..1 --trials 0", "usage", ("'--trials'",)),
    Case("unknown engine", WEIGHT + "range:0..1 --engine dask", "ConfigError", ("'dask'", "--engine")),
    Case("output in use", WEIGHT + "range:0..1 -o {good}/run", "ConfigError", ("{good}/run",)),
    Case("resume of no study", "tune --resume {good}/run", "ConfigError", ("{good}/run",)),
    Case("resume with a search", "tune --resume {good}/run --search seed=choice:1,2", "ConfigError", ("--resume",)),
    Case(
        "resume of a broken study",
        "tune --resume {bad}/study",
        "ConfigError",
        ("'serch'",),
        write("study/study.toml", 'serch = ["a"]\n'),
    ),
    Case(
        "resume of a study that names code",
        "tune --resume {bad}/study",
        "ModelError",
        ("'evil:make'",),
        write("study/study.toml", 'search = ["seed=choice:1,2"]\n[config.model]\nspec = "evil:make"\n'),
    ),
)

CONFIGURATIONS = (
    Case("no such file", CONFIG, "ConfigError", ("{bad}/c.toml",)),
    Case("a folder", CONFIG, "ConfigError", ("{bad}/c.toml",), _folder),
    Case("broken TOML", CONFIG, "ConfigError", ("{bad}/c.toml",), write("c.toml", "seed = = 3\n")),
    Case("a key twice", CONFIG, "ConfigError", ("{bad}/c.toml",), write("c.toml", "seed = 1\nseed = 2\n")),
    Case("not UTF-8", CONFIG, "ConfigError", ("{bad}/c.toml",), write("c.toml", b"seed = 1 # \xff\xfe\n")),
    Case("nested too deep", CONFIG, "ConfigError", ("{bad}/c.toml",), write("c.toml", "seed = " + "[" * 100_000)),
    Case("unknown key", CONFIG, "ConfigError", ("'train.step'",), write("c.toml", "[train]\nstep = 4\n")),
    Case("a number for a group", CONFIG, "ConfigError", ("3",), write("c.toml", "rank = 3\n")),
    Case(
        "a text for a number",
        CONFIG,
        "ConfigError",
        ("'much'", "rank.weight"),
        write("c.toml", '[rank]\nweight = "much"\n'),
    ),
    Case("NUL in a path", CONFIG, "DataError", ("'a\u0000b'",), write("c.toml", '[data]\nevaluate = "a\\u0000b"\n')),
    Case(
        "code as its network", CONFIG, "ModelError", ("'evil:make'",), write("c.toml", '[model]\nspec = "evil:make"\n')
    ),
    Case("shown settings", "config --config {bad}/c.toml", "ConfigError", ("'sed'",), write("c.toml", "sed = 1\n")),
)
