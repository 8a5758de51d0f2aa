"""Names that are checked before torch is loaded are those that exist."""

from __future__ import annotations

from typing import get_args

import pytest

from residapt.config import Selection
from residapt.errors import ConfigError
from residapt.evaluate.scores import SCORES
from residapt.methods import method_names
from residapt.methods.names import BUILT_IN, check_method


def test_the_methods_of_the_library() -> None:
    assert set(BUILT_IN) <= set(method_names())
    assert list(BUILT_IN) == [name for name in method_names() if name in BUILT_IN]


def test_the_scores() -> None:
    assert get_args(Selection) == ("last", *SCORES)


def test_a_name_that_no_method_has() -> None:
    with pytest.raises(ConfigError, match=r"'rtp'.*'rpt'"):
        check_method("rtp")
