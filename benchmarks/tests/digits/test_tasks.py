from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from residapt.errors import ConfigError
from residapt.models.input_spec import InputSpec
from residapt.train import TrainConfig
from residapt_bench.digits.execute import execute
from residapt_bench.digits.plan import Plan, SourceRecipe
from residapt_bench.digits.tasks import Scale, load_task

needs_data = pytest.mark.skipif(not os.environ.get("RESIDAPT_DATA"), reason="RESIDAPT_DATA is not set")


def test_scale_is_the_networks_normalisation():
    spec = InputSpec(size=8, channels=3, mean=(0.5, 0.4, 0.3), std=(0.5, 0.25, 0.2))
    images = torch.randint(0, 256, (2, 3, 8, 8), dtype=torch.uint8)
    got = Scale(spec.mean, spec.std)(images, torch.Generator())
    for channel in range(3):
        want = (images[:, channel].double() / 255 - spec.mean[channel]) / spec.std[channel]
        assert torch.allclose(got[:, channel].double(), want, atol=1e-5)


def test_unknown_task_is_refused_with_the_list(tmp_path: Path):
    with pytest.raises(ConfigError, match="svhn-mnist"):
        load_task("svhn-minst", "lenet", tmp_path)


@pytest.mark.data
@needs_data
def test_a_small_run_on_real_digits_gives_a_whole_record(tmp_path: Path):
    plan = Plan(
        task="usps-mnist",
        arch="lenet",
        method="rpt",
        seed=0,
        source=SourceRecipe(steps=30, batch_size=32),
        train=TrainConfig(steps=4, batch_size=16, evaluate_every=2),
    )
    record = execute(plan, root=Path(os.environ["RESIDAPT_DATA"]), cache=tmp_path)
    assert record["key"] == plan.key()
    assert set(record["accuracy"]) == {"target_test", "target_train", "source_test"}
    assert record["protocols"]["target_train"] == "transductive"
    assert [point["step"] for point in record["curve"]] == [2, 4]
    assert record["ranks"]["before"]["conv1"] == (32, 32)
    before = record["parameters"]["before"]
    assert before["network"] == before["deployed"] == 431_080
    assert before["transform"] == 158_152
    assert len(list(tmp_path.iterdir())) == 1
