from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from bench_support.small_digits import small_digits, small_plans
from residapt.errors import ConfigError
from residapt.models import LeNet
from residapt.models.input_spec import InputSpec
from residapt.train import TrainConfig
from residapt_bench.digits.experiment import DigitExperiment, Scale
from residapt_bench.experiment import execute
from residapt_bench.plan import Plan, SourceTraining
from residapt_bench.source_networks import network_hash

needs_data = pytest.mark.skipif(not os.environ.get("RESIDAPT_DATA"), reason="RESIDAPT_DATA is not set")


def test_scale_is_the_networks_normalisation():
    spec = InputSpec(size=8, channels=3, mean=(0.5, 0.4, 0.3), std=(0.5, 0.25, 0.2))
    images = torch.randint(0, 256, (2, 3, 8, 8), dtype=torch.uint8)
    got = Scale(spec.mean, spec.std)(images, torch.Generator())
    for channel in range(3):
        want = (images[:, channel].double() / 255 - spec.mean[channel]) / spec.std[channel]
        assert torch.allclose(got[:, channel].double(), want, atol=1e-5)


def test_unknown_task_is_refused_with_the_list() -> None:
    with pytest.raises(ConfigError, match=r"svhn-minst.*svhn-mnist"):
        DigitExperiment().defaults("svhn-minst", "rpt", "common", {})


def test_precision_is_a_setting_of_the_run_and_reaches_the_network(tmp_path: Path) -> None:
    root, cache = small_digits(tmp_path), tmp_path / "cache"
    single = small_plans(1, steps=3, methods=("rpt",))[0]
    half = single.model_copy(update={"precision": "bf16"})
    assert half.key() != single.key()
    scores = [execute(one, root=root, cache=cache).label_free["infomax"][1] for one in (single, half)]
    assert scores[0] != scores[1]
    assert scores[0] == pytest.approx(scores[1], rel=0.05)
    assert len(list(cache.glob("*.safetensors"))) == 2, "each precision has a source network of its own"


def test_a_record_says_which_source_network_it_started_from(tmp_path: Path) -> None:
    root, cache = small_digits(tmp_path), tmp_path / "cache"
    first, second = (execute(plan, root=root, cache=cache) for plan in small_plans(1, methods=("source_only", "dann")))
    assert first.source_sha256 == second.source_sha256 is not None
    (file,) = cache.glob("*.safetensors")
    assert first.source_sha256 == network_hash(_filled(file))
    other = execute(small_plans(2, methods=("source_only",))[1], root=root, cache=cache)
    assert other.source_sha256 != first.source_sha256


def _filled(file: Path) -> nn.Module:
    network = LeNet()
    network.load_state_dict(load_file(file))
    return network


@pytest.mark.data
@needs_data
def test_a_small_run_on_real_digits_gives_a_whole_record(tmp_path: Path):
    plan = Plan(
        task="mnist-usps",
        arch="lenet",
        method="rpt",
        seed=0,
        source=SourceTraining(steps=30, batch_size=32),
        train=TrainConfig(steps=4, batch_size=16, evaluate_every=2),
    )
    record = execute(plan, root=Path(os.environ["RESIDAPT_DATA"]), cache=tmp_path)
    assert record.key == plan.key()
    assert set(record.scores) == {"target_test", "target_train", "source_test"}
    assert record.scores["target_train"].protocol == "transductive"
    assert [point["step"] for point in record.curve] == [2, 4]
    assert record.ranks.before["conv1"] == (32, 32)
    before = record.parameters.before
    assert before["network"] == before["deployed"] == 431_080
    assert before["transform"] == 158_152
    assert len(list(tmp_path.glob("*.safetensors"))) == 1
