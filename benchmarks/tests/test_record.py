from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bench_support.records import digit_record
from residapt.errors import DataError
from residapt_bench.record import append_record, commit_of, read_records


def test_a_line_cut_off_by_a_crash_is_left_out_and_the_next_record_is_whole(tmp_path: Path) -> None:
    out = tmp_path / "records.jsonl"
    first, second = digit_record(seed=0), digit_record(seed=1)
    append_record(out, first)
    with out.open("a") as file:
        file.write(second.model_dump_json()[:50])
    assert read_records([out]) == [first]
    append_record(out, second)
    assert out.read_text().splitlines()[-1] == second.model_dump_json()


@pytest.mark.parametrize("damage", ["nonsense", '{"key": "a"}', '{"version": 2}'])
def test_damage_in_the_middle_is_named_with_its_line(tmp_path: Path, damage: str) -> None:
    out = tmp_path / "records.jsonl"
    good = digit_record().model_dump_json()
    out.write_text(f"{good}\n{damage}\n{good}\n")
    with pytest.raises(DataError, match=r"records\.jsonl, line 2 "):
        read_records([out])


def test_a_record_of_another_format_is_no_record_even_in_the_last_line(tmp_path: Path) -> None:
    out = tmp_path / "records.jsonl"
    out.write_text('{"key": "a", "plan": {}}\n')
    with pytest.raises(DataError, match="line 1"):
        read_records([out])


def test_the_commit_is_that_of_the_repository_that_tracks_the_file(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        own = ("-c", "user.name=a", "-c", "user.email=a@b")
        return subprocess.run(
            ("git", *own, *arguments), cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout

    tracked, untracked = tmp_path / "tracked.py", tmp_path / "site-packages.py"
    git("init", "-q")
    tracked.touch()
    git("add", "tracked.py")
    git("commit", "-qm", "one")
    untracked.touch()
    assert commit_of(tracked) == git("rev-parse", "HEAD").strip()
    assert commit_of(untracked) == "unknown"
