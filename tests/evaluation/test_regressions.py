"""A new run held against a baseline: what is a regression, what is allowed, and what cannot be told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from latlab.evaluation.comparison.document import compare, exit_code
from latlab.evaluation.comparison.wanted import Wanted, wanted
from latlab.model.errors import UsageError
from latlab.result.comparison import Compared, ComparisonDocument, Regression
from support.report.compared import write_figures_run

OLD = (812.0, 845.0, 835.0, 830.0, 822.0)
WORSE = tuple(value + 60 for value in OLD)
"""60 µs: shown."""


def against(tmp_path: Path, old: Any, new: Any, asked: Wanted | None = None, **options: Any) -> ComparisonDocument:
    write_figures_run(tmp_path / "old", {"tap": old} if isinstance(old, tuple) else old)
    write_figures_run(tmp_path / "new", {"tap": new} if isinstance(new, tuple) else new, **options)
    return compare(["new"], tmp_path, asked or wanted(statistics=["p50"]), baseline="old")


def judged(one: Compared) -> Regression:
    assert one.regression
    return one.regression


def outcomes(document: ComparisonDocument) -> list[str]:
    return [judged(one).outcome for one in document.comparisons]


def limited(*thresholds: str) -> Wanted:
    return wanted(statistics=["p50"], thresholds=thresholds)


def test_what_is_shown_to_be_worse_is_a_regression(tmp_path: Path) -> None:
    document = against(tmp_path, OLD, WORSE)
    assert outcomes(document) == ["regression"]
    assert exit_code(document) == 1
    said = judged(document.comparisons[0]).sentence
    assert said.startswith("regression: new is 60.0 µs slower than baseline at the median [")


def test_what_is_shown_to_be_better_is_none(tmp_path: Path) -> None:
    document = against(tmp_path, WORSE, OLD)
    assert document.comparisons[0].shown
    assert outcomes(document) == ["no regression"]
    assert exit_code(document) == 0


def test_what_is_worse_and_not_shown_is_none(tmp_path: Path) -> None:
    document = against(tmp_path, OLD, tuple(value + 5 for value in OLD))
    assert outcomes(document) == ["no regression"]
    assert exit_code(document) == 0


@pytest.mark.parametrize(
    ("limit", "outcome"),
    [
        ("59us", "regression"), ("61us", "no regression"), ("60us", "no regression"), ("0", "regression"),
        ("7.2%", "regression"), ("7.3 %", "no regression"),
    ],
)  # fmt: skip
def test_a_threshold_allows_as_much(tmp_path: Path, limit: str, outcome: str) -> None:
    # 60 µs are 7.238 % of the baseline's 828.8 µs.
    document = against(tmp_path, OLD, WORSE, limited(f"control.latency.p50={limit}"))
    assert outcomes(document) == [outcome]


def test_a_threshold_is_named_in_the_sentence(tmp_path: Path) -> None:
    (one,) = against(tmp_path, OLD, WORSE, limited("control.latency.p50=50us")).comparisons
    assert judged(one).sentence.endswith("], more than the 50 µs allowed")
    assert judged(one).threshold_ns == 50_000


def test_a_threshold_adds_its_figure_to_what_is_compared(tmp_path: Path) -> None:
    document = against(tmp_path, OLD, WORSE, limited("control.latency.p99.9=100us"))
    found = {one.statistic: judged(one).outcome for one in document.comparisons}
    assert found == {"p50": "regression", "p99_9": "no regression"}


def test_a_comparison_too_coarse_for_what_is_allowed_says_so(tmp_path: Path) -> None:
    noisy = (700.0, 900.0, 1100.0, 600.0, 850.0)
    (one,) = against(tmp_path, OLD, noisy, limited("control.latency.p50=5us")).comparisons
    assert judged(one).coarse
    assert "; too coarse to detect a change of the 5 µs allowed" in judged(one).sentence


def test_what_is_too_coarse_has_an_outcome_of_its_own_and_fails_where_power_is_needed(tmp_path: Path) -> None:
    noisy = (700.0, 900.0, 1100.0, 600.0, 850.0)
    document = against(tmp_path, OLD, noisy, limited("control.latency.p50=5us"))
    assert (exit_code(document), exit_code(document, need_power=True)) == (0, 4)


def test_a_threshold_that_could_have_been_seen_exceeded_needs_no_more_power(tmp_path: Path) -> None:
    document = against(tmp_path, OLD, OLD, limited("control.latency.p50=200us"))
    assert outcomes(document) == ["no regression"]
    assert exit_code(document, need_power=True) == 0


def test_a_regression_that_is_shown_counts_as_one_however_little_was_allowed(tmp_path: Path) -> None:
    document = against(tmp_path, OLD, WORSE, limited("control.latency.p50=1us"))
    assert outcomes(document) == ["regression"] and exit_code(document, need_power=True) == 1


@pytest.mark.parametrize("new", [(812.0,), (900.0,)])
def test_one_repetition_can_neither_pass_nor_fail(tmp_path: Path, new: tuple[float, ...]) -> None:
    document = against(tmp_path, OLD, new)
    assert outcomes(document) == ["not judged"]
    assert exit_code(document) == 4


def test_a_figure_that_the_new_run_does_not_have_is_not_passed_over(tmp_path: Path) -> None:
    document = against(tmp_path, OLD, WORSE, wanted(statistics=["p50", "p99.9"]), metric={"p99_9": None})
    assert outcomes(document) == ["regression", "not judged"]
    assert exit_code(document) == 4


def test_a_figure_that_nobody_has_is_passed_over(tmp_path: Path) -> None:
    document = against(tmp_path, OLD, OLD, wanted(statistics=["p50", "p99.99"]))
    assert outcomes(document) == ["no regression", "no figure"]
    assert exit_code(document) == 0


def test_a_cell_that_failed_is_the_labs_failure(tmp_path: Path) -> None:
    document = against(tmp_path, OLD, (*WORSE[:4], None))
    assert document.lost == ["bridge tap, repeat 5: failed"]
    assert exit_code(document) == 3


def test_an_untrusted_run_comes_before_a_regression(tmp_path: Path) -> None:
    document = against(tmp_path, OLD, WORSE, verdict="untrusted")
    assert outcomes(document) == ["regression"]
    assert exit_code(document) == 4


def test_a_suspect_run_is_distrusted_where_that_is_asked_for(tmp_path: Path) -> None:
    document = against(tmp_path, OLD, OLD, verdict="suspect")
    assert (exit_code(document), exit_code(document, strict=True)) == (0, 4)


@pytest.mark.parametrize(
    ("threshold", "said"),
    [
        ("control.latency.p50", "this is not a threshold"),
        ("latency=5us", "this is not a threshold"),
        ("control.speed.p50=5us", "there is no metric 'speed'"),
        ("control.latency.p95=5us", "there is no statistic 'p95'"),
        ("control.latency.p50=5", "'5' is not a duration"),
        ("control.latency.p50=-5us", "is not a duration"),
        ("video.latency.p50=5us", "there is no stream 'video'"),
    ],
)
def test_a_threshold_that_is_none_is_refused(tmp_path: Path, threshold: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        against(tmp_path, OLD, WORSE, limited(threshold))
    assert said in str(caught.value)
    assert threshold.partition("=")[0] in caught.value.where
    assert caught.value.remedy
