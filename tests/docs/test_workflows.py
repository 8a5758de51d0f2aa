"""The files that GitHub reads: they are valid, and say the same as the project."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from residapt.config import read_toml

yaml = pytest.importorskip("yaml", reason="needs the extra docs")

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def read(path: Path) -> dict[Any, Any]:
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_is_whole(path: Path) -> None:
    """It has a trigger, few permissions, and jobs that exist; actions have a version; local files are there."""
    workflow = read(path)
    assert {"name", True, "permissions", "jobs"} <= set(workflow)  # YAML 1.1 reads the key "on" as true
    assert workflow["permissions"]["contents"] == "read"
    jobs = workflow["jobs"]
    for job in jobs.values():
        needs = job.get("needs", [])
        assert {needs} <= set(jobs) if isinstance(needs, str) else set(needs) <= set(jobs)
        assert ("runs-on" in job) != ("uses" in job)
        assert all(("run" in step) != ("uses" in step) for step in job.get("steps", ()))
        used = [step["uses"] for step in (job, *job.get("steps", ())) if "uses" in step]
        for name in used:
            assert (ROOT / name).is_file() if name.startswith("./") else re.fullmatch(r"[\w-]+/[\w-]+@[\w./]+", name)
    for script in re.findall(r"\bscripts/\w+\.\w+", path.read_text(encoding="utf-8")):
        assert (ROOT / script).is_file()


def test_the_matrix_has_every_python_and_the_oldest_versions() -> None:
    matrix = read(ROOT / ".github/workflows/checks.yml")["jobs"]["tests"]["strategy"]["matrix"]
    classifiers = read_toml(ROOT / "pyproject.toml")["project"]["classifiers"]
    assert matrix["python"] == [line.rpartition(" ")[2] for line in classifiers if re.search(r":: 3\.\d+$", line)]
    assert matrix["include"] == [{"python": matrix["python"][0], "versions": "oldest"}]


def test_publishing_needs_no_secret() -> None:
    path = ROOT / ".github/workflows/publish.yml"
    workflow = read(path)
    assert workflow[True] == {"push": {"tags": ["v*"]}}
    assert workflow["jobs"]["publish"]["permissions"] == {"id-token": "write"}
    assert "secrets." not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_is_valid(path: Path) -> None:
    form = read(path)
    if path.stem == "config":
        assert set(form) <= {"blank_issues_enabled", "contact_links"}
        return
    assert {"name", "description", "body"} <= set(form)
    assert all(part["type"] == "textarea" and part["attributes"]["label"] for part in form["body"])


def test_the_citation_names_paper_and_software() -> None:
    citation = read(ROOT / "CITATION.cff")
    assert {"cff-version", "message", "title", "authors", "version", "date-released", "license"} <= set(citation)
    assert citation["type"] == "software"
    assert citation["preferred-citation"]["title"] == "Residual Parameter Transfer for Deep Domain Adaptation"
    assert [each["family-names"] for each in citation["preferred-citation"]["authors"]] == [
        "Rozantsev",
        "Salzmann",
        "Fua",
    ]
