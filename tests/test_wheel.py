from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_wheel_holds_what_an_installed_package_needs(tmp_path: Path):
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("residapt-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for wanted in ("residapt/py.typed", "residapt/report/page.css", "residapt/report/page.js", "residapt/cli/demo.py"):
        assert wanted in names
    assert any(name.endswith("LICENSE") for name in names)
    assert not any(name.startswith(("tests", "benchmarks")) for name in names)
