"""What the sides of a comparison lost is shown next to figures, which are of what arrived."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

from latlab.evaluation.comparison.document import compare, exit_code
from latlab.evaluation.comparison.wanted import wanted
from latlab.report.comparison.shown import comparison_markdown, print_comparison
from latlab.report.junit import comparison_junit
from latlab.result.comparison import ComparisonDocument
from support.report.compared import write_figures_run

SLOW, FAST = (24.0, 24.1, 23.9, 24.0, 24.2), (20.0, 20.1, 19.9, 20.0, 20.2)
LOST = (300, 290, 310, 305, 295)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A run that loses nothing, a faster one that loses 30 % of its packets, and one that loses some now and then."""
    write_figures_run(tmp_path / "whole", {"tap": SLOW})
    write_figures_run(tmp_path / "leaky", {"tap": FAST}, lost={"tap": LOST})
    write_figures_run(tmp_path / "unlucky", {"tap": SLOW}, lost={"tap": (0, 0, 1, 0, 0)})
    return tmp_path


def held(root: Path, *texts: str, baseline: str | None = None) -> ComparisonDocument:
    return compare(texts, root, wanted(statistics=["p50"]), baseline=baseline)


def printed(document: ComparisonDocument) -> str:
    with Console(width=300, record=True, file=StringIO()) as console:
        print_comparison(document, console)
    return console.export_text()


def test_who_is_faster_by_what_arrived_is_said_to_have_lost_the_rest(root: Path) -> None:
    document = held(root, "whole", "leaky")
    (one,) = document.losses
    assert (one.a.lost, one.b.lost, one.b.sent) == (0, sum(LOST), 5_000)
    assert one.b.shares == [lost / 1_000 for lost in LOST]
    assert one.more and not one.regression
    told = "control: B lost 30 % of its packets (1500 of 5000), A none; each repetition of B lost more than any of A"
    assert told in one.sentence
    for text in (printed(document), comparison_markdown(document)):
        assert told in text.replace("\\", "")
    assert exit_code(document) == 0


def test_against_a_baseline_a_loss_that_grew_is_a_regression(root: Path) -> None:
    document = held(root, "leaky", baseline="whole")
    (one,) = document.losses
    assert one.regression and one.sentence.endswith("a regression")
    assert all(one.regression and one.regression.outcome != "regression" for one in document.comparisons)
    assert exit_code(document) == 1
    (failure,) = ET.fromstring(comparison_junit(document)).iter("failure")
    assert failure.get("message") == one.sentence


def test_what_so_few_repetitions_may_show_by_chance_is_reported_and_no_regression(root: Path) -> None:
    for name, lost in (("new", (4, 5)), ("base", (3, 2))):
        write_figures_run(root / name, {"tap": SLOW[:2]}, lost={"tap": lost})
    document = held(root, "new", baseline="base")
    (one,) = document.losses
    assert one.more and not one.regression
    assert one.sentence.endswith("; so few repetitions may do that by chance")
    assert exit_code(document) == 0


def test_what_is_lost_now_and_then_is_reported_and_no_regression(root: Path) -> None:
    document = held(root, "unlucky", baseline="whole")
    (one,) = document.losses
    assert not one.more and not one.regression and "0.02 % of its packets (1 of 5000)" in one.sentence
    assert exit_code(document) == 0


def test_where_nobody_lost_anything_nothing_is_said(root: Path) -> None:
    write_figures_run(root / "again", {"tap": SLOW})
    document = held(root, "whole", "again")
    assert document.losses == [] and "Lost packets" not in printed(document)
