"""isochron's own exports: the packets that it prints give the figures of its file, its summary gives its figures."""

from __future__ import annotations

import pytest

from latlab.model.errors import UsageError
from support.imports.files import Importing, text

LETTERS = "qSwstTaRrA"


def test_exported_packets_give_the_figures_of_the_log_itself(importing: Importing) -> None:
    of_log, of_text = importing("isochron.dat"), importing("isochron-report.csv", columns=LETTERS)
    for metric, figures in of_text.streams["packets"]["metrics"].items():
        own = of_log.figures("packets", metric)
        assert {key: figures[key] for key in figures if key != "worst"} == {
            key: own[key] for key in own if key != "worst"
        }, metric
    # The cycle was not exported, and without it there is no period to be off from.
    assert set(of_log.streams["packets"]["metrics"]) - set(of_text.streams["packets"]["metrics"]) == {"arrival_offset"}
    assert of_text.streams["packets"]["counts"]["lost"] == 1


def test_a_heading_in_isochrons_letters_names_the_columns(importing: Importing) -> None:
    headed = ",".join(LETTERS) + "\n" + text("isochron-report.csv")
    found = importing(headed.encode())
    assert found.outcome.format.name == "isochron-csv"
    assert found.packets.height == 40


def test_two_columns_are_enough_for_what_is_between_them(importing: Importing) -> None:
    found = importing(b"T,R\n1000,9000\n2000,10500\n", as_format="isochron-csv")
    figures = found.figures("packets", "path")
    assert (figures["n"], figures["min"], figures["max"]) == (2, 8000, 8500)
    assert list(found.streams["packets"]["metrics"]) == ["path"]


def test_columns_that_nobody_names_are_asked_for(importing: Importing) -> None:
    with pytest.raises(UsageError, match=r"columns have no names.*--columns LETTERS.*T tx_hard"):
        importing("isochron-report.csv", as_format="isochron-csv")


@pytest.mark.parametrize(("letters", "said"), [("SX", "no variable 'X'"), ("TTR", "twice"), ("qT", "fewer than two")])
def test_letters_that_cannot_be_are_reported(importing: Importing, letters: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        importing("isochron-report.csv", columns=letters)


def test_lines_that_are_cut_or_foreign_are_counted(importing: Importing) -> None:
    lines = text("isochron-report.csv").splitlines()
    damaged = [*lines[:10], "what is this", lines[10][:50], *lines[11:], lines[3], f"{'9' * 30},{lines[5]}"]
    found = importing("\n".join(damaged).encode(), columns=LETTERS)
    assert found.left_out() == {"lines": 3, "rows": 1}
    # The packet of the line that was cut is a row of which nothing is known.
    assert (found.packets.height, found.packets["launch_tai_ns"].null_count()) == (40, 1)


def test_its_summary_has_its_figures_and_no_percentile(importing: Importing) -> None:
    found = importing("isochron-summary.txt")
    path = found.figures("packets", "path")
    assert (path["min"], path["max"], path["mean"], path["stddev"]) == (6488, 7158, 7040.632, 104.273)
    assert (path["min_sequence"], path["max_sequence"]) == (20, 21)
    assert (path["n"], path["p50"], path["p99"], path["kept"]) == (None, None, None, "summary")
    assert path["uncertainty_ns"] is None
    assert found.figures("packets", "wakeup")["uncertainty_ns"] == 0
    assert found.figures("packets", "latency")["lost"] == 1


def test_what_is_no_metric_of_ours_is_named(importing: Importing) -> None:
    whys = {one.why.split(":")[0] for one in importing("isochron-summary.txt").found.left_out}
    assert whys == {
        f"isochron's '{name}'" for name in ("Wakeup to HW TX timestamp", "Sender latency", "Driver latency")
    }


def test_numbers_that_are_not_in_the_file_leave_room(importing: Importing) -> None:
    rows = [(10, 50), (11, 70), (15, 900), (16, 60), (17, 80)]
    found = importing(("q,T,R\n" + "".join(f"{q},{q}000,{q}{delay:03}\n" for q, delay in rows)).encode())
    path, counts = found.figures("packets", "path"), found.streams["packets"]["counts"]
    assert (path["n"], path["max"], path["max_sequence"], path["missing"]) == (5, 900, 5, 0)
    assert (counts["sent"], counts["received"], counts["lost"], counts["unsent"]) == (5, 5, 0, None)
    rows_there = found.packets.drop_nulls(["tx_hard_tai_ns"])["sequence"].to_list()
    assert (found.packets.height, rows_there) == (8, [0, 1, 5, 6, 7])
    assert "packets are counted from 0: packet n is isochron's seqid n + 10" in found.notes
    assert any(note.startswith("3 numbers between the first and the last are not in the file") for note in found.notes)


def test_numbers_far_apart_take_no_memory(importing: Importing) -> None:
    found = importing(b"q,T,R\n1,1000,9000\n9000000000000000000,2000,10500\n")
    assert found.packets.height == 2
    assert any("too many to keep gaps for" in note for note in found.notes)


def test_a_file_without_any_sequence_number_of_a_packet_is_empty(importing: Importing) -> None:
    with pytest.raises(UsageError, match="empty"):
        importing(b"q,T,R\n0,1000,9000\n")


@pytest.mark.parametrize("name", ["isochron.dat", "isochron-summary.txt"])
def test_what_isochron_calls_a_packet_is_reported(importing: Importing, name: str) -> None:
    assert "packets are counted from 0: packet n is isochron's seqid n + 1" in importing(name).notes


@pytest.mark.parametrize("bound_ns", [None, 250])
def test_the_uncertainty_is_that_of_the_log_itself_in_each_of_its_exports(
    importing: Importing, bound_ns: int | None
) -> None:
    of_log = importing("isochron.dat", clock_bound_ns=bound_ns).streams["packets"]["metrics"]
    exports = {"isochron-report.csv": LETTERS, "isochron-summary.txt": None}
    for name, columns in exports.items():
        metrics = importing(name, columns=columns, clock_bound_ns=bound_ns).streams["packets"]["metrics"]
        assert {"path", "latency", "lateness", "delivery", "wakeup"} <= set(metrics)
        for metric, figures in metrics.items():
            assert figures["uncertainty_ns"] == of_log[metric]["uncertainty_ns"], (name, metric)


@pytest.mark.parametrize(
    ("version", "figures"),
    [
        ("2020", {"path": (6480, 6623), "lateness": (1200, 1541), "latency": (7680, 8112)}),
        (
            "brackets",
            {"latency": (6992, 7212), "lateness": (512, 611), "delivery": (13300, 14560), "path": (6480, 6623)},
        ),
        ("advance", {"latency": (-170_000, -162_850), "lateness": (-180_000, -172_300)}),
    ],
)
def test_summaries_of_other_versions_have_the_same_metrics(
    importing: Importing, version: str, figures: dict[str, tuple[int, int]]
) -> None:
    found = importing(f"isochron-summary-{version}.txt")
    for metric, (least, most) in figures.items():
        own = found.figures("packets", metric)
        assert (own["min"], own["max"]) == (least, most)
        assert own["min"] < own["mean"] < own["max"]


def test_what_is_turned_round_has_the_packets_of_its_extremes_exchanged(importing: Importing) -> None:
    latency = importing("isochron-summary-advance.txt").figures("packets", "latency")
    assert (latency["min_sequence"], latency["max_sequence"]) == (0, 7)  # isochron's 1 and 8
    assert latency["stddev"] == 2243.834
    assert importing("isochron-summary-2020.txt").figures("packets", "path")["min_sequence"] is None


def test_timestamps_in_microseconds_are_questioned(importing: Importing) -> None:
    rows = [(n, 1_700_000_000_000_000 + n * 500, 1_700_000_000_000_012 + n * 500) for n in range(1, 41)]
    for unit, questioned in ((1, True), (1_000, False)):
        lines = "".join(f"{n},{out * unit},{came * unit}\n" for n, out, came in rows)
        found = importing(f"q,S,R\n{lines}".encode(), as_format="isochron-csv")
        assert (("untrusted", "these nanoseconds are microseconds") in found.checks) == questioned
