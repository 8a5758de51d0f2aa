from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from residapt.cli.app import app
from residapt.errors import ResidaptError
from residapt.report import write_report
from residapt.report.layers import finding
from residapt.report.run_data import read_metrics, read_run, read_settings
from residapt.report.verdict import headline, scored_sets
from residapt.report.words import count, duration, number, plural, signed
from residapt.storage.summary import Accuracy, LayerRanks, Verdict
from support.made_up_run import CLASSES, HELD_OUT, NOTE, SCORES, fifty_layers, make_run
from support.page_reader import Seen


def text_of(path: Path) -> str:
    """What a reader sees, without scripts and styles."""
    page = re.sub(r"<(script|style)\b.*?</\1>", "", path.read_text(encoding="utf-8"), flags=re.S)
    return re.sub(r"\s+", " ", Seen(page).text)


def headings(path: Path) -> list[str]:
    return re.findall(r"<h2>(.*?)</h2>", path.read_text(encoding="utf-8"))


def test_the_verdict_comes_first_and_nothing_is_left_out(tmp_path: Path) -> None:
    path = write_report(make_run(tmp_path / "run"))
    assert headings(path) == [
        "Verdict",
        "Accuracy and scores",
        "Predictions that changed",
        "Which classes are confused",
        "Can the confidence be relied on?",
        "Health notes",
        "Over time",
        "Where the domains differ",
        "Do the domains overlap?",
        "Class frequencies",
        "Images that look least like any class",
        "How to use the result",
        "Time",
        "Configuration",
    ]
    shown = text_of(path)
    assert "71.2 → 82.4%" in shown
    assert "+11.2 points, held-out" in shown
    assert "171 of 795 target images got another class" in shown
    assert NOTE[1:] in shown
    assert shown.count(NOTE[1:]) == 1
    assert f"residapt predict {tmp_path / 'run'} images/" in shown
    assert all(name in shown for name in CLASSES)


def test_every_accuracy_carries_its_stamp(tmp_path: Path) -> None:
    shown = text_of(write_report(make_run(tmp_path / "run")))
    assert re.search(rf"{HELD_OUT}\s*71.2\s*82.4\s*\+11.2\s*held-out\s*398", shown)
    assert re.search(r"target folder\s*71.9\s*83.1\s*\+11.2\s*transductive\s*795", shown)


@pytest.mark.parametrize(
    ("helped", "selected", "kind"),
    [
        (True, "adapted", "good"),
        (None, "adapted", "warning"),
        (False, "source", "bad"),
        (False, "adapted", "bad"),
    ],
)
def test_headlines(helped: bool | None, selected: str, kind: str) -> None:
    line, found = headline(Verdict(helped=helped, selected=selected))  # type: ignore[arg-type]
    assert line
    assert found == kind


@pytest.mark.parametrize("used", [False, True])
def test_an_accuracy_that_decided_is_marked(tmp_path: Path, used: bool) -> None:
    scored = [
        Accuracy(name="x", stage="source_only", percent=71.2, images=9, protocol="held-out", used_for_choice=used),
        Accuracy(name="x", stage="adapted", percent=82.4, images=9, protocol="held-out", used_for_choice=used),
    ]
    verdict = Verdict(helped=False, selected="adapted", chosen_by="user" if used else "force")
    shown = text_of(write_report(make_run(tmp_path / "run", accuracies=scored, verdict=verdict)))
    assert ("used for the choice" in shown) == used
    assert ("independent estimate" in shown) == used
    assert ("as you have chosen" in shown) == used
    assert ("your choice went by the labels" in shown) == used


@pytest.mark.parametrize(("selected", "way"), [("adapted", "reject"), ("source", "accept")])
def test_the_other_network_is_one_command_away(tmp_path: Path, selected: str, way: str) -> None:
    verdict = Verdict.parse({"helped": selected == "adapted", "selected": selected}, where="test")
    run = make_run(tmp_path / "run", accuracies=[], verdict=verdict)
    shown = text_of(write_report(run))
    ways = [name for name in ("accept", "reject") if f"residapt {name} {tmp_path / 'run'}" in shown]
    assert ways == [way]


def test_a_choice_of_the_user_is_not_called_forced() -> None:
    lines = [headline(Verdict(helped=False, selected="adapted", chosen_by=who))[0] for who in ("force", "user")]
    assert ["--force" in line for line in lines] == [True, False]


def test_each_headline_is_another() -> None:
    cases = [(True, "adapted"), (None, "adapted"), (False, "source"), (False, "adapted")]
    assert len({headline(Verdict.parse({"helped": h, "selected": o}, where="test")) for h, o in cases}) == 4


@pytest.mark.parametrize("chosen_by", ["guard", "user"])
@pytest.mark.parametrize(
    ("selected", "after", "words", "way"),
    [("adapted", 60.0, "accuracy fell", "reject"), ("source", 90.0, "accuracy rose", "accept")],
)
def test_labels_that_contradict_the_choice_are_mentioned_with_the_way_to_go_by_them(
    tmp_path: Path, chosen_by: str, selected: str, after: float, words: str, way: str
) -> None:
    """Unless somebody has chosen already, who knows them."""
    scored = [
        Accuracy(name="x", stage="source_only", percent=71.2, images=9, protocol="held-out"),
        Accuracy(name="x", stage="adapted", percent=after, images=9, protocol="held-out"),
    ]
    values = {"helped": selected == "adapted", "selected": selected, "chosen_by": chosen_by}
    verdict = Verdict.parse(values, where="test")
    shown = text_of(write_report(make_run(tmp_path / "run", accuracies=scored, verdict=verdict)))
    assert (f"The labelled images disagree: {words}" in shown) == (chosen_by == "guard")
    offered = shown.count(f"residapt {way} {tmp_path / 'run'}")  # always among the ways to use the result
    assert offered == 1 + (chosen_by == "guard")


def test_labels_that_agree_are_no_news(tmp_path: Path) -> None:
    assert "say otherwise" not in text_of(write_report(make_run(tmp_path / "run")))


def test_sets_of_one_name_but_another_protocol_stay_apart() -> None:
    scored = scored_sets(
        [
            Accuracy(name="x", stage="adapted", percent=2.0, images=5, protocol="held-out"),
            Accuracy(name="x", stage="source_only", percent=1.0, images=5, protocol="transductive"),
        ]
    )
    assert [(one.protocol, one.before, one.after, one.gain) for one in scored] == [
        ("held-out", None, 2.0, None),
        ("transductive", 1.0, None, None),
    ]


def test_source_handed_out_offers_no_adapter(tmp_path: Path) -> None:
    verdict = Verdict(helped=False, selected="source", reasons=("the source accuracy fell",))
    shown = text_of(write_report(make_run(tmp_path / "run", verdict=verdict)))
    assert "residapt.load" not in shown


def test_a_run_that_has_not_finished_shows_its_curves(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", finished=False)
    with run.metrics.open("a") as file:
        file.write('{"kind": "step", "step": 1300, "val')
    path = write_report(run)
    assert headings(path) == ["Verdict", "Health notes", "Over time", "Configuration"]
    shown = text_of(path)
    assert "This run has not finished." in shown
    assert "reached step 1,200" in shown
    assert f"residapt adapt --resume {run.path}" in shown


def test_a_summary_cut_short_counts_as_not_finished(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    run.summary.write_text(run.summary.read_text()[:500])
    shown = text_of(write_report(run))
    assert "This run has not finished." in shown
    assert "summary.json' cannot be read" in shown


def test_a_run_with_nothing_but_a_configuration(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", finished=False)
    run.metrics.unlink()
    path = write_report(run)
    assert headings(path) == ["Verdict", "Configuration"]
    assert "Nothing has been recorded yet." in text_of(path)


def test_settings_that_were_changed_are_marked(tmp_path: Path) -> None:
    settings = read_settings(make_run(tmp_path / "run").config)
    assert {one.key for one in settings if one.changed} == {
        "rank.step",
        "model.spec",
        "model.bottleneck",
        "data.image_size",
        "train.steps",
    }
    assert all(one.explanation and "``" not in one.explanation for one in settings)


def test_a_configuration_of_another_version_is_shown_as_it_is(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    run.config.write_text('method = "rpt"\n[new]\nsetting = "<script>"\n')
    shown = text_of(write_report(run))
    assert "new.setting" in shown
    assert "<script>" in shown


def test_metrics_of_a_resumed_run(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    lines = [
        {"kind": "step", "stage": "source", "step": 5, "values": {"class": 9.0}},
        {"kind": "step", "step": 10, "values": {"class": 3.0, "odd": "x"}, "ranks": {"a": [2, 3]}},
        {"kind": "step", "step": 20, "values": {"class": 2.0}, "ranks": {"a": [2, 2]}},
        {"kind": "step", "step": 10, "values": {"class": 1.0}, "ranks": {"a": [1, 1]}},
        {"kind": "note", "step": 20, "text": "hot"},
    ]
    path.write_text("\n".join([json.dumps(line) for line in lines] + ["[1]", "{cut"]))
    metrics = read_metrics(path)
    assert metrics.curves == {
        ("source", "step"): {"class": {5: 9.0}},
        ("adapt", "step"): {"class": {10: 1.0, 20: 2.0}},
    }
    assert metrics.ranks == {10: 2.0, 20: 4.0}
    assert [(note.step, note.text) for note in metrics.notes] == [(20, "hot")]


def test_long_curves_are_thinned_and_keep_their_end(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", finished=False)
    lines = [{"kind": "step", "step": step, "values": {"class": 1.0}} for step in range(1, 5002)]
    run.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
    page = write_report(run).read_text()
    steps = json.loads(re.findall(r'class="chart-data">(.*?)</script>', page)[0])["data"][0]["x"]
    assert len(steps) <= 601
    assert steps[-1] == 5001


def test_many_classes_show_those_that_changed_most(tmp_path: Path) -> None:
    names = [f"class {place}" for place in range(100)]
    flat = [0.01] * 100
    moved = [0.01 + (0.005 if place == 77 else -0.005 if place == 78 else 0.0) for place in range(100)]
    frequencies = {"source": flat, "target_before": flat, "target_after": moved}
    path = write_report(make_run(tmp_path / "run", classes=names, frequencies=frequencies))
    specs = [json.loads(one) for one in re.findall(r'class="chart-data">(.*?)</script>', path.read_text())]
    rows = next(s["layout"]["yaxis"]["ticktext"] for s in specs if "class 77" in str(s["layout"].get("yaxis")))
    assert len(rows) == 40
    assert {"class 77", "class 78"} <= set(rows)
    assert "60 more are in the table" in text_of(path)


def test_pictures_that_are_no_base64_are_left_out(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    summary = json.loads(run.summary.read_text())
    summary["changed"][0]["thumbnail"] = 'x" onerror="alert(1)'
    run.summary.write_text(json.dumps(summary))
    page = write_report(run).read_text()
    assert "alert(1)" not in page
    assert page.count("data:image/jpeg;base64,") == len(summary["changed"]) - 1 + len(summary["unusual"])


def layer(name: str, before: tuple[int, int], after: tuple[int, int]) -> LayerRanks:
    return LayerRanks(layer=name, shape=(10, 10), before=before, after=after)


def test_ranks_in_words() -> None:
    some = [layer("a", (8, 8), (2, 3)), layer("b", (4, 4), (4, 2)), layer("c", (8, 8), (0, 0))]
    for value in ("1 layer of 3", " b ", "4 of 4", "2 of 4"):
        assert value in finding(some)
    shared, full = finding([layer("a", (8, 8), (0, 0))]), finding([layer("a", (8, 8), (8, 8))])
    assert len({finding(some), shared, full}) == 3


def charts_of(path: Path, section: str) -> list[dict[str, Any]]:
    found = re.search(rf'<section id="{section}">.*?</section>', path.read_text(encoding="utf-8"), re.S)
    assert found
    return [json.loads(one) for one in re.findall(r'class="chart-data">(.*?)</script>', found[0], re.S)]


def test_of_fifty_layers_those_that_keep_a_rank_are_drawn(tmp_path: Path) -> None:
    path = write_report(make_run(tmp_path / "run", ranks=fifty_layers()))
    (chart,) = charts_of(path, "ranks")
    kept = [one for one in fifty_layers() if min(one.after) > 0]
    assert chart["layout"]["yaxis"]["ticktext"] == [one.layer for one in kept]
    bars = [trace["x"] for trace in chart["data"] if trace["type"] == "bar"]
    assert bars == [[one.after[0] for one in kept], [one.after[1] for one in kept]]
    marks = [trace["x"] for trace in chart["data"] if trace["type"] == "scatter"]
    assert marks == [[32] * 6] * 2
    folded = re.search(r"<details><summary>.{0,40}50.*?</details>", path.read_text(encoding="utf-8"), re.S)
    assert folded
    assert all(one.layer in folded[0] for one in fifty_layers())


def test_many_layers_that_keep_a_rank_are_cut_to_those_that_keep_most(tmp_path: Path) -> None:
    ranks = [layer(f"l{place}", (50, 50), (place + 1, 1)) for place in range(50)]
    (chart,) = charts_of(write_report(make_run(tmp_path / "run", ranks=ranks)), "ranks")
    assert chart["layout"]["yaxis"]["ticktext"] == [f"l{place}" for place in range(30, 50)]


def test_no_chart_where_all_layers_are_shared(tmp_path: Path) -> None:
    assert charts_of(write_report(make_run(tmp_path / "run", ranks=[layer("a", (8, 8), (0, 0))])), "ranks") == []


def test_table_and_chart_of_a_score_are_on_one_scale(tmp_path: Path) -> None:
    """BNM and SND of the curve and of the table differ by less than the score itself moves."""
    run = make_run(tmp_path / "run")
    curves = read_metrics(run.metrics).curves["adapt", "scores"]
    for chart in charts_of(write_report(run), "curves"):
        assert chart["layout"]["xaxis"]["range"][0] == 0
    for name in ("bnm", "snd"):
        before, after = SCORES[name]
        assert curves[name][0] == pytest.approx(before, rel=0.05)
        assert max(curves[name]) == 1200
        assert curves[name][1200] == pytest.approx(after, rel=0.05)


def test_the_header_names_the_recipe(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    run.config.write_text(re.sub(r'^recipe = "\w+"', 'recipe = "plus"', run.config.read_text(), flags=re.MULTILINE))
    facts = re.search(r'class="facts muted">(.*?)</p>', write_report(run).read_text(), re.S)
    assert facts
    assert "plus" in Seen(facts[1]).text


def test_confusions_have_the_names_and_counts_of_the_summary(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    data = read_run(run)
    assert data.summary
    matrix = torch.tensor(data.summary.calibrations[1].confusion)
    chart = charts_of(write_report(run), "confusion")[0]
    torch.testing.assert_close(torch.tensor(chart["data"][0]["z"]), matrix / matrix.sum(1, keepdim=True))
    assert chart["layout"]["yaxis"]["ticktext"] == chart["layout"]["xaxis"]["ticktext"] == list(data.summary.classes)
    assert chart["layout"]["yaxis"]["autorange"] == "reversed"
    wrong = matrix.clone().fill_diagonal_(0)
    text = text_of(run.report)
    rows = [
        rf"{data.summary.classes[true]}\s*{data.summary.classes[found]}\s*{int(wrong.max())}\s*\d+%"
        for true, found in (wrong == wrong.max()).nonzero().tolist()
    ]
    assert any(re.search(row, text) for row in rows)


def test_calibration_errors_and_diagram(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    data = read_run(run)
    assert data.summary
    one = data.summary.calibrations[1]
    text = text_of(write_report(run))
    for scored in data.summary.calibrations:
        assert f"{100 * scored.plain.error:.1f}%" in text
        assert f"{100 * scored.scaled.error:.1f}%" in text
    (chart,) = charts_of(run.report, "calibration")
    assert chart["data"][1]["x"] == pytest.approx([point.confidence for point in one.plain.bins])
    assert chart["data"][2]["y"] == pytest.approx([point.accuracy for point in one.scaled.bins])


def test_without_labels_the_temperature_alone_is_told(tmp_path: Path) -> None:
    path = write_report(make_run(tmp_path / "run", calibrations=[], accuracies=[]))
    assert "1.40" in text_of(path)
    assert charts_of(path, "calibration") == []
    assert 'id="confusion"' not in path.read_text()


def test_unusual_images_are_shown_with_their_number(tmp_path: Path) -> None:
    text = text_of(write_report(make_run(tmp_path / "run")))
    assert "9 target images" in text
    assert all(f"camera 2/odd{place}.jpg" in text for place in range(5))
    assert 'id="unusual"' not in write_report(make_run(tmp_path / "none", unusual=[])).read_text()


def test_numbers_in_words() -> None:
    assert [duration(s) for s in (3.4, 59.6, 125, 3725)] == ["3 s", "1 min 0 s", "2 min 5 s", "1 h 2 min"]
    assert (count(12345), signed(-3.14), signed(2), number(-0.12345)) == ("12,345", "−3.1", "+2.0", "−0.123")
    assert (plural(1, "note"), plural(2, "note"), plural(2, "class", "classes")) == ("1 note", "2 notes", "2 classes")


def test_the_command_writes_the_page_and_says_where(tmp_path: Path) -> None:
    import residapt.cli.report  # noqa: F401  registers the command

    run = make_run(tmp_path / "run")
    result = CliRunner().invoke(app, ["report", str(run.path)])
    assert result.exit_code == 0
    assert str(run.report) in result.output
    assert run.report.is_file()


def test_the_command_refuses_a_folder_that_is_no_run(tmp_path: Path) -> None:
    import residapt.cli.report  # noqa: F401  registers the command

    result = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert isinstance(result.exception, ResidaptError)
    assert "not a run directory" in str(result.exception)


def test_a_run_reads_what_it_wrote(tmp_path: Path) -> None:
    data = read_run(make_run(tmp_path / "run"))
    assert data.summary is not None
    assert data.problem == ""
    assert data.setting("model.spec") == "timm:tf_efficientnet_lite0"
    assert data.setting("no.such") == ""


def test_the_time_of_each_part_is_told_with_its_share(tmp_path: Path) -> None:
    shown = text_of(write_report(make_run(tmp_path / "run")))
    rows = [("adaptation", "14 min 21 s", "60%", "1,188"), ("checks", "1 min 0 s", "4%"), ("all", "23 min 57 s")]
    for row in rows:
        assert "".join(row) in shown
    assert "took 9% of the time" in shown
