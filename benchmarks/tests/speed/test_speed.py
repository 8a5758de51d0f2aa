from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from torch import nn

from residapt.errors import ConfigError
from residapt.losses.adversarial import DomainClassifier
from residapt.models import LeNet
from residapt_bench.speed import steps as speed
from residapt_bench.speed.cases import CASES, STEPS, SpeedCase, find_case
from residapt_bench.speed.floor import LayerCount, count_layers, multiplications, step_floor
from residapt_bench.speed.memory import peak_memory
from residapt_bench.speed.steps import SpeedRecord, interleave, measure_speed, run_speed, speed_table


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def normed() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, bias=False), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten(), nn.Linear(216, 80), nn.Linear(80, 4)
    )


LENET = SpeedCase("tiny", lambda: LeNet(image_size=16), (1, 16, 16), 2, 10, threads=1, rounds=1.0, aim=1.15)
NORMED = replace(LENET, name="normed", build=normed, shape=(1, 8, 8), classes=4, times_prox=True)


def floor_of(case: SpeedCase) -> float:
    layers = count_layers(case.network(), case.batch().source)
    classifier = count_layers(DomainClassifier(case.classes), torch.zeros(case.size, case.classes))
    return step_floor(layers, classifier, left=32, right=32)


@pytest.mark.parametrize("case", [LENET, NORMED, CASES["lenet"]], ids=lambda case: case.name)
def test_a_step_executes_hardly_more_multiplications_than_the_floor(case: SpeedCase) -> None:
    """Independent of the machine's load: a product that is computed twice, or too dense, shows here."""
    executed = {name: multiplications(build(case)) for name, build in STEPS.items()}
    layers = count_layers(case.network(), case.batch().source)
    classifier = count_layers(DomainClassifier(case.classes), torch.zeros(case.size, case.classes))
    adversary = 2 * sum(layer.multiplications * (5 - layer.is_first) for layer in classifier)
    assert executed["dann"] == 2 * sum(layer.step for layer in layers) + adversary
    assert floor_of(case) <= executed["rpt"] / executed["dann"] * (1 + 1e-9)
    extra = executed["rpt"] - executed["dann"]
    assert extra <= 1.06 * (floor_of(case) - 1) * executed["dann"]


def test_the_floors_of_the_small_networks_are_those_of_the_counts() -> None:
    assert floor_of(CASES["lenet"]) == pytest.approx(1.064, abs=1e-3)


def test_a_convolution_and_a_linear_layer_are_counted() -> None:
    conv, linear = count_layers(
        nn.Sequential(nn.Conv2d(3, 5, 2), nn.Flatten(), nn.Linear(20, 7)), torch.zeros(4, 3, 3, 3)
    )
    assert (conv.outputs, conv.columns, conv.rows, conv.is_first) == (5, 12, None, True)
    assert conv.multiplications == 4 * 5 * 2 * 2 * 12
    assert conv.step == 2 * conv.multiplications
    assert (linear.outputs, linear.columns, linear.rows, linear.is_first) == (7, 20, 4, False)
    assert linear.step == 3 * 4 * 7 * 20


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 9), st.integers(0, 8), st.integers(0, 8))
def test_a_transform_is_never_cheaper_with_more_rank(
    outputs: int, columns: int, rows: int, left: int, right: int
) -> None:
    layer = LayerCount(outputs, columns, rows * outputs * columns, rows, is_first=False)
    assert layer.transform(left, right) <= layer.transform(left + 1, right + 1)
    assert layer.transform(0, 0) == 0
    assert layer.transform(left, right) <= replace(layer, rows=None).transform(left, right) + 3 * left * right * outputs


def test_variants_take_turns_and_preparing_is_not_timed() -> None:
    calls: list[str] = []

    def variant(name: str) -> speed.Prepared:
        def prepare() -> speed.Step:
            calls.append(f"prepare {name}")
            return lambda: calls.append(name)

        return prepare

    timings = interleave({"a": variant("a"), "b": variant("b")}, 3, warmup=1)
    done = [call for call in calls if "prepare" not in call]
    assert done == ["a", "b", "b", "a", "a", "b", "b", "a"]
    assert calls[::2] == [f"prepare {name}" for name in done]
    assert {len(timing.wall) for timing in timings.values()} == {3}
    assert {len(timing.processor) for timing in timings.values()} == {3}


def test_records_of_one_case() -> None:
    records = measure_speed(NORMED, rounds=3, memory=False)
    assert [(r.measure, r.variant, r.baseline) for r in records] == [
        ("step", "rpt", "dann"),
        ("inference", "merged", "plain"),
        ("prox", "prox two-step", "rpt"),
        ("prox", "prox exact", "rpt"),
    ]
    for record in records:
        assert record.ratio == pytest.approx(record.seconds[record.variant] / record.seconds[record.baseline])
        assert min(record.seconds.values()) > 0
    assert records[0].rounds == 3
    assert records[0].floor is not None
    assert records[0].executed is not None
    assert 1 < records[0].floor <= records[0].executed * (1 + 1e-9)
    assert [record.aim for record in records] == [1.15, None, 0.1, 0.3]


def test_records_are_appended_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {"rpt": 3.0, "dann": 2.0}
    record = SpeedRecord(
        case="tiny",
        measure="step",
        variant="rpt",
        baseline="dann",
        seconds=seconds,
        processor_seconds=seconds,
        ratio=1.5,
        processor_ratio=1.5,
        aim=1.15,
        floor=1.1,
        executed=1.1,
        rounds=3,
        threads=1,
        memory={"rpt": 3 << 20, "dann": 2 << 20},
    )
    monkeypatch.setattr(speed, "measure_speed", lambda case, rounds: [record.model_copy(update={"case": case.name})])
    out = tmp_path / "results" / "speed.jsonl"
    for _ in range(2):
        records = run_speed(("lenet", "svhnet"), 3, out)
    lines = [SpeedRecord.model_validate_json(line) for line in out.read_text().splitlines()]
    assert lines == records * 2
    console = Console(width=120, record=True)
    console.print(speed_table(records))
    text = console.export_text()
    for expected in ("lenet", "svhnet", "rpt / dann", "1.500", "3000.0 / 2000.0", "peak memory", "3 / 2"):
        assert expected in text


def test_an_unknown_case_is_named_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'alexnet'.*lenet, svhnet, resnet50"):
        run_speed(("lenet", "alexnet"), 3, tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()
    assert find_case("resnet50").size == 8


@pytest.mark.slow
def test_peak_memory_is_of_the_order_of_parameters_and_activations() -> None:
    """LeNet's first maps alone are 128 x 20 x 24 x 24 floats, and training keeps a handful of such tensors."""
    maps = 128 * 20 * 24 * 24 * 4
    assert maps < peak_memory("lenet", "dann") < 200 * maps
