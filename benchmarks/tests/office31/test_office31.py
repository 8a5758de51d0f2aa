from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn import functional

from bench_support.records import digit_record, office_record
from residapt.errors import ConfigError, DataError, ModelError
from residapt.models.input_spec import IMAGENET
from residapt_bench.experiment import execute
from residapt_bench.experiment_file import ExperimentFile, RunSet
from residapt_bench.office31.experiment import DOMAINS, PAIRS
from residapt_bench.office31.images import CachedActivations, load_domain
from residapt_bench.office31.network import OfficeNetwork, PadFirst, frozen_stages, trained_part
from residapt_bench.office31.page import office_page
from residapt_bench.office31.published import PUBLISHED_OFFICE
from residapt_bench.office31.table import METHODS, office_markdown, office_rows
from residapt_bench.plan import Plan
from residapt_bench.record import Record

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


SETUP = {name: value for name, value in NETWORK.model_dump().items() if name not in ("arch", "standardise")}
SHORT = {
    "train": {"steps": 3, "batch_size": 4, "evaluate_every": 2},
    "rank": {"start": 0, "every": 1, "step": 0.3},
}


def plans(*methods: str, pairs: tuple[str, ...] = ("a-w",), **more: Any) -> list[Plan]:
    source = {"steps": 2, "batch_size": 4}
    base = {"arch": NETWORK.arch, "setup": SETUP, "source": source, "set": SHORT}
    runs = RunSet(**{"tasks": pairs, "methods": methods, **base, **more})
    return ExperimentFile(title="office", runs=(runs,)).plans()


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
    images, index = CachedActivations(views), torch.tensor([2, 0, 2, 2, 2, 2])
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


def test_runs_of_one_seed_share_the_source_network_and_records_say_what_was_done(root: Path, cache: Path) -> None:
    records = [execute(plan, root=root, cache=cache) for plan in plans(*METHODS)]
    assert len(list(cache.glob("source-*.safetensors"))) == 1
    assert len({record.source_sha256 for record in records}) == 1
    for record in records:
        assert [(name, score.protocol) for name, score in record.scores.items()] == [
            ("target", "transductive"),
            ("source", "transductive"),
        ]
        averaged = record.plan.method != "source_only"
        assert record.selection == ("average at the end" if averaged else "last iterate")
        assert [file.split()[0] for file in record.data.files] == ["amazon", "webcam"]
        assert Record.model_validate_json(record.model_dump_json()) == record
    source_only, dann, fixed, rpt = records
    assert source_only.curve[-1]["step"] == 0
    assert [point["step"] for point in dann.curve] == [2, 3]
    assert set(fixed.ranks.before) == {"block.0", "classifier.bottleneck"}
    assert fixed.ranks.after == fixed.ranks.before
    assert rpt.ranks.after != rpt.ranks.before


def test_a_run_is_the_same_when_it_is_repeated(root: Path, cache: Path) -> None:
    plan = plans("rpt")[0]
    first, second = (execute(plan, root=root, cache=cache) for _ in range(2))
    assert first.label_free == second.label_free
    assert first.scores == second.scores


def test_seeds_come_outside_and_change_everything() -> None:
    found = plans("dann_flip", "rpt", pairs=("a-w", "d-a"), seeds=(0, 1))
    assert [(plan.seed, plan.task, plan.method) for plan in found[:3]] == [
        (0, "a-w", "dann_flip"), (0, "a-w", "rpt"), (0, "d-a", "dann_flip"),
    ]  # fmt: skip
    last = found[-1]
    assert last.source.seed == last.train.seed == last.settings.transform.seed == last.settings.discrepancy.seed == 1


def test_the_recipe_is_the_papers_deep_setting() -> None:
    (plan,) = ExperimentFile(title="office", runs=(RunSet(tasks=("a-w",), methods=("rpt",)),)).plans()
    assert plan.train.steps >= 1500
    assert plan.train.batch_size == 32
    assert plan.train.head == 10.0
    assert plan.setup.views >= 4
    assert plan.settings.transform.norm == "per-domain"
    assert (plan.settings.discrepancy.hidden, plan.settings.discrepancy.dropout) == ((1024, 1024), 0.5)


def test_plus_is_the_recipe_of_beyond_on_views_of_the_images(root: Path, cache: Path) -> None:
    common, plan = plans("rpt", recipes=("common", "plus"))
    assert (plan.method, plan.recipe, plan.standardise) == ("rpt", "plus", False)
    assert (common.method, common.recipe, common.standardise) == ("rpt", "common", False)
    assert plans("rpt", recipes=("plus",), set={**SHORT, "model": {"standardise": True}})[0].standardise
    parts = plan.settings
    assert (parts.prior.kind, parts.information.weight, parts.discrepancy.end) == ("estimated", 1.0, 0.5)
    assert (parts.consistency.kind, parts.consistency.view) == ("fixmatch", "drawn")
    assert parts.discrepancy.hidden == common.settings.discrepancy.hidden == (1024, 1024)
    assert plans("rpt", recipes=("plus",), set={"information": {"weight": 0.5}})[0].settings.information.weight == 0.5
    records = [execute(each, root=root, cache=cache) for each in (plan, common)]
    assert [row.method for row in office_rows(records, published=False)] == ["rpt", "rpt (plus)"]


def test_standardised_images_are_so_before_the_frozen_stages(root: Path) -> None:
    network = NETWORK.model_copy(update={"standardise": True})
    images = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    as_is, brighter = (frozen_stages(network, root)(x) for x in (images, 3 * images + 1))
    torch.testing.assert_close(as_is, brighter, rtol=1e-2, atol=5e-3)
    alone = (images - images.mean((1, 2, 3), keepdim=True)) / (
        images.std((1, 2, 3), unbiased=False, keepdim=True) + 1e-3
    )
    torch.testing.assert_close(as_is, frozen_stages(NETWORK, root)(alone), rtol=1e-4, atol=1e-5)


def test_unknown_pairs_and_methods_are_named() -> None:
    with pytest.raises(ConfigError, match="a-x"):
        plans("rpt", pairs=("a-x",))
    with pytest.raises(ConfigError, match="rtp"):
        plans("rtp")


def test_data_that_are_not_there_and_stages_that_do_not_exist(root: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="office31"):
        execute(plans("rpt")[0], root=tmp_path, cache=tmp_path)
    wrong = NETWORK.model_copy(update={"freeze": "stme"})
    with pytest.raises(ModelError, match=r"'stme'.*stem"):
        load_domain("amazon", wrong, root, tmp_path)


def record(task: str, method: str, target: float, **more: Any) -> Record:
    ranks = {"blocks.6": (32, 32)} if method == "rpt" else {}
    curve = ({"step": 500, "target": target - 1}, {"step": 1500, "target": target})
    after = dict.fromkeys(ranks, (4, 8))
    return office_record(task, method, target, before=ranks, after=after, curve=curve, **more)


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
    def last(method: str, accuracy: float) -> Record:
        return record("a-w", method, accuracy, settings={"average": {"decay": 0.0}})

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
    with pytest.raises(DataError, match="digits"):
        office_rows([digit_record()])


def test_the_page_shows_the_ranks_of_a_to_w_first() -> None:
    page = office_page([record("d-a", "rpt", 50.0), record("a-w", "rpt", 60.0), record("a-w", "dann_flip", 59.0)])
    assert page.index("A→W: l + r") < page.index("D→A: l + r")
    assert "Fully transductive" in page
    assert 'id="ranks"' not in office_page([record("a-w", "dann_flip", 59.0)])
