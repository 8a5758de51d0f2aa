from __future__ import annotations

from residapt.methods import method_names
from residapt.methods.names import OWN_PARAMETERS
from residapt_bench.report.parameter_table import count_methods, markdown_table


def test_table_has_a_row_for_each_that_the_network_can_have() -> None:
    counts = count_methods("lenet")
    missing = set(method_names()) - counts.keys()
    assert "norm_affine" in missing  # LeNet has no normalisation layers
    assert missing <= set(OWN_PARAMETERS)
    lines = markdown_table(counts).splitlines()
    assert len(lines) == 2 + len(counts)
    assert "| `source_only` | 431,080 | 0 | 0 | 0 | 431,080 | 1.00 | 1.00 |" in lines
