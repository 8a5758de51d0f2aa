from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from residapt.transform import LayerMatrix, find_layers

CONVOLUTIONS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
TRANSPOSED = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}
sizes = st.integers(1, 3)


def only_layer(module: nn.Module) -> LayerMatrix:
    (layer,) = find_layers(module)
    return layer


def slow_conv_matrix(weight: Tensor) -> list[list[float]]:
    """Rows are outputs; columns run over the kernel first, the input channel fastest."""
    rows = []
    for output in weight:
        positions = list(
            torch.cartesian_prod(*[torch.arange(k) for k in output.shape[1:]]).reshape(-1, output.ndim - 1)
        )
        rows.append(
            [float(output[(channel, *place.tolist())]) for place in positions for channel in range(output.shape[0])]
        )
    return rows


@given(outputs=sizes, inputs=sizes, kernel=st.tuples(sizes, sizes), groups=st.integers(1, 2))
def test_convolution_matrix_has_one_row_per_output(
    outputs: int, inputs: int, kernel: tuple[int, int], groups: int
) -> None:
    module = nn.Conv2d(inputs * groups, outputs * groups, kernel, groups=groups)
    layer = only_layer(module)
    assert layer.weight_matrix(module.weight).tolist() == slow_conv_matrix(module.weight.detach())


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 2])
def test_row_c_of_a_transposed_convolution_decides_output_c_alone(dims: int, groups: int) -> None:
    """The definition of a row: scaling it scales its output channel and nothing else."""
    module = TRANSPOSED[dims](4, 6, 2, groups=groups, bias=False)
    layer, x = only_layer(module), torch.randn(2, 4, *[3] * dims)
    matrix = layer.weight_matrix(module.weight)
    assert matrix.shape == (6, 4 // groups * 2**dims)
    for row in range(6):
        scale = torch.ones(6)
        scale[row] = 3.0
        weight = layer.weight_from(scale[:, None] * matrix, module.weight)
        changed = torch.func.functional_call(module, {"weight": weight}, (x,))
        torch.testing.assert_close(changed, module(x) * scale.reshape(1, 6, *[1] * dims))


@given(outputs=sizes, inputs=sizes, kernel=sizes, groups=st.integers(1, 2), dims=sizes, transposed=st.booleans())
def test_matrix_and_back_is_the_identity(
    outputs: int, inputs: int, kernel: int, groups: int, dims: int, transposed: bool
) -> None:
    kinds: dict[int, Any] = TRANSPOSED if transposed else CONVOLUTIONS
    module = kinds[dims](inputs * groups, outputs * groups, kernel, groups=groups)
    layer = only_layer(module)
    matrix = layer.weight_matrix(module.weight)
    assert matrix.shape[0] == outputs * groups
    assert torch.equal(layer.weight_from(matrix, module.weight), module.weight)


@pytest.mark.parametrize("kind", [nn.Conv2d, nn.ConvTranspose2d])
@pytest.mark.parametrize("groups", [1, 2])
def test_channels_last_gives_the_same_matrix(kind: type[nn.Module], groups: int) -> None:
    module = kind(4, 6, 3, groups=groups)
    layer, weight = only_layer(module), module.weight
    last = weight.detach().contiguous(memory_format=torch.channels_last)
    assert torch.equal(layer.weight_matrix(last), layer.weight_matrix(weight))
    assert torch.equal(layer.weight_from(layer.weight_matrix(last), last), weight)


def test_a_channels_last_convolution_is_folded_without_a_copy() -> None:
    module = nn.Conv2d(4, 6, 3).to(memory_format=torch.channels_last)
    layer = only_layer(module)
    matrix = layer.weight_matrix(module.weight)
    assert matrix.data_ptr() == module.weight.data_ptr()
    assert layer.weight_from(matrix, module.weight).data_ptr() == module.weight.data_ptr()


def test_linear_matrix_is_the_weight_itself() -> None:
    module = nn.Linear(3, 4)
    layer = only_layer(module)
    assert layer.weight_matrix(module.weight) is module.weight
    assert layer.weight_from(module.weight, module.weight) is module.weight


def test_packed_attention_is_three_layers_and_the_output_projection() -> None:
    module = nn.MultiheadAttention(4, 2)
    layers = {layer.name: layer for layer in find_layers(module)}
    assert list(layers) == ["in_proj.q", "in_proj.k", "in_proj.v", "out_proj"]
    for position, letter in enumerate("qkv"):
        layer = layers[f"in_proj.{letter}"]
        rows = slice(4 * position, 4 * position + 4)
        assert torch.equal(layer.weight_matrix(module.in_proj_weight), module.in_proj_weight[rows])
        assert torch.equal(layer.bias_vector(module.in_proj_bias), module.in_proj_bias[rows])


def test_attention_with_its_own_key_width_is_three_weights_and_three_biases() -> None:
    module = nn.MultiheadAttention(4, 2, kdim=3, vdim=2)
    layers = {layer.name: layer for layer in find_layers(module)}
    assert list(layers) == ["q_proj", "q_proj.bias", "k_proj", "k_proj.bias", "v_proj", "v_proj.bias", "out_proj"]
    assert layers["k_proj"].weight_matrix(module.k_proj_weight).shape == (4, 3)
    bias = layers["v_proj.bias"]
    assert torch.equal(bias.weight_matrix(module.in_proj_bias), module.in_proj_bias[8:, None])
    assert torch.equal(
        bias.weight_from(bias.weight_matrix(module.in_proj_bias), module.in_proj_bias), module.in_proj_bias[8:]
    )


def test_every_weight_of_the_layer_nets_is_found(layer_nets: Callable[..., Any]) -> None:
    for kind in ("linear", "conv1d", "grouped_transpose", "depthwise", "attention", "attention_kv"):
        for bias in (True, False):
            model = layer_nets(kind, bias=bias).model
            found = {name for layer in find_layers(model) for name in (layer.weight, layer.bias) if name}
            assert found == {name for name, _ in model.named_parameters()}, (kind, bias)


def test_a_tied_weight_is_listed_once(nets: Callable[..., Any]) -> None:
    layers = list(find_layers(nets("tied").model))
    assert [layer.name for layer in layers] == ["first", "twice", "head"]


def test_a_tied_bias_belongs_to_the_first_layer_that_has_it() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].bias = model[0].bias
    assert [layer.bias for layer in find_layers(model)] == ["0.bias", None]


def test_a_computed_weight_is_left_alone() -> None:
    model = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(3, 4)), nn.Linear(4, 2))
    assert [layer.name for layer in find_layers(model)] == ["1"]


def test_a_network_that_is_one_layer_has_a_name() -> None:
    assert only_layer(nn.Linear(2, 3)).name == "model"
