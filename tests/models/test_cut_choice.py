from __future__ import annotations

from dataclasses import replace

import torch

from residapt.models import build_model
from residapt.models.cut_choice import (
    AIM,
    FEWEST_VIEWS,
    LEAST_TRAINED,
    TRAINING_SHARE,
    VIEWS_SHARE,
    Work,
    choose_cut,
)
from residapt.models.cut_points import CutPoint, cut_points


def chain(places: int = 9, seconds: float = 0.02) -> list[CutPoint]:
    """Stages of equal time and equal size, whose outputs become smaller."""
    return [
        CutPoint(
            name=f"stage{i}",
            aliases=(f"stage{i}.last",),
            parameters=i / (places + 1),
            shape=(2 ** (places - i), 4),
            seconds_before=seconds * i / (places + 1),
            seconds_after=seconds * (places + 1 - i) / (places + 1),
        )
        for i in range(1, places + 1)
    ]


WORK = Work(images=4000, steps=2000, batch=64)
WHOLE = WORK.seconds(None, 0.02) / 60


def test_a_network_without_pretrained_weights_is_trained_whole() -> None:
    assert choose_cut(chain(), WORK, minutes=1, pretrained=False).name is None


def test_a_network_that_cannot_be_cut_is_trained_whole() -> None:
    assert choose_cut([], WORK, minutes=1, pretrained=True).name is None


def test_nothing_is_frozen_where_there_is_time_for_everything() -> None:
    assert choose_cut(chain(), WORK, minutes=1.01 * WHOLE / AIM, pretrained=True).name is None
    assert choose_cut(chain(), WORK, minutes=0.99 * WHOLE / AIM, pretrained=True).name is not None
    assert choose_cut(chain(), WORK, minutes=0, pretrained=True).name is None
    quick = [replace(p, seconds_before=p.seconds_before / 100, seconds_after=p.seconds_after / 100) for p in chain()]
    assert choose_cut(chain(), WORK, minutes=20, pretrained=True).name is not None
    assert choose_cut(quick, WORK, minutes=20, pretrained=True).name is None


def test_a_gpu_trains_everything_that_fits_into_the_time_allowed() -> None:
    for share, frozen in ((1.01, False), (0.99, True)):
        minutes = share * WHOLE / TRAINING_SHARE
        choice = choose_cut(chain(), WORK, minutes=minutes, pretrained=True, accelerated=True)
        assert (choice.name is not None) is frozen
        assert choose_cut(chain(), WORK, minutes=minutes, pretrained=True).name is not None


def test_no_more_is_frozen_than_has_to_be() -> None:
    points = chain()
    seconds = 60 * AIM * (minutes := 0.4 * WHOLE / AIM)
    choice = choose_cut(points, WORK, minutes=minutes, pretrained=True)
    costs = {p.name: replace(WORK, views=choice.views).seconds(p, 0.02) for p in points}
    assert costs[str(choice.name)] <= seconds
    assert all(costs[p.name] > seconds for p in points[: [p.name for p in points].index(str(choice.name))])


def test_less_time_never_freezes_less() -> None:
    points = [replace(p, shape=(64 - i,)) for i, p in enumerate(chain(places=30))]
    names = [str(p.name) for p in points]
    choices = [choose_cut(points, WORK, minutes=m, pretrained=True) for m in (1, 80, 140, 160, 180, 190, 200, 210, 640)]
    depths = [names.index(c.name) if c.name else -1 for c in choices]
    assert depths == sorted(depths, reverse=True)
    assert len(set(depths)) > 3


def test_something_is_left_to_train() -> None:
    choice = choose_cut(chain(), WORK, minutes=0.1, pretrained=True)
    assert choice.point is not None
    assert LEAST_TRAINED <= 1 - choice.point.parameters < LEAST_TRAINED + 0.11


def test_views_that_take_too_long_are_fewer() -> None:
    minutes = 10.0
    few = choose_cut(chain(), replace(WORK, images=100), minutes=minutes, pretrained=True)
    many = choose_cut(chain(), replace(WORK, images=4000), minutes=minutes, pretrained=True)
    assert few.views == 8
    assert many.point is not None
    assert FEWEST_VIEWS <= many.views < 8
    once = 4000 * (1 + many.views) * many.point.seconds_before
    assert once <= VIEWS_SHARE * 60 * minutes or many.views == FEWEST_VIEWS


def test_of_cuts_of_the_same_cost_the_one_with_the_smallest_output() -> None:
    point = chain()[4]
    larger = replace(point, name="before", shape=(640, 4), seconds_before=point.seconds_before * 0.999)
    choice = choose_cut([larger, point], WORK, minutes=0.4 * WHOLE / AIM, pretrained=True)
    assert choice.name == point.name


def test_outputs_that_are_too_large_are_not_kept() -> None:
    points = [replace(p, shape=(4096, 56, 56)) for p in chain()]
    assert choose_cut(points, WORK, minutes=1, pretrained=True).name is None


def test_a_real_network_is_cut_at_the_end_of_a_block_that_leaves_its_last_layers() -> None:
    """However inexact the times are: each stretch between two points takes up to twice as long."""
    model = build_model("timm:tf_efficientnet_lite0", num_classes=31, image_size=64).eval()
    points = cut_points(model, torch.randn(4, 3, 64, 64))
    taken = torch.tensor([0.0, *(p.time for p in points), 1.0], dtype=torch.float64).diff()
    for seed in range(20):
        noisy = taken * (1 + torch.rand(len(taken), dtype=torch.float64, generator=torch.Generator().manual_seed(seed)))
        before = (0.02 * noisy.cumsum(0) / noisy.sum()).tolist()
        slow = [replace(p, seconds_before=t, seconds_after=0.02 - t) for p, t in zip(points, before[:-1], strict=True)]
        choice = choose_cut(slow, Work(images=3600, steps=2000, batch=64), minutes=15, pretrained=True)
        assert choice.name == "blocks.5", seed


def test_no_cut_in_the_middle_of_a_block() -> None:
    """The widened layer of an inverted bottleneck costs least of all that leave enough to train."""
    *first, end = chain()
    last = first[-2]
    wide = replace(first[-1], name="block.expand", aliases=(), parameters=0.75, shape=(last.shape[0], 24))
    narrow = replace(end, name="block", aliases=("block.project",), shape=(last.shape[0], 5))
    points = [*first[:-1], wide, narrow]
    assert 1 - narrow.parameters < LEAST_TRAINED <= 1 - wide.parameters
    assert choose_cut(points, WORK, minutes=1, pretrained=True).name == last.name
    alone = [*first[:-1], replace(wide, name="expand"), narrow]
    assert choose_cut(alone, WORK, minutes=1, pretrained=True).name == "expand"
