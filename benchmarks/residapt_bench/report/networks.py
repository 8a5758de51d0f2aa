"""The rule that chooses a source network, the candidates beside it, and what it chooses; from records only."""

from __future__ import annotations

from collections.abc import Sequence

from residapt_bench.digits.network_choice import (
    RULE_PAIRS,
    Candidate,
    Judged,
    choose_network,
    judge_candidates,
    short_runs,
)
from residapt_bench.record import Record
from residapt_bench.report.markdown import markdown


def network_report(records: Sequence[Record], pair: str) -> str:
    """Candidates on the pairs of the rule, then the networks of ``pair`` by the rule; both tables as Markdown."""
    judged = judge_candidates(records)
    choice = choose_network(records, pair)
    oracle = choose_network(records, pair, by="labels")
    return "\n".join(
        (
            rule_table(judged),
            f"The rule: {judged[0].candidate.text}. On {pair} it chooses the network of seed {choice.seed}"
            f" ({_short(choice.sha256)}); the oracle, by the labels of {pair}, is the one of seed {oracle.seed}"
            f" ({_short(oracle.sha256)}).\n",
            network_table(records, pair, judged[0].candidate),
        )
    )


def rule_table(judged: Sequence[Judged]) -> str:
    """A row for each candidate, the rule first."""
    rows = [
        (
            each.candidate.text,
            *(f"{each.correlations[pair]:+.2f}" for pair in RULE_PAIRS),
            f"{each.mean:+.3f}",
            f"{each.loss:.1f}",
        )
        for each in judged
    ]
    return markdown(("score", *RULE_PAIRS, "mean rank correlation", "points lost by its pick"), rows)


def network_table(records: Sequence[Record], pair: str, rule: Candidate) -> str:
    """The networks of a pair, the chosen one first; the accuracy stands beside the score and is not chosen by."""
    runs = short_runs(records, (pair,))[pair]
    order = sorted(sorted(runs), key=lambda seed: -rule.of(runs[seed]))
    rows = [
        (
            f"**{seed}**" if seed == order[0] else str(seed),
            _short(runs[seed].source_sha256),
            f"{rule.of(runs[seed]):.4f}",
            f"{runs[seed].target:.1f}",
        )
        for seed in order
    ]
    return markdown(("seed", "network", rule.text, "accuracy after the short run"), rows)


def _short(sha256: str | None) -> str:
    return "hash unknown" if sha256 is None else sha256[:12]
