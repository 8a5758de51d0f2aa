"""Bad arguments and configurations."""

from __future__ import annotations

from pathlib import Path

from support.bad_case import ADAPT, Case, write

PREDICT = "predict {good}/run {good}/target"
CONFIG = ADAPT + " --config {bad}/c.toml"


def _folder(bad: Path, good: Path) -> None:
    (bad / "c.toml").mkdir()


ARGUMENTS = (
    Case("unknown command", "adpat", "No such command 'adpat'"),
    Case("unknown option", "adapt --sorce x", "No such option: --sorce"),
    Case("option without value", "adapt -s", "requires an argument"),
    Case("missing argument", "predict {good}/run", "Missing argument"),
    Case("argument too many", "inspect {good}/run again", "unexpected extra argument"),
    Case("steps not a number", ADAPT + " --steps many", "Invalid value for '--steps'"),
    Case("steps negative", ADAPT + " --steps -5", "train.steps = -5 cannot be used"),
    Case("seed not whole", ADAPT + " --seed 1.5", "Invalid value for '--seed'"),
    Case("seed beyond 64 bits", ADAPT + " --seed 99999999999999999999999", "seed = 99999999999999999999999"),
    Case("image size zero", ADAPT + " --image-size 0", "data.image_size = 0 cannot be used"),
    Case("image size too small for the network", ADAPT + " --image-size 9", "image_size=9 is too small"),
    Case("image size beyond reason", ADAPT + " --image-size 2000000", "data.image_size = 2000000 cannot be used"),
    Case("image size beyond memory", ADAPT + " --image-size 20000", "image_size=20000 takes"),
    Case("unknown method", ADAPT + " --method rtp", "no method 'rtp'. Did you mean 'rpt'"),
    Case("method that needs more data", ADAPT + " --method target_only", "needs"),
    Case("unknown score", ADAPT + " --select luck", "--select 'luck' is no score"),
    Case("unknown device", ADAPT + " --device tpu", "device = 'tpu' cannot be used"),
    Case("no output", "adapt -s {good}/source -t {good}/target", "no output is given"),
    Case("no source", "adapt -t {good}/target -o {bad}/run", "no source is given"),
    Case("no target", "adapt -s {good}/source -o {bad}/run", "no target is given"),
    Case("resume with an output", "adapt --resume {good}/run -o {bad}/run", "leave out -o"),
    Case("set without value", ADAPT + " --set rank.weight", "write it as key=value"),
    Case("set without key", ADAPT + " --set =3", "write it as key=value"),
    Case("set of an unknown key", ADAPT + " --set rank.wieght=1", "Did you mean 'rank.weight'"),
    Case("set below a value", ADAPT + " --set seed.low=1", "seed = {'low': 1} cannot be used"),
    Case("set of a number that is none", ADAPT + " --set train.network.lr=nan", "train.network.lr = nan"),
    Case("set of a share above one", ADAPT + " --set data.holdout=2", "data.holdout = 2 cannot be used"),
    Case("set of an empty batch", ADAPT + " --set train.batch_size=0", "train.batch_size = 0 cannot be used"),
    Case("set nested too deep", ADAPT + " --set seed=" + "[" * 5000, "nested too deep"),
    Case("prior of an unknown kind", ADAPT + " --set prior.kind=even", "prior.kind = 'even' cannot be used"),
    Case("prior to be given that is not", ADAPT + " --set prior.kind=given", "from prior.start, which is 'flat'"),
    Case("prior of too few classes", ADAPT + " --set prior.kind=given --set prior.start=[1.0]", "one frequency above"),
    Case("prior that never fades in", ADAPT + " --set prior.warmup=1", "prior.warmup = 1 cannot be used"),
    Case("prior smoothed to a standstill", ADAPT + " --set prior.smoothing=1", "prior.smoothing = 1 cannot be used"),
    Case("prior with a floor above flat", ADAPT + " --set prior.floor=2", "prior.floor = 2 cannot be used"),
    Case("information of negative weight", ADAPT + " --set information.weight=-1", "information.weight = -1 cannot"),
    Case("average that never moves", ADAPT + " --set average.decay=1", "average.decay = 1 cannot be used"),
    Case("consistency of an unknown kind", ADAPT + " --set consistency.kind=l1", "consistency.kind = 'l1' cannot"),
    Case(
        "pseudo-labels of no layer",
        ADAPT + " --set pseudo.weight=1 --set pseudo.layer=full9",
        "layer 'full9' is not a module",
    ),
    Case("no classifier steps", ADAPT + " --set discrepancy.steps=0", "discrepancy.steps = 0 cannot be used"),
    Case("augmentation beyond reason", ADAPT + " --set augment.scale=1", "augment.scale = 1 cannot be used"),
    Case("unknown recipe", ADAPT + " --recipe minus", "recipe = 'minus' cannot be used"),
    Case("plus behind no method", ADAPT + " --method rtp+", "no method 'rtp'"),
    Case("bench of odd class counts", "bench mnist-usps --data {good} --counts few", "--counts 'few'"),
    Case("bench of an unknown recipe", "bench mnist-usps --data {good} --recipe minus", "--recipe 'minus'"),
    Case("layers that match nothing", ADAPT + " --set 'transform.include=[\"conv9\"]'", "'conv9' matches none"),
    Case("layers option that matches nothing", ADAPT + " --layers conv1,cnov2", "'cnov2' matches none"),
    Case("frozen stages that match nothing", ADAPT + " --freeze cnov1", "transform.freeze: the pattern 'cnov1'"),
    Case("nothing left that is not frozen", ADAPT + " --freeze '*'", "leave no layer"),
    Case("batch in parts that are not equal", ADAPT + " --set train.accumulate=3", "train.accumulate = 3 does not"),
    Case("bench of an unknown pair", "bench office31 --data {good} --pairs a-x", "no pair 'a-x' in Office-31"),
    Case("bench of no pairs", "bench office31 --data {good} --pairs ,", "--pairs ','"),
    Case("bench without its data", "bench office31 --data {good} -o {bad}/r.jsonl", "no folder 'office31'"),
    Case("bench network of an unknown key", "bench office31 --set network.size=3", "no setting 'size'"),
    Case(
        "bottleneck beyond memory",
        ADAPT + " --set model.bottleneck=900000000000",
        "model.bottleneck = 900000000000 cannot",
    ),
    Case("prediction format", PREDICT + " --format xml", "--format must be csv or jsonl"),
    Case("batch of no images", PREDICT + " --batch-size 0", "Invalid value for '--batch-size'"),
    Case("prediction device", PREDICT + " --device tpu", "tpu"),
    Case("export format", "export {good}/run --format tflite", "--format must be one of"),
    Case("export suffix", "export {good}/run -f safetensors -o {bad}/x.onnx", "should end in '.safetensors'"),
    Case("demo method", "demo -o {bad}/demo --methods rtp", "no method 'rtp'"),
    Case("demo in a full folder", "demo -o {good}/run", "exists already"),
    Case("bench of an unknown task", "bench svhn-cifar", "No such command 'svhn-cifar'"),
    Case("bench without data", "bench mnist-usps --data {bad}/none -o {bad}/r.jsonl", "does not exist"),
    Case("bench of no seeds", "bench mnist-usps --seeds 0", "Invalid value for '--seeds'"),
    Case("bench of an unknown method", "bench mnist-usps --data {good} --methods rtp", "no method 'rtp'"),
    Case("bench that varies luck", "bench mnist-usps --data {good} --vary luck", "--vary 'luck'"),
    Case(
        "UAV-200 without its folders", "bench uav --data {good} -o {bad}/r.jsonl", "missing the folders train/synthetic"
    ),
    Case("stand-in without photographs", "bench drone-standin --data {good} --cache {bad}/c", "missing first/drone"),
    Case("labels that are no numbers", "bench uav --data {good} --labels 10,many", "--labels '10,many'"),
    Case("fine-tuning on nothing", "bench uav --data {good} --methods fine_tune --labels 0", "it is source_only"),
    Case("drone table of no file", "bench drone-table {bad}/none.jsonl", "there is no file"),
    Case("bench with an unknown engine", "bench mnist-usps --data {good} --engine slurm", "--engine 'slurm': use one"),
    Case("bench at an address without Ray", "bench mnist-usps --data {good} --address auto", "add --engine ray"),
    Case("bench of no jobs", "bench mnist-usps --data {good} --jobs 0", "Invalid value for '--jobs'"),
    Case(
        "bench of a huge seed", "bench mnist-usps --first-seed 99999999999999999999", "Invalid value for '--first-seed'"
    ),
    Case("demo of a huge seed", "demo -o {bad}/demo --seed 99999999999999999999", "Invalid value for '--seed'"),
    Case("huge seed of the transforms", ADAPT + " --set transform.seed=99999999999999999999", "transform.seed = 9999"),
    Case(
        "huge seed of the discrepancy", ADAPT + " --set discrepancy.seed=99999999999999999999", "discrepancy.seed = 9"
    ),
    Case("huge seed of the loop", ADAPT + " --set train.seed=-99999999999999999999", "train.seed = -9999"),
    Case("table of no file", "bench table {bad}/none.jsonl", "there is no file"),
    Case(
        "table of a broken file", "bench table {bad}/r.jsonl", "line 1 is not a record", write("r.jsonl", "{oops\n{}\n")
    ),
)

TUNE = (
    "tune -s {good}/source -t {good}/target -o {bad}/out/study --steps 2 --trials 1 --set device=cpu "
    "--set pretrain.steps=2 --set train.batch_size=4"
)
WEIGHT = TUNE + " --search discrepancy.weight="

SEARCHES = (
    Case("nothing to search", TUNE, "nothing to search over"),
    Case("no output", "tune -s {good}/source -t {good}/target --search seed=choice:1,2", "no output is given"),
    Case("no target", "tune -s {good}/source -o {bad}/study --search stream_weight=range:0..1", "no target is given"),
    Case("no form", WEIGHT + "0.5", "write it as KEY=log:LOW..HIGH"),
    Case("unknown key", TUNE + " --search discrepancy.wieght=log:1..2", "Did you mean 'discrepancy.weight'"),
    Case("empty range", WEIGHT + "range:1..1", "is empty"),
    Case("range upside down", WEIGHT + "log:3..0.1", "is empty"),
    Case("log with zero", WEIGHT + "log:0..3", "log needs a range above 0"),
    Case("range of words", WEIGHT + "range:low..high", "no range of two numbers"),
    Case("range of a word", TUNE + " --search method=range:1..2", "is not a number"),
    Case("choice of another type", WEIGHT + "choice:1,much", "discrepancy.weight = 'much' cannot be used"),
    Case("choice of one", WEIGHT + "choice:1", "nothing to choose from"),
    Case("fractions of a whole number", TUNE + " --search transform.left_rank=range:0.5..8", "is a whole number"),
    Case("twice", WEIGHT + "range:0..1 --search discrepancy.weight=range:0..2", "searched over already"),
    Case("labels", TUNE + " --search stream_weight=range:0..1 --set data.evaluate=x", "never uses labels"),
    Case("search over labels", TUNE + " --search data.evaluate=choice:a,b", "labels of the target are never used"),
    Case("unknown score", WEIGHT + "range:0..1 --score accuracy", "--score 'accuracy' is none"),
    Case("no trials", WEIGHT + "range:0..1 --trials 0", "Invalid value for '--trials'"),
    Case("unknown engine", WEIGHT + "range:0..1 --engine dask", "--engine 'dask'"),
    Case("output in use", WEIGHT + "range:0..1 -o {good}/run", "exists already"),
    Case("resume of no study", "tune --resume {good}/run", "is not a study"),
    Case("resume with a search", "tune --resume {good}/run --search seed=choice:1,2", "study's own data"),
    Case(
        "resume of a broken study",
        "tune --resume {bad}/study",
        "no setting 'serch'",
        write("study/study.toml", 'serch = ["a"]\n'),
    ),
    Case(
        "resume of a study that names code",
        "tune --resume {bad}/study",
        "the study names code as its network, 'evil:make'",
        write("study/study.toml", 'search = ["seed=choice:1,2"]\n[config.model]\nspec = "evil:make"\n'),
    ),
)

CONFIGURATIONS = (
    Case("no such file", CONFIG, "does not exist"),
    Case("a folder", CONFIG, "cannot be read as TOML", _folder),
    Case("broken TOML", CONFIG, "cannot be read as TOML", write("c.toml", "seed = = 3\n")),
    Case("a key twice", CONFIG, "cannot be read as TOML", write("c.toml", "seed = 1\nseed = 2\n")),
    Case("not UTF-8", CONFIG, "cannot be read as TOML", write("c.toml", b"seed = 1 # \xff\xfe\n")),
    Case("nested too deep", CONFIG, "cannot be read as TOML", write("c.toml", "seed = " + "[" * 100_000)),
    Case("unknown key", CONFIG, "no setting 'train.step'. Did you mean", write("c.toml", "[train]\nstep = 4\n")),
    Case("a number for a group", CONFIG, "rank = 3 cannot be used", write("c.toml", "rank = 3\n")),
    Case("a text for a number", CONFIG, "rank.weight = 'much'", write("c.toml", '[rank]\nweight = "much"\n')),
    Case("NUL in a path", CONFIG, "does not exist", write("c.toml", '[data]\nevaluate = "a\\u0000b"\n')),
    Case("code as its network", CONFIG, "names code as its network", write("c.toml", '[model]\nspec = "evil:make"\n')),
    Case("shown settings", "config --config {bad}/c.toml", "no setting 'sed'", write("c.toml", "sed = 1\n")),
)
