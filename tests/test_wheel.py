"""What is released: the files of wheel and sdist, their size, and that two builds are the same."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from residapt.config import read_toml
from residapt.version import __version__

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
from release import LARGEST  # noqa: E402

LABORATORY = ("residapt_bench", "benchmarks", "experiments", "results")


def build(out: Path) -> dict[str, Path]:
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    subprocess.run(command, check=True, capture_output=True, env=environment)
    return {path.suffix: path for path in out.iterdir()}


@pytest.mark.slow
def test_wheel_and_sdist(tmp_path: Path) -> None:
    pytest.importorskip("build")
    first, second = build(tmp_path / "first"), build(tmp_path / "second")
    for suffix in (".whl", ".gz"):
        digests = {hashlib.sha256(found[suffix].read_bytes()).hexdigest() for found in (first, second)}
        assert len(digests) == 1, f"two builds of the {suffix} differ"
    assert first[".whl"].stat().st_size < LARGEST
    names = zipfile.ZipFile(first[".whl"]).namelist()
    for wanted in ("residapt/py.typed", "residapt/report/page.css", "residapt/report/page.js", "residapt/cli/demo.py"):
        assert wanted in names
    assert any(name.endswith("LICENSE") for name in names)
    assert {name.partition("/")[0] for name in names} == {"residapt", f"residapt-{__version__}.dist-info"}
    with tarfile.open(first[".gz"]) as archive:
        inside = [name.partition("/")[2] for name in archive.getnames()]
    assert {"pyproject.toml", "README.md", "CITATION.cff", "constraints/oldest.txt", "src/residapt/py.typed"} <= set(
        inside
    )
    assert not [name for name in [*names, *inside] if name.split("/")[0] in LABORATORY]


def test_version_changelog_citation_and_bounds_agree() -> None:
    assert re.search(rf"^## \[{re.escape(__version__)}\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    project = read_toml(ROOT / "pyproject.toml")["project"]
    tested = ("timm", "hf", "hub", "tune", "tensorboard", "peft")
    extras = [line for name in tested for line in project["optional-dependencies"][name]]
    lowest = {}
    for line in [*project["dependencies"], *extras]:
        name, _, version = line.partition(";")[0].strip().partition(">=")
        lowest[name.replace("_", "-").lower()] = version
    pinned = dict(
        line.split("==")
        for line in (ROOT / "constraints/oldest.txt").read_text(encoding="utf-8").splitlines()
        if "==" in line
    )
    assert set(lowest) <= set(pinned)
    assert {name: pinned[name] for name in lowest if not (pinned[name] + ".0.0").startswith(lowest[name])} == {}
