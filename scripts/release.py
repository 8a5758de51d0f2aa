"""Wheel and sdist of the present commit in ``dist/``, checked: ``python scripts/release.py``.

Refused on a tree with changes, or where version, changelog and citation differ. Both files are built twice, and must
come out the same to the byte. Nothing is uploaded: that is done by the workflow, on the tag.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
LARGEST = 520_000
"""Bytes of the wheel."""


def run(*command: str, **options: object) -> str:
    """A command's output; its failure ends the release."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return str(done.stdout)


def version() -> str:
    """The version, which changelog and citation have to agree with."""
    found = re.search(r'__version__ = "(.*)"', (ROOT / "src/residapt/version.py").read_text(encoding="utf-8"))
    assert found is not None
    wanted = found[1]
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(rf"^## \[{re.escape(wanted)}\] - \d{{4}}-\d\d-\d\d$", changes, flags=re.M):
        sys.exit(f"CHANGELOG.md has no dated section for {wanted}.")
    if f"\nversion: {wanted}\n" not in (ROOT / "CITATION.cff").read_text(encoding="utf-8"):
        sys.exit(f"CITATION.cff is not of version {wanted}.")
    return wanted


def refuse_changes() -> None:
    """Only what is committed is released."""
    if changed := run("git", "status", "--porcelain"):
        sys.exit(f"the tree has changes; commit or remove them first:\n{changed}")


def build(out: Path) -> dict[str, str]:
    """Build both files; their digests. Times inside are those of the commit."""
    when = run("git", "log", "-1", "--format=%ct").strip()
    environment = {**os.environ, "SOURCE_DATE_EPOCH": when}
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), env=environment)
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(out.iterdir())}


def twine_check(files: list[str]) -> None:
    """``twine check`` in an environment of its own, so that it is no dependency."""
    with tempfile.TemporaryDirectory() as place:
        venv.create(place, with_pip=True)
        python = str(Path(place, "Scripts" if os.name == "nt" else "bin", "python"))
        run(python, "-m", "pip", "install", "--quiet", "twine")
        print(run(python, "-m", "twine", "check", "--strict", *files).strip())


def main() -> None:
    """Check, build twice, compare, check the files."""
    refuse_changes()
    wanted = version()
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    with tempfile.TemporaryDirectory() as second:
        first, again = build(dist), build(Path(second))
    if first != again:
        sys.exit(f"two builds of one commit differ: {first} and {again}")
    (wheel,) = dist.glob("*.whl")
    if (size := wheel.stat().st_size) > LARGEST:
        sys.exit(f"{wheel.name} has {size:,} bytes, more than {LARGEST:,}.")
    if "--no-twine" not in sys.argv:
        twine_check([str(file) for file in dist.iterdir()])
    for name, digest in first.items():
        print(f"{digest}  {name}")
    print(f"{wheel.name}: {size:,} bytes. To publish: git tag v{wanted} && git push origin v{wanted}")


if __name__ == "__main__":
    main()
