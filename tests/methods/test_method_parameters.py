from __future__ import annotations

import pytest
import torch

from residapt.methods import build_method
from residapt.methods.parameters import count_parameters
from residapt.models import LeNet
from support.methods import FOR_ANY_NETWORK

LENET = 431_080
ADVERSARY = 10 * 500 + 500 + 500 * 500 + 500 + 500 + 1


@pytest.fixture(scope="module")
def lenet():
    example = torch.zeros(2, 1, 28, 28)
    return {
        name: count_parameters(build_method(name, LeNet(num_classes=10), example=example)) for name in FOR_ANY_NETWORK
    }


def test_every_method_deploys_one_network(lenet):
    assert set(lenet) == set(FOR_ANY_NETWORK)
    assert {count.deployed for count in lenet.values()} == {LENET}


def test_counts_of_the_compared_systems_on_lenet(lenet):
    assert (lenet["dann_flip"].network, lenet["dann_flip"].adversary) == (LENET, ADVERSARY)
    assert (lenet["adda"].network, lenet["adda"].trained) == (2 * LENET, LENET + ADVERSARY)
    assert (lenet["two_stream"].network, lenet["two_stream"].transform) == (2 * LENET, 2 * 4)
    assert lenet["rpt"].transform == 158_152  # what block-diagonal factors store at ranks 32 and 32 + 1
    assert lenet["rman"].adversary == ADVERSARY + (128 - 10) * 500
    assert lenet["dsn"].domain_classifier == ADVERSARY


def test_the_papers_factor_for_the_two_stream_network(lenet):
    rpt = lenet["rpt"].network + lenet["rpt"].transform
    assert lenet["two_stream"].total_training / rpt == pytest.approx(1.46, abs=0.005)


@pytest.mark.parametrize("name", FOR_ANY_NETWORK)
def test_parts_add_up_and_deployed_is_the_target_model(name, make_mlp, make_mlp_batch):
    method = build_method(name, make_mlp(), example=make_mlp_batch().source)
    count = count_parameters(method)
    assert count.network + count.transform + count.adversary == count.total_training
    assert count.total_training == sum(p.numel() for p in method.parameters())
    assert count.deployed == sum(p.numel() for p in method.target_model().parameters())
