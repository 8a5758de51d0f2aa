from __future__ import annotations

from residapt.methods import method_names
from residapt_bench.report.parameter_table import count_methods, markdown_table


def test_table_has_a_row_for_each() -> None:
    lines = markdown_table(count_methods("lenet")).splitlines()
    assert len(lines) == 2 + len(method_names())
    assert "| `source_only` | 431,080 | 0 | 0 | 0 | 431,080 | 1.00 | 1.00 |" in lines
