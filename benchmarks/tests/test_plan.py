from __future__ import annotations

from residapt.data.config import AugmentConfig
from residapt.methods import DiscrepancyConfig, MethodConfig
from residapt_bench.plan import Plan


def plan(method: str = "rpt", seed: int = 0, **more: object) -> Plan:
    return Plan(task="svhn-mnist", arch="lenet", method=method, seed=0, **more).with_seed(seed)


def test_runs_of_one_seed_are_paired() -> None:
    dann, rpt = plan("dann_flip", 3), plan("rpt", 3)
    assert dann.source == rpt.source
    assert dann.train.seed == rpt.train.seed == 3
    assert dann.settings.transform.seed == dann.settings.discrepancy.seed == 3
    assert dann.key() != rpt.key()


def test_varying_the_order_only_keeps_source_network_and_initialisation() -> None:
    first, second = (plan(seed=seed, varied="order") for seed in (0, 1))
    assert first.source == second.source
    assert first.settings == second.settings
    assert first.train.seed != second.train.seed


def test_the_key_depends_on_every_setting_that_changes_the_run() -> None:
    one = plan()
    assert one.key() == Plan.model_validate_json(one.model_dump_json()).key()
    assert one.key() != plan(settings=MethodConfig.parse({"rank": {"weight": 0.5}})).key()
    assert one.key() != plan(note="variant").key()
    assert one.key() == plan(tries=7).key()


def test_rank_selection_makes_another_run_of_rpt_only() -> None:
    other = MethodConfig.parse({"rank": {"every": 37}})
    same = {name: plan(name).key() == plan(name, settings=other).key() for name in ("dann_flip", "rpt_fixed", "rpt")}
    assert same == {"dann_flip": True, "rpt_fixed": True, "rpt": False}


def test_the_source_network_is_one_run_whatever_would_come_after_it() -> None:
    one = plan("source_only")
    longer = one.model_copy(update={"train": one.train.model_copy(update={"steps": 99})})
    weak = one.model_copy(
        update={"settings": one.settings.model_copy(update={"discrepancy": DiscrepancyConfig(weight=0.3)})}
    )
    assert one.key() == longer.key() == weak.key()
    cold = one.model_copy(update={"source": one.source.model_copy(update={"steps": 0})})
    changed = one.model_copy(update={"settings": MethodConfig(augment=AugmentConfig(shift=2))})
    assert len({one.key(), cold.key(), changed.key()}) == 3
