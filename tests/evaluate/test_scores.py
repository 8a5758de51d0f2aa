from __future__ import annotations

import inspect
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from residapt.errors import ConfigError
from residapt.evaluate.evidence import Evidence
from residapt.evaluate.scores import SCORES, comparable, score

NAMES = {"source_accuracy", "entropy", "infomax", "bnm", "snd", "class_ami", "dev", "devn", "mmd_outputs"}


def evidence(target_logits: Tensor, source_logits: Tensor | None = None, labels: Tensor | None = None) -> Evidence:
    source = torch.eye(target_logits.shape[1]) if source_logits is None else source_logits
    labels = torch.arange(len(source)) % source.shape[1] if labels is None else labels
    return Evidence(source, labels, source.clone(), target_logits, target_logits.clone())


def random_logits(seed: int, rows: int = 7, classes: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, classes, generator=generator, dtype=torch.float64) * 2


def probabilities(logits: Tensor) -> list[list[float]]:
    rows = []
    for row in logits.tolist():
        exps = [math.exp(v) for v in row]
        rows.append([e / sum(exps) for e in exps])
    return rows


def h(p: list[float]) -> float:
    return -sum(v * math.log(v) for v in p if v > 0)


def sure(classes: list[int], count: int) -> Tensor:
    return torch.nn.functional.one_hot(torch.tensor(classes), count).double() * 500


def test_every_score_is_registered_with_an_explanation() -> None:
    assert set(SCORES) == NAMES
    for spec in SCORES.values():
        assert spec.explanation
        assert spec.function.__doc__


def test_all_scores_share_one_signature() -> None:
    """One argument without a default, the evidence: so every score can be called by its name."""
    for spec in SCORES.values():
        parameters = list(inspect.signature(spec.function).parameters.values())
        assert parameters[0].annotation == "Evidence"
        assert all(p.default is not inspect.Parameter.empty for p in parameters[1:])


def test_all_scores_are_finite_numbers() -> None:
    labels = torch.arange(30) % 3
    data = evidence(random_logits(0, 40), random_logits(1, 30), labels)
    values = {name: score(name, data) for name in NAMES}
    assert all(isinstance(value, float) and math.isfinite(value) for value in values.values())


def test_source_accuracy_counts() -> None:
    logits = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    data = evidence(random_logits(0, classes=2), logits, torch.tensor([0, 1, 1, 1]))
    assert score("source_accuracy", data) == 0.75


@given(seed=st.integers(0, 10_000))
def test_entropy_and_infomax_equal_the_loop(seed: int) -> None:
    logits = random_logits(seed)
    p = probabilities(logits)
    mean = [sum(row[k] for row in p) / len(p) for k in range(3)]
    mean_entropy = sum(h(row) for row in p) / len(p)
    assert score("entropy", evidence(logits)) == pytest.approx(-mean_entropy)
    assert score("infomax", evidence(logits)) == pytest.approx(h(mean) - mean_entropy, abs=1e-12)


@given(seed=st.integers(0, 10_000))
def test_bnm_of_two_classes_equals_its_closed_form(seed: int) -> None:
    """(s1 + s2)^2 = tr G + 2 sqrt(det G) with the Gram matrix G of the two columns."""
    logits = random_logits(seed, classes=2)
    p = probabilities(logits)
    g = [[sum(row[i] * row[j] for row in p) for j in range(2)] for i in range(2)]
    determinant = max(g[0][0] * g[1][1] - g[0][1] * g[1][0], 0.0)
    expected = math.sqrt(g[0][0] + g[1][1] + 2 * math.sqrt(determinant)) / len(p)
    assert score("bnm", evidence(logits)) == pytest.approx(expected, rel=1e-6)


def test_bnm_at_its_best_and_at_a_collapse() -> None:
    assert score("bnm", evidence(sure([0, 1, 2] * 4, 3))) == pytest.approx(math.sqrt(3 / 12))
    assert score("bnm", evidence(sure([1] * 12, 3))) == pytest.approx(math.sqrt(1 / 12))


@pytest.mark.parametrize("copies", [1, 3, 20])
def test_comparable_scores_do_not_depend_on_the_number_of_images(copies: int) -> None:
    """Repeating every sample changes no share of anything; both scores are at their best values where they should."""
    logits = random_logits(5, rows=300)
    few, many = evidence(logits), evidence(logits.repeat(copies, 1))
    for name in SCORES:
        if name in ("bnm", "entropy", "infomax"):
            assert comparable(name, score(name, many), many) == pytest.approx(comparable(name, score(name, few), few))
    near = comparable("snd", score("snd", many), many)
    # A sample is no neighbour of its own: the difference falls with n.
    assert near == pytest.approx(comparable("snd", score("snd", few), few), abs=0.05)
    assert near < 0
    best = evidence(sure([0, 1, 2] * 4 * copies, 3))
    assert comparable("bnm", score("bnm", best), best) == pytest.approx(1.0)
    assert comparable("dev", 0.25, best) == 0.25


def test_a_collapse_fools_entropy_and_snd_but_not_infomax_bnm_and_class_ami() -> None:
    good, collapsed = evidence(sure([0, 1, 2] * 4, 3)), evidence(sure([1] * 12, 3))
    assert score("entropy", collapsed) >= score("entropy", good) - 1e-9
    assert score("snd", collapsed) > score("snd", good)
    for name in ("infomax", "bnm", "class_ami"):
        assert score(name, collapsed) < score(name, good) - 0.1


@given(seed=st.integers(0, 10_000))
def test_mmd_outputs_equals_the_loop(seed: int) -> None:
    source, target = random_logits(seed, 4), random_logits(seed + 1, 5)
    p, q = probabilities(source), probabilities(target)

    def mean_kernel(xs: list[list[float]], ys: list[list[float]]) -> float:
        pairs = [sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) for x in xs for y in ys]
        return sum(math.exp(-d2) for d2 in pairs) / len(pairs)

    expected = mean_kernel(p, p) + mean_kernel(q, q) - 2 * mean_kernel(p, q)
    assert score("mmd_outputs", evidence(target, source)) == pytest.approx(-expected, abs=1e-12)
    assert score("mmd_outputs", evidence(target, target)) == 0.0


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"'accuracy'.*class_ami"):
        score("accuracy", evidence(random_logits(0)))
