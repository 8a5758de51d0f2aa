from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from bench_support.records import ENVIRONMENT, digit_record
from bench_support.small_digits import small_digits, small_plans
from residapt.errors import DataError, Interrupted
from residapt_bench.experiment import recorded
from residapt_bench.plan import Plan
from residapt_bench.progress import StepLines
from residapt_bench.record import Record, Score, append_record, read_records
from residapt_bench.runner import pending, run_plan, run_plans


def record_of(plan: Plan, **plan_changes: Any) -> Record:
    known = recorded(plan)
    plan_part = known.model_copy(update=plan_changes)
    scores = {"target_test": Score(accuracy=50.0)}
    return Record(key=plan.key(), plan=plan_part, scores=scores, environment=ENVIRONMENT)


def test_finished_runs_are_not_repeated_and_interruption_loses_nothing(tmp_path: Path) -> None:
    ran: list[str] = []

    def work(plan: Plan, **_: Any) -> Record:
        if len(ran) == 2:
            raise KeyboardInterrupt
        ran.append(plan.key())
        return record_of(plan)

    plans, out = small_plans(2, methods=("dann_flip", "rpt")), tmp_path / "records.jsonl"
    with pytest.raises(Interrupted) as stopped:
        run_plans(plans, out=out, root=tmp_path, cache=tmp_path, work=work)
    assert stopped.value.step == 2
    assert [record.key for record in read_records([out])] == ran
    run_plans(plans, out=out, root=tmp_path, cache=tmp_path, work=lambda plan, **_: record_of(plan))
    assert sorted(record.key for record in read_records([out])) == sorted(plan.key() for plan in plans)


def test_progress_is_on_standard_output_and_in_a_log_beside_the_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plans, out = small_plans(3, methods=("rpt",)), tmp_path / "records.jsonl"
    append_record(out, record_of(plans[0]))
    run_plans(plans, out=out, root=tmp_path, cache=tmp_path, work=lambda plan, **_: record_of(plan))
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("3 runs, 1 of them")
    assert [line.split()[0] for line in rest] == ["[1/2]", "[2/2]"]
    assert [line[20:] for line in (tmp_path / "records.log").read_text().splitlines()] == [first, *rest]


def test_a_run_says_how_far_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = StepLines("rpt seed 0", tmp_path / "r.log", seconds=0.0)
    lines.on_start(None, 0, 1000)  # type: ignore[arg-type]
    lines.on_step(None, 250)  # type: ignore[arg-type]
    assert "rpt seed 0: step 250 of 1,000" in capsys.readouterr().out
    quiet = StepLines("rpt seed 0", None, seconds=1e9)
    quiet.on_start(None, 0, 1000)  # type: ignore[arg-type]
    quiet.on_step(None, 250)  # type: ignore[arg-type]
    assert capsys.readouterr().out == ""


def test_an_engine_is_used_as_a_context_and_gets_names(tmp_path: Path) -> None:
    named: list[str] = []

    class Backwards:
        def map(self, function: Any, items: Any, *, name: Any, on_retry: Any) -> Any:
            on_retry("a worker died")
            for item in reversed(items):
                named.append(name(item))
                yield item, function(item)

    plans, out = small_plans(2, methods=("rpt",)), tmp_path / "records.jsonl"
    engine = nullcontext(Backwards())
    run_plans(plans, out=out, root=tmp_path, cache=tmp_path, engine=engine, work=lambda plan, **_: record_of(plan))
    assert named == [plan.name() for plan in reversed(plans)]
    assert "a worker died" in (tmp_path / "records.log").read_text()


def test_settings_that_are_newer_than_a_record_do_not_repeat_its_run(tmp_path: Path) -> None:
    plan, other = small_plans(2, methods=("rpt",))
    written = plan.model_dump(mode="json")
    del written["train"]["clip"], written["settings"]["penalty"]
    out = tmp_path / "records.jsonl"
    append_record(out, record_of(plan, train=written["train"], settings=written["settings"]))
    assert pending([plan, other], out) == [other]
    changed = plan.model_copy(update={"train": plan.train.model_copy(update={"clip": 1.0})})
    assert pending([changed], out) == [changed]


def test_settings_that_are_gone_do_not_repeat_a_run(tmp_path: Path) -> None:
    plan, other = small_plans(2, methods=("rpt",))
    written = plan.model_dump(mode="json")
    written["train"]["gone"] = 3
    written["settings"]["rank"]["gone"] = {"deep": 1}
    record = record_of(plan, train=written["train"], settings=written["settings"])
    out = tmp_path / "records.jsonl"
    append_record(out, record.model_copy(update={"key": "old"}))
    assert pending([plan, other], out) == [other]


def test_a_plan_with_settings_that_cannot_be_used_counts_by_its_key(tmp_path: Path) -> None:
    plan, other = small_plans(2, methods=("rpt",))
    out = tmp_path / "records.jsonl"
    append_record(out, record_of(plan, settings={"penalty": "unknown"}))
    append_record(out, digit_record(settings={"penalty": "unknown"}))
    assert pending([plan, other], out) == [other]


def test_methods_of_one_seed_share_the_source_network(tmp_path: Path) -> None:
    root, out = small_digits(tmp_path), tmp_path / "records.jsonl"
    run_plans(small_plans(1), out=out, root=root, cache=tmp_path / "cache")
    assert [record.plan.method for record in read_records([out])] == ["source_only", "rpt"]
    assert len(list((tmp_path / "cache").glob("*.safetensors"))) == 1


def test_data_that_is_not_there_is_named_with_the_machine(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere"):
        run_plan(small_plans(1)[0], root=tmp_path / "nowhere", cache=tmp_path)
