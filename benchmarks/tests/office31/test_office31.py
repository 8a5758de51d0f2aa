from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from residapt_bench.office31.execute import execute_office, run_office
from residapt_bench.office31.plans import (
    DOMAINS,
    METHODS,
    PAIRS,
    OfficeNetwork,
    OfficePlan,
    OfficeSource,
    office_plans,
)
from residapt_bench.resumable import pending
from torch.nn import functional

from residapt.errors import ConfigError, DataError, ModelError
from residapt.models.input_spec import IMAGENET
from residapt_bench.office31 import execute as office31_run
from residapt_bench.office31.images import CachedViews, load_domain
from residapt_bench.office31.network import PadFirst, frozen_stages, trained_part
from residapt_bench.office31.page import office_page
from residapt_bench.office31.published import PUBLISHED_OFFICE
from residapt_bench.office31.table import office_markdown, office_rows

NETWORK = OfficeNetwork(
    arch="bench_support.tiny_office:Tiny", weights=None, image_size=32, freeze="stem", views=4, bottleneck=6
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """31 classes with two images each, in each domain."""
    place = tmp_path_factory.mktemp("data")
    generator = torch.Generator().manual_seed(0)
    for domain in DOMAINS.values():
        for label in range(31):
            folder = place / "office31" / domain / "images" / f"class{label:02}"
            folder.mkdir(parents=True)
            for number in range(2):
                pixels = torch.randint(0, 256, (40, 40, 3), generator=generator, dtype=torch.uint8)
                Image.fromarray(pixels.numpy()).save(folder / f"{number}.png")
    return place


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def plans(
    *methods: str,
    pairs: tuple[str, ...] = ("a-w",),
    seeds: range = range(1),
    changes: tuple[str, ...] = (),
    **more: Any,
) -> list[OfficePlan]:
    short = ["train.steps=3", "train.batch_size=4", "train.evaluate_every=2"]
    short += ["rank.start=0", "rank.every=1", "rank.step=0.3"]
    source = OfficeSource(steps=2, batch_size=4)
    return office_plans(pairs, methods, seeds, network=NETWORK, source=source, changes=[*short, *changes], **more)


def test_activations_are_those_of_the_frozen_stages(root: Path, cache: Path) -> None:
    """The unaugmented ones against a pass of the stages on the decoded images, up to half precision."""
    domain = load_domain("amazon", NETWORK, root, cache)
    assert domain.views.shape == (4, 62, *domain.plain.shape[1:])
    assert domain.views.dtype == torch.float16
    assert len({domain.views[view].float().sum().item() for view in range(4)}) == 4, "every view is another one"
    file = root / "office31" / "amazon" / "images" / "class03" / "1.png"
    pixels = torch.from_numpy(np.asarray(Image.open(file)).copy()).movedim(-1, 0).float() / 255
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (IMAGENET.mean, IMAGENET.std))
    image = functional.interpolate(((pixels - mean) / std)[None], (32, 32), mode="bilinear", antialias=True)
    torch.testing.assert_close(domain.plain[7].float(), frozen_stages(NETWORK, root)(image)[0], rtol=1e-2, atol=1e-2)
    assert torch.equal(domain.labels, torch.arange(31).repeat_interleave(2))


def test_activations_are_computed_once(root: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load_domain("webcam", NETWORK, root, cache)
    load_domain.cache_clear()
    monkeypatch.setattr("residapt_bench.office31.images.frozen_stages", lambda *_: pytest.fail("computed again"))
    again = load_domain("webcam", NETWORK, root, cache)
    assert torch.equal(first.views, again.views)
    load_domain("webcam", NETWORK.model_copy(update={"bottleneck": 9}), root, cache)
    with pytest.raises(pytest.fail.Exception, match="computed again"):
        load_domain("webcam", NETWORK.model_copy(update={"views": 5}), root, cache)


def test_a_batch_takes_views_at_random_but_reproducibly() -> None:
    views = torch.arange(12.0).view(4, 3, 1)
    images, index = CachedViews(views), torch.tensor([2, 0, 2, 2, 2, 2])
    first = images.fetch(index, torch.Generator().manual_seed(3))
    assert torch.equal(first, images.fetch(index, torch.Generator().manual_seed(3)))
    assert len(images) == 3
    assert set((first.flatten().long() % 3).tolist()) == {0, 2}
    assert len(set(first[index == 2].flatten().tolist())) > 1


def test_padding_first_changes_nothing(root: Path) -> None:
    rest = trained_part(NETWORK, root, 0).double().eval()
    assert isinstance(rest.block[0], PadFirst)
    x = torch.randn(2, 4, 4, 4, dtype=torch.float64, requires_grad=True)
    conv = rest.block[0]
    plain = functional.conv2d(x, conv.weight, conv.bias, padding=2, groups=4)
    torch.testing.assert_close(conv(x), plain)
    one = torch.autograd.grad(conv(x).square().sum(), conv.weight)[0]
    torch.testing.assert_close(one, torch.autograd.grad(plain.square().sum(), conv.weight)[0])


def test_runs_of_one_seed_share_the_warm_start_and_records_say_what_was_done(root: Path, cache: Path) -> None:
    records = [execute_office(plan, root=root, cache=cache) for plan in plans(*METHODS)]
    assert len(list(cache.glob("office31-amazon-source-*.safetensors"))) == 1
    for record in records:
        assert record["protocols"] == {"target": "transductive", "source": "transductive"}
        averaged = record["plan"]["method"] != "source_only"
        assert record["selection"] == ("average at the end" if averaged else "last iterate")
        assert set(record["data"]) == {"amazon", "webcam"}
        json.dumps(record)
    source_only, dann, fixed, rpt = records
    assert source_only["curve"][-1]["step"] == 0
    assert [point["step"] for point in dann["curve"]] == [2, 3]
    assert set(fixed["ranks"]["before"]) == {"block.0", "classifier.bottleneck"}
    assert fixed["ranks"]["after"] == fixed["ranks"]["before"]
    assert rpt["ranks"]["after"] != rpt["ranks"]["before"]


def test_a_run_is_the_same_when_it_is_repeated(root: Path, cache: Path) -> None:
    plan = plans("rpt")[0]
    first, second = (execute_office(plan, root=root, cache=cache) for _ in range(2))
    assert first["label_free"] == second["label_free"]
    assert first["accuracy"] == second["accuracy"]


def test_what_has_a_record_is_not_run_again(root: Path, cache: Path, tmp_path: Path) -> None:
    out = tmp_path / "office31.jsonl"
    chosen = plans("source_only", "dann_flip")
    run_office(chosen[:1], out=out, root=root, cache=cache)
    assert pending(chosen, out) == chosen[1:]
    seen: list[str] = []
    run_office(chosen, out=out, root=root, cache=cache, on_record=lambda r: seen.append(r["plan"]["method"]))
    assert seen == ["dann_flip"]
    assert pending(chosen, out) == []
    assert len(out.read_text().splitlines()) == 2


def test_source_only_is_one_run_whatever_the_loop_says() -> None:
    one = plans("source_only")[0]
    other = one.model_copy(update={"train": one.train.model_copy(update={"steps": 99})})
    assert one.key() == other.key()
    rpt = plans("rpt")[0]
    assert rpt.key() != rpt.model_copy(update={"train": rpt.train.model_copy(update={"steps": 99})}).key()
    assert rpt.key() == OfficePlan.model_validate_json(rpt.model_dump_json()).key()


def test_rank_selection_makes_another_run_of_rpt_only() -> None:
    for method, same in (("dann_flip", True), ("rpt_fixed", True), ("rpt", False)):
        one, other = (plans(method, changes=(f"rank.every={every}",))[0] for every in (75, 37))
        assert (one.key() == other.key()) is same, method


def test_seeds_come_outside_and_change_everything() -> None:
    found = plans("dann_flip", "rpt", pairs=("a-w", "d-a"), seeds=range(2))
    assert [(plan.seed, plan.task, plan.method) for plan in found[:3]] == [
        (0, "a-w", "dann_flip"), (0, "a-w", "rpt"), (0, "d-a", "dann_flip"),
    ]  # fmt: skip
    last = found[-1]
    assert last.source.seed == last.train.seed == last.settings.transform.seed == last.settings.discrepancy.seed == 1


def test_the_recipe_is_the_papers_deep_setting() -> None:
    plan = office_plans(["a-w"], ["rpt"], [0], network=OfficeNetwork(), source=OfficeSource())[0]
    assert plan.train.steps >= 1500
    assert plan.train.batch_size == 32
    assert plan.train.head == 10.0
    assert plan.network.views >= 4
    assert plan.settings.transform.norm == "per-domain"
    assert (plan.settings.discrepancy.hidden, plan.settings.discrepancy.dropout) == ((1024, 1024), 0.5)


def test_plus_is_the_recipe_of_beyond_on_views_of_the_images(root: Path, cache: Path) -> None:
    plan, paper = plans("rpt+", "rpt")
    assert (plan.method, plan.recipe, plan.network.standardise) == ("rpt", "plus", False)
    assert (paper.method, paper.recipe, paper.network.standardise) == ("rpt", "paper", False)
    assert plans("rpt+", changes=("model.standardise=true",))[0].network.standardise
    parts = plan.settings
    assert (parts.prior.kind, parts.information.weight, parts.discrepancy.end) == ("estimated", 1.0, 0.5)
    assert (parts.consistency.kind, parts.consistency.view) == ("fixmatch", "drawn")
    assert parts.discrepancy.hidden == paper.settings.discrepancy.hidden == (1024, 1024)
    assert plans("rpt+", changes=("information.weight=0.5",))[0].settings.information.weight == 0.5
    record = execute_office(plan, root=root, cache=cache)
    assert record["plan"]["recipe"] == "plus"
    rows = office_rows([record, execute_office(paper, root=root, cache=cache)], published=False)
    assert [row.method for row in rows] == ["rpt", "rpt+"]


def test_standardised_images_are_so_before_the_frozen_stages(root: Path) -> None:
    network = NETWORK.model_copy(update={"standardise": True})
    images = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    as_is, brighter = (frozen_stages(network, root)(x) for x in (images, 3 * images + 1))
    torch.testing.assert_close(as_is, brighter, rtol=1e-2, atol=5e-3)
    alone = (images - images.mean((1, 2, 3), keepdim=True)) / (
        images.std((1, 2, 3), unbiased=False, keepdim=True) + 1e-3
    )
    torch.testing.assert_close(as_is, frozen_stages(NETWORK, root)(alone), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: plans("rpt", pairs=("a-x",)), r"no pair 'a-x'.*a-w"),
        (lambda: plans("rtp"), r"no method 'rtp'.*Did you mean"),
    ],
)
def test_unknown_pairs_and_methods_are_named(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


def test_data_that_are_not_there_and_stages_that_do_not_exist(root: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no folder 'office31'"):
        run_office(plans("rpt"), out=tmp_path / "o.jsonl", root=tmp_path, cache=tmp_path)
    wrong = NETWORK.model_copy(update={"freeze": "stme"})
    with pytest.raises(ModelError, match=r"'stme'.*stem"):
        office31_run.load_domain("amazon", wrong, root, tmp_path)


def record(task: str, method: str, target: float, *, note: str = "", seed: int = 0) -> dict[str, Any]:
    plan = office_plans([task], [method], [seed], network=OfficeNetwork(), source=OfficeSource(), note=note)[0]
    ranks = {"blocks.6": [32, 32]} if method == "rpt" else {}
    return {
        "key": plan.key(),
        "bench": "office31",
        "plan": plan.model_dump(mode="json"),
        "accuracy": {"target": target, "source": 99.0},
        "curve": [{"step": 500, "target": target - 1}, {"step": 1500, "target": target}],
        "ranks": {"before": ranks, "after": {name: [4, 8] for name in ranks}},
    }


def test_the_mean_of_six_needs_six_and_weighs_pairs_not_runs() -> None:
    five = [record(pair, "rpt", 80.0) for pair in PAIRS[1:]]
    assert office_rows(five, published=False)[0].mean is None
    all_six = [*five, record("a-w", "rpt", 60.0), record("a-w", "rpt", 64.0, seed=1)]
    row = office_rows(all_six, published=False)[0]
    assert row.mean == pytest.approx((5 * 80 + 62) / 6)
    assert row.cells()[2] == "62.0 ±2.8"
    assert row.cells()[-1] == "7"


def test_runs_with_a_note_have_a_row_of_their_own() -> None:
    rows = office_rows([record("a-w", "rpt", 60.0), record("a-w", "rpt", 10.0, note="sweep")], published=False)
    assert [row.values["a-w"] for row in rows] == [(60.0,), (10.0,)]


def test_averaged_weights_and_last_ones_are_different_rows_but_not_of_the_source_network() -> None:
    def last(method: str, accuracy: float) -> dict[str, Any]:
        made = record("a-w", method, accuracy)
        made["plan"]["settings"]["average"]["decay"] = 0.0
        return made

    records = [
        record("a-w", "rpt", 60.0),
        last("rpt", 10.0),
        record("a-w", "source_only", 50.0),
        last("source_only", 52.0),
    ]
    rows = {(row.method, "averaged" in row.origin): row.values["a-w"] for row in office_rows(records, published=False)}
    assert rows == {("rpt", True): (60.0,), ("rpt", False): (10.0,), ("source_only", False): (50.0, 52.0)}


def test_published_rows_stand_under_the_right_pairs() -> None:
    paper = next(row for row in PUBLISHED_OFFICE if row.method == "rpt").by_pair()
    assert paper == {"a-d": 82.7, "d-a": 64.7, "a-w": 81.5, "w-a": 63.6, "d-w": 98.0, "w-d": 99.4}
    text = office_markdown(office_rows([record("a-w", "rpt", 61.25)]))
    assert "| 61.2 |" in text
    assert "best epoch by target labels" in text
    assert "| 81.7 |" in text, "the mean of the paper's six"


def test_records_of_another_benchmark_are_refused() -> None:
    with pytest.raises(DataError, match="not one of bench office31"):
        office_rows([{"key": "x", "plan": {}}])


def test_the_page_shows_the_ranks_of_a_to_w_first() -> None:
    page = office_page([record("d-a", "rpt", 50.0), record("a-w", "rpt", 60.0), record("a-w", "dann_flip", 59.0)])
    assert page.index("A→W: l + r") < page.index("D→A: l + r")
    assert "Fully transductive" in page
    assert 'id="ranks"' not in office_page([record("a-w", "dann_flip", 59.0)])
