from __future__ import annotations

import json
from pathlib import Path

import torch

from residapt.demo import DemoConfig, demo_data, run_demo
from support.cli import invoke

SMALL = DemoConfig(source_images=256, source_steps=3, steps=4)


def test_the_scored_half_is_not_in_training():
    data = demo_data(SMALL, seed=3)
    train = {image.numpy().tobytes() for image in data.pair.target.images}
    scored = [image.numpy().tobytes() for image in data.held_out.data.images.images]
    # scikit-learn's digits hold a few exact copies of one image; apart from those the halves are disjoint.
    assert sum(image in train for image in scored) <= 3
    assert len(train) + len(scored) >= 1790
    assert data.held_out.protocol == "held-out"


def test_every_method_starts_from_the_same_source_network_and_reports_its_ranks():
    results = run_demo(("dann_flip", "rpt"), seed=0, config=SMALL)
    assert [result.method for result in results] == ["source_only", "dann_flip", "rpt"]
    assert results[2].ranks_before["conv1"] == (32, 32)
    assert results[1].added == 0
    assert results[2].added == 158_152


def test_the_demo_is_reproducible():
    torch.set_num_threads(1)
    first, second = (run_demo(("rpt",), seed=1, config=SMALL) for _ in range(2))
    assert [result.accuracy for result in first] == [result.accuracy for result in second]


def test_the_command_writes_its_run_directory_and_refuses_to_overwrite_it(tmp_path: Path, monkeypatch):
    import residapt.demo

    whole = residapt.demo.run_demo
    monkeypatch.setattr(residapt.demo, "run_demo", lambda *a, **k: whole(*a, **{**k, "config": SMALL}))
    out = tmp_path / "run"
    code, text = invoke("demo", "-o", str(out), "--methods", "rpt")
    assert code == 0, text
    assert "conv1" in text
    assert "accuracy" in text
    assert [json.loads(line)["method"] for line in (out / "results.jsonl").read_text().splitlines()] == [
        "source_only",
        "rpt",
    ]
    before = (out / "results.jsonl").read_text()
    code, text = invoke("demo", "-o", str(out))
    assert code == 2
    assert "exists already" in text
    assert (out / "results.jsonl").read_text() == before
