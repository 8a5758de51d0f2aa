from __future__ import annotations

import json
import re

from bench_support.records import digit_record
from residapt_bench.record import Record
from residapt_bench.report.page import bench_page


def record(method: str, seed: int, value: float, *, swept: str = "", stream_weight: float = 1.0, **more: int) -> Record:
    ranks = {"conv1": (32, 32), "full3": (32, 32)} if method == "rpt" else {}
    return digit_record(
        method,
        value,
        seed=seed,
        note=f"sweep {swept}" if swept else "",
        swept=swept,
        settings={"stream_weight": stream_weight, "rank": {"weight": 1.0}},
        curve=({"step": 1000, "target_test": value - 5}, {"step": 2000, "target_test": value}),
        before=ranks,
        after=dict.fromkeys(ranks, (seed, 4)),
        **more,
    )


RECORDS = [
    *[record("dann_flip", seed, 80 + seed) for seed in range(3)],
    *[record("rpt", seed, 84 + seed) for seed in range(3)],
    record("rpt", 0, 70.0, swept="stream_weight", stream_weight=0.01),
    record("rpt", 0, 83.0, swept="stream_weight", stream_weight=100.0),
]


def charts(page: str) -> list[dict]:
    found = re.findall(r'<script type="application/json" class="chart-data">(.*?)</script>', page, re.DOTALL)
    return [json.loads(text) for text in found]


def test_curves_are_the_mean_of_the_seeds_and_leave_sweeps_out():
    traces = {trace["name"]: trace for trace in charts(bench_page(RECORDS, "digits"))[0]["data"]}
    assert traces["rpt"]["x"] == [1000, 2000]
    assert traces["rpt"]["y"] == [80.0, 85.0]
    assert traces["dann_flip"]["y"] == [76.0, 81.0]


def test_runs_of_another_length_have_their_own_chart():
    longer = record("rpt", 0, 99.0, steps=4000)
    first, second, *_ = charts(bench_page([*RECORDS, longer], "digits"))
    assert {t["name"]: t["y"] for t in first["data"]}["rpt"] == [80.0, 85.0]
    assert {t["name"]: t["y"] for t in second["data"]} == {"rpt": [94.0, 99.0]}


def test_rank_bars_show_the_mean_of_l_plus_r():
    before, after = charts(bench_page(RECORDS, "digits"))[1]["data"]
    assert before["x"] == [64.0, 64.0]
    assert after["x"] == [5.0, 5.0]


def test_a_sweep_is_drawn_over_the_logarithm_with_the_line_of_dann():
    sweep = charts(bench_page(RECORDS, "digits"))[2]
    assert sweep["data"][0]["x"] == [-2.0, 0.0, 2.0]
    assert sweep["data"][0]["y"] == [70.0, 84.0, 83.0]  # λs = 1 is the plain run of that seed
    assert sweep["layout"]["shapes"][0]["y0"] == 80.0  # DANN of that seed


def test_data_that_is_not_the_published_file_is_said_so():
    assert "not the published ones" in bench_page(RECORDS, "digits")


def test_without_rpt_runs_there_is_no_rank_chart():
    assert 'id="ranks"' not in bench_page(RECORDS[:3], "digits")
