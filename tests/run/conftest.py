"""Folders, made once, and one finished run on them."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from support.cli import invoke
from support.digit_folders import QUICK, Run


@pytest.fixture(scope="session")
def finished(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run through the command line, with every extra and an odd file in the target."""
    place = tmp_path_factory.mktemp("finished")
    target = place / "target"
    (target / "more").mkdir(parents=True)
    for number, path in enumerate(sorted((digits / "written").rglob("*.png"))):
        (target / "more" / f"{number}.png").symlink_to(path)
    (target / "broken.jpg").write_bytes(b"\xff\xd8 no picture")
    Image.new("RGBA", (20, 30), (9, 9, 9, 90)).save(target / "<script>alert(1)<&script>.png")
    out = place / "run"
    code, text = invoke(
        *("adapt", "-s", str(digits / "printed"), "-t", str(target), "-o", str(out)),
        *("--evaluate", str(digits / "scored"), "--tensorboard", "--force", *QUICK),
    )
    return Run(out, code, text)
