"""A new method is one row, or one registered function; a new loss is one function: known everywhere from then on."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path

import pytest
import torch
from torch import Tensor

from residapt import losses
from residapt.errors import ConfigError
from residapt.methods import MethodConfig, build_method, describe_methods, method_names, names, register, registry
from residapt.methods.baselines import SourceOnly
from residapt.methods.discrepancy.moments import DISTANCES
from residapt.methods.names import SharedMethod
from residapt.methods.shared import register_shared
from support.cli import invoke

ROW = SharedMethod("my_row", "rbf_mmd", "MMD with one kernel.", "Somebody 2030")


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_METHODS", dict(registry._METHODS))
    monkeypatch.setattr(names, "known", set(names.known))
    register_shared(ROW)

    @register("my_function")
    def build(model: torch.nn.Module, config: MethodConfig, example: torch.Tensor) -> SourceOnly:
        """A source network under another name.

        More about it.
        """
        return SourceOnly(registry.shared_streams(model, config))


@pytest.mark.usefixtures("registered")
def test_it_is_listed() -> None:
    assert {"my_row", "my_function"} <= set(method_names())
    found = dict(describe_methods())
    assert found["my_row"] == "MMD with one kernel. Somebody 2030."
    assert found["my_function"] == "A source network under another name."
    code, listed = invoke("methods")
    assert code == 0
    assert "my_row" in listed
    assert "my_function" in listed


@pytest.mark.usefixtures("registered")
def test_it_can_be_built_and_has_losses(make_mlp, make_mlp_batch) -> None:  # type: ignore[no-untyped-def]
    batch = make_mlp_batch()
    method = build_method("my_row", make_mlp(), example=batch.source)
    assert method.name == "my_row"
    assert torch.isfinite(method.losses(batch, 0.5).total)


@pytest.mark.usefixtures("registered")
def test_the_matrix_runs_it() -> None:
    path = Path(__file__).parents[1] / "matrix" / "test_methods.py"
    spec = importlib.util.spec_from_file_location("matrix_again", path)
    assert spec is not None
    assert spec.loader is not None
    matrix = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(matrix)
    assert {("my_row", kind) for kind in matrix.KINDS} <= set(matrix.every_case.args[1])


@pytest.mark.usefixtures("registered")
def test_a_name_is_taken_once() -> None:
    with pytest.raises(ConfigError, match="my_row"):
        register_shared(ROW)


@pytest.mark.usefixtures("registered")
def test_a_new_loss_is_one_function(monkeypatch: pytest.MonkeyPatch, make_mlp, make_mlp_batch) -> None:  # type: ignore[no-untyped-def]
    def largest_gap(source: Tensor, target: Tensor, weights: Tensor | None = None) -> Tensor:
        return (source.mean(0) - target.mean(0)).abs().max()

    monkeypatch.setitem(DISTANCES, "largest_gap", largest_gap)
    register_shared(SharedMethod("my_loss", "largest_gap", "The largest gap between means.", "Somebody 2031"))  # type: ignore[arg-type]
    batch = make_mlp_batch()
    method = build_method("my_loss", make_mlp(), example=batch.source)
    source, target = (method.predict(x, name) for x, name in ((batch.source, "source"), (batch.target, "target")))
    parts = method.losses(batch, 1.0).parts
    assert float(parts["confusion"].detach()) == pytest.approx(float(largest_gap(source, target).detach()), rel=1e-5)


def test_every_function_of_losses_is_public() -> None:
    files = [file for file in Path(losses.__file__).parent.glob("*.py") if file.stem not in ("__init__", "gather")]
    for file in files:
        module = importlib.import_module(f"residapt.losses.{file.stem}")
        own = {name for name, made in vars(module).items() if getattr(made, "__module__", "") == module.__name__}
        functions = {name for name in own if callable(getattr(module, name)) and not name.startswith("_")}
        assert functions <= set(losses.__all__), f"{file.name}: name them in losses/__init__.py"
