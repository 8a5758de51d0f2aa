"""What users import: every name is there, explained with an example that runs, and nothing is imported early."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import residapt
from residapt.settings import Settings

ROOT = Path(__file__).parents[1]
PUBLIC = sorted(set(residapt.__all__) - {"__version__"})
RETURNED = ("AdaptedRun",)
"""Classes that only the library makes."""


def seconds(code: str) -> tuple[float, subprocess.CompletedProcess[str]]:
    """Processor time of a fresh Python."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_there_with_an_example(name: str) -> None:
    assert ">>> " in (getattr(residapt, name).__doc__ or "")
    assert name in dir(residapt)


def test_names_that_are_not_there_are_refused_as_usual() -> None:
    with pytest.raises(AttributeError, match="adopt"):
        residapt.adopt  # noqa: B018


@pytest.mark.parametrize("name", PUBLIC)
def test_a_name_works_first_thing_after_import(name: str) -> None:
    """Lazy packages hide names that need another import first; the list for type checkers is the same."""
    tree = ast.parse((ROOT / "src/residapt/__init__.py").read_text(encoding="utf-8"))
    typed = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert name in typed
    assert inspect.ismodule(getattr(residapt, name)) or getattr(residapt, name).__module__.startswith("residapt.")


def test_importing_is_fast_and_without_torch() -> None:
    code = "import sys, residapt, residapt.config; sys.exit('torch' in sys.modules or not residapt.Config().method)"
    nothing, _ = seconds("import pydantic, tomli_w")
    took, done = seconds(code)
    assert done.returncode == 0, done.stderr
    assert took - nothing < 0.6
    took, done = seconds("import sys, residapt; sys.exit('torch' in sys.modules)")
    assert done.returncode == 0
    assert took < 0.3


def test_losses_rank_and_methods_are_reached_by_attribute() -> None:
    code = "import residapt as r; r.losses.coral, r.rank.shrink, r.methods.method_names, r.models.LeNet, r.frozen"
    _, done = seconds(code)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", PUBLIC)
def test_arguments_are_explained(name: str) -> None:
    """Of functions and classes in their docstrings, of settings beside each field."""
    item = getattr(residapt, name)
    if inspect.isclass(item) and issubclass(item, Settings):
        assert all(field.description for field in item.model_fields.values())
    elif (name not in RETURNED and not inspect.ismodule(item) and "__init__" in vars(item)) or inspect.isfunction(item):
        assert "Args:" in inspect.getdoc(item)


FILES = [path for path in (ROOT / "src").rglob("*.py") if ">>> " in path.read_text(encoding="utf-8")]
MODULES = sorted(".".join(path.relative_to(ROOT / "src").with_suffix("").parts) for path in FILES)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name.removesuffix(".__init__"))
    found = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert found.failed == 0


@pytest.mark.parametrize("file", ["README.md", "examples/own_loop.py", "examples/adapt_tensors.py"])
def test_what_readme_and_examples_use_is_public(file: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    used = set(re.findall(r"residapt\.([A-Za-z_]+)", text)) - {"readthedocs"}
    assert used
    assert used <= set(residapt.__all__)
