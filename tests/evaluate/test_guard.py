from __future__ import annotations

import dataclasses
import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from residapt.errors import DataError
from residapt.evaluate.evidence import Evidence
from residapt.evaluate.guard import GuardConfig, Votes, compare, decide, measure
from residapt.evaluate.scores import score

CLASSES = 5
CONFIDENCE = ("infomax", "bnm", "snd")


class World:
    """Classes are corners. In the target each is moved, so that the source's cuts split its clusters."""

    def __init__(self, target_labels: Tensor, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.source_labels, self.target_labels = torch.arange(100) % CLASSES, target_labels
        corners, count = torch.eye(CLASSES), len(target_labels)
        self.source = corners[self.source_labels] + 0.1 * torch.randn(100, CLASSES, generator=generator)
        self.target = corners[target_labels] + 0.15 * torch.randn(count, CLASSES, generator=generator)
        self.moved = 0.5 * torch.randn(CLASSES, CLASSES, generator=generator)[target_labels]

    def network(self, misalignment: float, sharpness: float = 5.0) -> Evidence:
        features = self.target + misalignment * self.moved
        return Evidence(sharpness * self.source, self.source_labels, self.source, sharpness * features, features)

    def accuracy(self, evidence: Evidence) -> float:
        return (evidence.target_logits.argmax(1) == self.target_labels).double().mean().item()


WORLD = World(torch.arange(200) % CLASSES, seed=4)
BEFORE, AFTER = WORLD.network(1.0), WORLD.network(0.1, sharpness=8.0)


def with_target(evidence: Evidence, logits: Tensor) -> Evidence:
    return dataclasses.replace(evidence, target_logits=logits)


def votes(**changes: tuple[float, float]) -> Votes:
    """Measurements of an adaptation that changed nothing, but for the changes."""
    same: Votes = {
        "source_accuracy": (0.9, 0.9),
        "class_ami": (0.5, 0.5),
        "infomax": (1.0, 1.0),
        "bnm": (0.1, 0.1),
        "snd": (5.0, 5.0),
        "anchored_ami": (0.5, 0.5),
        "sure_agreement": (1.0, 1.0),
        "classes_predicted": (9.0, 9.0),
        "frequency_shift": (0.1, 0.1),
        "lost_mass": (0.0, 0.0),
        "renamed_classes": (0.0, 0.0),
    }
    return {**same, **changes}


def test_the_worlds_are_what_they_should_be() -> None:
    assert 0.5 < WORLD.accuracy(BEFORE) < 0.9
    assert WORLD.accuracy(AFTER) > 0.95


def test_a_success_passes() -> None:
    verdict = compare(BEFORE, AFTER)
    assert verdict.helped is True
    assert verdict.votes["class_ami"][1] > verdict.votes["class_ami"][0]


def test_damage_does_not_pass() -> None:
    assert compare(AFTER, BEFORE).helped is False


def test_nothing_changed_is_no_verdict() -> None:
    verdict = compare(BEFORE, BEFORE)
    assert verdict.helped is None
    assert verdict.reasons == ("nothing changed clearly",)


def test_mere_sharpening_does_not_pass() -> None:
    """The same network with larger logits: every prediction as before, all confidence scores up."""
    sharper = with_target(BEFORE, 4 * BEFORE.target_logits)
    assert score("infomax", sharper) > score("infomax", BEFORE)
    assert compare(BEFORE, sharper).helped is None


@pytest.mark.parametrize("kept", [1, 2])
def test_a_collapse_is_an_alarm_however_sure(kept: int) -> None:
    logits = AFTER.target_logits.clone()
    logits[:, kept:] = -100.0
    verdict = compare(BEFORE, with_target(AFTER, 20 * logits))
    assert verdict.helped is False
    assert any("collapse" in reason for reason in verdict.reasons)


def test_two_swapped_classes_are_an_alarm_though_every_score_rises() -> None:
    swapped = with_target(AFTER, AFTER.target_logits[:, [1, 0, 2, 3, 4]])
    for name in ("class_ami", *CONFIDENCE):
        assert score(name, swapped) == pytest.approx(score(name, AFTER))
    verdict = compare(BEFORE, swapped)
    assert verdict.helped is False
    assert any("swap" in reason for reason in verdict.reasons)


def test_a_cycle_of_all_classes_is_an_alarm() -> None:
    assert compare(BEFORE, with_target(AFTER, AFTER.target_logits.roll(1, dims=1))).helped is False


def test_lost_source_accuracy_is_an_alarm() -> None:
    forgot = dataclasses.replace(AFTER, source_logits=AFTER.source_logits.roll(1, dims=0))
    verdict = compare(BEFORE, forgot)
    assert verdict.helped is False
    assert any("source accuracy fell from 1.000 to 0.000" in reason for reason in verdict.reasons)


@pytest.mark.parametrize("seed", [4, 10, 15, 24])
def test_a_target_that_really_lacks_classes_passes(seed: int) -> None:
    partial = World(torch.arange(200) % 3, seed)
    before, after = partial.network(1.0), partial.network(0.1, sharpness=8.0)
    assert before.target_logits.argmax(dim=1).max() > 2
    assert partial.accuracy(after) > partial.accuracy(before) + 0.05
    verdict = compare(before, after)
    assert verdict.helped is True, verdict


@pytest.mark.parametrize("seed", range(4))
def test_random_predictions_never_pass(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    noise = 30 * torch.randn(200, CLASSES, generator=generator)
    assert compare(BEFORE, with_target(AFTER, noise)).helped is False


def test_features_bent_to_wrong_predictions_do_not_pass() -> None:
    """The damaged network's features are clusters of its own mistakes: the best ClassAMI there is."""
    wrong = BEFORE.target_logits.argmax(dim=1)
    wrong = torch.where(torch.arange(200) % 3 == 0, (wrong + 1) % CLASSES, wrong)
    bent = dataclasses.replace(
        BEFORE, target_logits=30 * torch.eye(CLASSES)[wrong], target_features=torch.eye(CLASSES)[wrong]
    )
    assert score("class_ami", bent) == pytest.approx(1.0)
    assert score("infomax", bent) > score("infomax", BEFORE)
    assert compare(BEFORE, bent).helped is False


@given(ami=st.floats(0, 1), surer=st.floats(0, 5), alarm=st.sampled_from(["renamed", "source"]))
def test_no_score_outweighs_an_alarm(ami: float, surer: float, alarm: str) -> None:
    alarms: dict[str, Votes] = {
        "renamed": {"renamed_classes": (0.0, 1.5)},
        "source": {"source_accuracy": (0.9, 0.6)},
    }
    confidence = dict.fromkeys(CONFIDENCE, (1.0, 1.0 + surer))
    structure = {"class_ami": (0.0, ami), "anchored_ami": (0.0, ami)}
    verdict = decide(votes(**structure, **confidence, **alarms[alarm]))
    assert verdict.helped is False
    assert sum(reason.startswith("against: ") for reason in verdict.reasons) == 1


@given(rises=st.lists(st.floats(-0.5, 10), min_size=3, max_size=3), moved=st.floats(0, 1))
def test_neither_confidence_nor_class_frequencies_decide(rises: list[float], moved: float) -> None:
    confidence = {name: (1.0, 1.0 + rise) for name, rise in zip(CONFIDENCE, rises, strict=True)}
    assert decide(votes(frequency_shift=(0.1, moved), **confidence)).helped is None


UP, FLAT_UP, FLAT_DOWN, DOWN = (0.5, 0.6), (0.5, 0.53), (0.5, 0.495), (0.5, 0.4)
OVERTURNED, KEPT = (1.0, 0.8), (1.0, 0.85)
FAR: Votes = {"class_ami": UP, "anchored_ami": (0.5, 0.3), "sure_agreement": OVERTURNED}


@pytest.mark.parametrize(
    ("changes", "helped"),
    [
        ({"class_ami": UP}, True),
        ({"class_ami": UP, "anchored_ami": DOWN}, True),
        ({"class_ami": UP, "sure_agreement": OVERTURNED}, True),
        ({"class_ami": UP, "anchored_ami": DOWN, "sure_agreement": KEPT}, True),
        ({"class_ami": UP, "anchored_ami": DOWN, "sure_agreement": OVERTURNED, "infomax": (1.0, 0.95)}, False),
        ({"class_ami": UP, "anchored_ami": DOWN, "sure_agreement": OVERTURNED}, True),
        (FAR, False),
        # A source network that takes most images for few classes may be overturned, unless the information fell.
        ({**FAR, "frequency_shift": (0.49, 0.1)}, False),
        ({**FAR, "frequency_shift": (0.51, 0.1)}, True),
        ({**FAR, "frequency_shift": (0.51, 0.1), "infomax": (1.0, 0.95)}, False),
        # A poor source network: its confident predictions say little.
        ({"class_ami": (0.2, 0.5), "anchored_ami": DOWN, "sure_agreement": (1.0, 0.6)}, True),
        ({"class_ami": UP, "source_accuracy": (0.9, 0.75)}, True),
        ({"class_ami": FLAT_UP}, None),
        ({"class_ami": FLAT_DOWN}, None),
        ({"anchored_ami": UP}, None),
        ({"anchored_ami": DOWN}, None),
        ({"sure_agreement": OVERTURNED}, None),
        ({"class_ami": DOWN}, None),
        ({"class_ami": DOWN, "anchored_ami": DOWN}, None),
        ({"class_ami": DOWN, "infomax": (1.0, 0.95)}, False),
        ({"class_ami": DOWN, "anchored_ami": (0.5, 0.3)}, False),
        ({"lost_mass": (0.0, 0.3)}, False),
        ({"lost_mass": (0.0, 0.3), "class_ami": UP}, False),
        ({"lost_mass": (0.0, 0.2), "class_ami": UP}, True),
    ],
)
def test_the_rule(changes: Votes, helped: bool | None) -> None:
    verdict = decide(votes(**changes))
    assert verdict.helped is helped
    assert verdict.reasons
    assert verdict.votes == votes(**changes)


def test_thresholds_are_settings() -> None:
    case = votes(class_ami=(0.5, 0.6), source_accuracy=(0.9, 0.85))
    assert decide(case).helped is True
    assert decide(case, GuardConfig(source_drop=0.01)).helped is False
    assert decide(case, GuardConfig(own_gain=0.2)).helped is None


def test_recorded_measurements_give_the_same_verdict() -> None:
    recorded = json.loads(json.dumps(measure(BEFORE, AFTER)))
    replayed = decide({name: (pair[0], pair[1]) for name, pair in recorded.items()})
    assert replayed == compare(BEFORE, AFTER)


def test_frequencies_and_lost_mass_by_hand() -> None:
    """Source 2:1:1, predicted before 1:1:2 and after 4:0:0 of four samples."""
    labels, features = torch.tensor([0, 0, 1, 2]), torch.zeros(4, 1)
    eye = torch.eye(3) * 9
    before = Evidence(eye[labels], labels, features, eye[[0, 1, 2, 2]], features)
    after = Evidence(eye[labels], labels, features, eye[[0, 0, 0, 0]], features)
    found = measure(before, after)
    assert found["frequency_shift"] == pytest.approx((0.25, 0.5))
    assert found["lost_mass"] == pytest.approx((0.0, 0.5))
    assert found["sure_agreement"] == pytest.approx((1.0, 0.25))
    assert found["renamed_classes"] == (0.0, 0.0)
    assert found["classes_predicted"] == pytest.approx((2 * 2**0.5, 1.0))


@pytest.mark.parametrize(
    ("old", "new", "renamed"),
    [
        ([0, 0, 1, 1, 2, 2], [0, 0, 1, 1, 2, 2], 0.0),
        ([0, 0, 1, 1, 2, 2], [1, 1, 0, 0, 2, 2], 2.0),
        ([0, 0, 1, 1, 2, 2], [1, 1, 2, 2, 0, 0], 3.0),
        ([0, 0, 1, 1, 1, 1], [0, 0, 2, 2, 2, 2], 0.0),
        ([0, 0, 0, 1, 2, 2], [1, 1, 1, 0, 2, 2], 1.0),
        ([0, 0, 1, 1, 2, 2], [1, 1, 1, 1, 2, 2], 0.0),
    ],
    ids=["none", "swap", "cycle", "into an empty class", "unequal swap", "merge"],
)
def test_exchanged_classes_are_counted(old: list[int], new: list[int], renamed: float) -> None:
    labels, features, eye = torch.tensor([0, 1, 2]), torch.zeros(3, 1), torch.eye(3)
    spread = torch.arange(6.0)[:, None]
    before, after = (Evidence(eye, labels, features, eye[index], spread) for index in (old, new))
    assert measure(before, after)["renamed_classes"][1] == pytest.approx(renamed)


def test_other_samples_are_refused() -> None:
    fewer = dataclasses.replace(AFTER, target_logits=AFTER.target_logits[1:], target_features=AFTER.target_features[1:])
    other = dataclasses.replace(AFTER, source_labels=AFTER.source_labels.roll(1))
    for after in (fewer, other):
        with pytest.raises(DataError, match="same samples"):
            compare(BEFORE, after)
