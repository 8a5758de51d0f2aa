"""Scores of a labelled folder against plain loops."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from residapt.deploy import Prediction, evaluate_folder, load_run, predict_folder
from residapt.deploy.evaluate import score_logits
from residapt.errors import ConfigError, DataError
from residapt.evaluate.metrics import OneAgainstRest
from residapt.storage.run_directory import RunDirectory
from support.small_run import CLASSES

Draw = Callable[..., Path]


def average_precision(scores: list[float], positive: list[bool]) -> float:
    """Sum over thresholds of precision times the gain in recall; equal scores make one threshold."""
    total, before = sum(positive), 0
    area = 0.0
    for threshold in sorted(set(scores), reverse=True):
        taken = [p for s, p in zip(scores, positive, strict=True) if s >= threshold]
        hits = sum(taken)
        area += (hits - before) / total * hits / len(taken)
        before = hits
    return area


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 2), st.lists(st.integers(-2, 2), min_size=3, max_size=3)), min_size=1, max_size=12
    )
)
def test_scores_against_plain_loops(rows: list[tuple[int, list[int]]]) -> None:
    labels = [label for label, _ in rows]
    logits = torch.tensor([values for _, values in rows], dtype=torch.float32)
    found = score_logits(logits, torch.tensor(labels), CLASSES)
    guesses = [max(range(3), key=lambda c, v=values: (v[c], -c)) for _, values in rows]
    assert found.accuracy == pytest.approx(100 * sum(g == y for g, y in zip(guesses, labels, strict=True)) / len(rows))
    for true in range(3):
        for guess in range(3):
            pairs = sum(y == true and g == guess for y, g in zip(labels, guesses, strict=True))
            assert found.confusion[true][guess] == pairs
    scores_of = [OneAgainstRest(logits).log_odds(index).tolist() for index in range(3)]
    precisions = []
    for index, scores in enumerate(found.classes):
        own = [y == index for y in labels]
        right = sum(o and g == index for o, g in zip(own, guesses, strict=True))
        assert scores.images == sum(own)
        assert scores.accuracy == (pytest.approx(100 * right / sum(own)) if any(own) else None)
        guessed = guesses.count(index)
        assert scores.precision == (pytest.approx(100 * right / guessed) if guessed else None)
        if any(own) and not all(own):
            precisions.append(average_precision(scores_of[index], own))
            assert scores.average_precision == pytest.approx(precisions[-1])
        else:
            assert scores.average_precision is None
    assert found.average_precision == (pytest.approx(sum(precisions) / len(precisions)) if precisions else None)
    recalls = [scores.accuracy for scores in found.classes if scores.accuracy is not None]
    assert found.class_accuracy == pytest.approx(sum(recalls) / len(recalls))


@pytest.fixture
def labelled(tmp_path: Path, draw: Draw) -> Path:
    for seed, name in enumerate(["cat/1.png", "cat/sub/2.png", "dog/1.png", "dog/2.png", "dog/3.png"]):
        draw(tmp_path / "labelled" / name, seed)
    return tmp_path / "labelled"


def test_folder_agrees_with_its_predictions(run: RunDirectory, labelled: Path) -> None:
    deployed = load_run(run.path)
    rows = [row for row in predict_folder(deployed, labelled) if isinstance(row, Prediction)]
    right = sum(row.path.split("/")[0] == row.label for row in rows)
    for batch_size in (1, 3, 64):
        found = evaluate_folder(deployed, labelled, batch_size=batch_size)
        assert found.images == 5
        assert found.accuracy == pytest.approx(100 * right / 5)
        assert [row.images for row in found.classes] == [2, 3, 0]
        assert found.classes[2].accuracy is None


def test_unreadable_images_keep_labels_in_step(run: RunDirectory, labelled: Path) -> None:
    deployed = load_run(run.path)
    before = evaluate_folder(deployed, labelled)
    (labelled / "cat" / "0.png").write_bytes(b"broken")
    (labelled / "dog" / "2b.png").touch()
    after = evaluate_folder(deployed, labelled, batch_size=2)
    assert list(after.unreadable) == ["cat/0.png", "dog/2b.png"]
    # Logits in batches of another size differ in the last digits.
    assert after.calibration.error == pytest.approx(before.calibration.error, abs=1e-5)
    assert after.model_copy(update={"unreadable": {}, "calibration": before.calibration}) == before


def test_nothing_readable(run: RunDirectory, tmp_path: Path) -> None:
    (tmp_path / "bad" / "cat").mkdir(parents=True)
    (tmp_path / "bad" / "cat" / "x.png").touch()
    with pytest.raises(DataError, match=r"\b1\b"):
        evaluate_folder(load_run(run.path), tmp_path / "bad")


def test_class_that_the_network_does_not_know(run: RunDirectory, labelled: Path, draw: Draw) -> None:
    draw(labelled / "fox" / "1.png")
    with pytest.raises(DataError, match="fox"):
        evaluate_folder(load_run(run.path), labelled)


def test_batch_size_must_be_positive(run: RunDirectory, labelled: Path) -> None:
    with pytest.raises(ConfigError, match="-1"):
        evaluate_folder(load_run(run.path), labelled, batch_size=-1)


def test_stamp_says_whether_images_were_seen(run: RunDirectory, labelled: Path, draw: Draw, tmp_path: Path) -> None:
    assert evaluate_folder(load_run(run.path), labelled).protocol == "unknown"
    draw(tmp_path / "target" / "other.png", 99)
    assert evaluate_folder(load_run(run.path), labelled).protocol == "held-out"
    shutil.copy(labelled / "dog" / "2.png", tmp_path / "target" / "copy.png")
    assert evaluate_folder(load_run(run.path), labelled).protocol == "transductive"
    assert evaluate_folder(load_run(run.model), labelled).protocol == "unknown"


def test_a_list_is_scored_as_its_folders_are(run: RunDirectory, tmp_path: Path, draw: Draw) -> None:
    folder, lines = tmp_path / "labelled", ["path,class"]
    for number in range(6):
        name = CLASSES[number % 2]
        draw(folder / name / f"{number}.png", number)
        lines.append(f"labelled/{name}/{number}.png,{name}")
    (folder / CLASSES[0] / "broken.png").write_bytes(b"no image")
    lines.append(f"labelled/{CLASSES[0]}/broken.png,{CLASSES[0]}")
    (tmp_path / "labels.csv").write_text("\n".join(lines))
    deployed = load_run(run.path)
    found, expected = (evaluate_folder(deployed, place) for place in (tmp_path / "labels.csv", folder))
    assert list(found.unreadable) == [f"labelled/{CLASSES[0]}/broken.png"]
    assert found.model_copy(update={"unreadable": expected.unreadable}) == expected
