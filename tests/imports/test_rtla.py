"""rtla: interrupts, threads and noise of each CPU, with bins as wide as they can be."""

from __future__ import annotations

import re

import pytest

from latlab.model.errors import UsageError
from support.imports.files import Importing, text


def test_each_context_of_each_cpu_is_a_metric_of_its_own(importing: Importing) -> None:
    found = importing("rtla-timerlat.txt")
    assert {name: set(block["metrics"]) for name, block in found.streams.items()} == {
        "cpu-0": {"interrupt", "wakeup"},
        "cpu-1": {"interrupt", "wakeup"},
    }
    wakeup = found.figures("cpu-0", "wakeup")
    assert (wakeup["n"], wakeup["min"], wakeup["max"], wakeup["mean"]) == (10_000, 2_000, 140_000, 3_000)
    assert (wakeup["from"], wakeup["to"]) == ("expiry", "wake")


def test_a_bin_reaches_to_the_next_multiple_of_what_all_have_in_common(importing: Importing) -> None:
    wakeup = importing("rtla-timerlat.txt").figures("cpu-0", "wakeup")
    assert wakeup["bins"]["p50"] == [2_000, 4_000]  # 6021 of 10000
    assert wakeup["bins"]["p90"] == [4_000, 6_000]
    assert wakeup["p99_9"] == 6_000  # the 9990th of 6021 + 3940 + 30
    assert wakeup["uncertainty_ns"] == 2_000  # a bin; the mean, which is cut twice, leaves out no more
    assert wakeup["above"] == 2


def test_one_bin_at_zero_is_no_wider_than_the_largest_value(importing: Importing) -> None:
    lines = text("rtla-timerlat.txt").replace("      131 ", "        3 ").replace("      140 ", "        3 ")
    kept = [line for line in lines.replace("      128 ", "        3 ").splitlines() if line[:1] not in "2468"]
    counted = re.sub(r"count: .*", "count: 9913 2 9950 1", "\n".join(kept), count=1)
    figures = importing(counted.encode()).figures("cpu-1", "interrupt")
    assert figures["bins"]["p50"][0] == 0
    assert figures["bins"]["p50"][1] <= 6_000


def test_noise_is_of_bins_beginnings(importing: Importing) -> None:
    noise = importing("rtla-osnoise.txt").figures("cpu-0", "noise")
    assert (noise["n"], noise["max"], noise["mean"]) == (473, 812_000, 6_020)
    assert (noise["bins"]["p50"], noise["bins"]["p90"]) == ([5_000, 6_000], [6_000, 7_000])
    assert noise["uncertainty_ns"] == 2_000
    assert noise["p99_9"] is None


def test_of_the_table_of_noise_the_longest_interval_is_known(importing: Importing) -> None:
    found = importing("rtla-osnoise-top.txt")
    assert {name: block["metrics"]["noise"]["max"] for name, block in found.streams.items()} == {
        "cpu-0": 55_000,
        "cpu-1": 12_000,
    }
    assert found.figures("cpu-0", "noise")["n"] is None


def test_the_last_table_counts_where_it_was_printed_again_and_again(importing: Importing) -> None:
    again = text("rtla-osnoise-top.txt")
    later = again.replace("          55 ", "          78 ")
    assert importing(("\x1bc" + again + "\x1bc" + later).encode()).figures("cpu-0", "noise")["max"] == 78_000


def test_events_that_the_tracer_lost_are_told_of(importing: Importing) -> None:
    said = text("rtla-timerlat.txt") + "12 (0.06%) events missed, results might not be accurate\n"
    assert ("suspect", "events were lost") in importing(said.encode()).checks


def test_nanoseconds_are_read_from_its_heading(importing: Importing) -> None:
    said = text("rtla-timerlat.txt").replace("microseconds (us)", "nanoseconds (ns)")
    assert importing(said.encode()).figures("cpu-0", "wakeup")["max"] == 140


def test_a_histogram_without_its_totals_was_cut(importing: Importing) -> None:
    cut = text("rtla-timerlat.txt").split("over:")[0]
    found = importing(cut.encode())
    assert ("untrusted", "a file is cut short") in found.checks
    assert found.figures("cpu-0", "wakeup")["max"] is None  # it is in the totals only


def test_without_columns_there_is_nothing_to_read(importing: Importing) -> None:
    with pytest.raises(UsageError, match="no CPU's column"):
        importing(b"# RTLA timerlat histogram\n# Time unit is microseconds (us)\n# Duration:   0 00:00:00\nIndex\n")


def test_a_run_without_noise_has_none(importing: Importing) -> None:
    found = importing("rtla-osnoise-no-noise.txt")
    assert found.figures("all-CPUs", "noise")["n"] == 0
    assert found.result["verdict"] == "suspect"
    assert any("no interval of noise" in note for note in found.notes)


def test_a_histogram_without_summary_is_whole(importing: Importing) -> None:
    found = importing("rtla-osnoise-no-summary.txt")
    assert ("untrusted", "a file is cut short") not in found.checks
    figures = [found.figures(name, "noise") for name in ("cpu-0", "cpu-1")]
    assert [one["n"] for one in figures] == [472, 318]
    assert [one[key] for one in figures for key in ("min", "mean", "max")] == [None] * 6


def test_events_that_were_lost_below_a_table_are_a_reason(importing: Importing) -> None:
    found = importing("rtla-osnoise-top-missed.txt")
    assert ("suspect", "events were lost") in found.checks
    assert found.figures("cpu-0", "noise")["max"] == 55_000


def test_rows_that_are_not_its_count_have_no_percentile(importing: Importing) -> None:
    lines = [line for line in text("rtla-timerlat.txt").splitlines() if not line.startswith("4 ")]
    found = importing("\n".join(lines).encode())
    assert ("untrusted", "rows are missing, or appear twice") in found.checks
    figures = found.figures("cpu-0", "wakeup")
    assert (figures["n"], figures["max"], figures["p50"]) == (10_000, 140_000, None)


def test_a_minimum_of_no_value_is_none(importing: Importing) -> None:
    said = re.sub(r"(?m)^min: .*$", f"min: {2**64 - 1} {2**64 - 1}", text("rtla-osnoise.txt"), count=1)
    assert importing(said.encode()).figures("cpu-0", "noise")["min"] is None


def test_the_table_of_timerlat_is_refused_by_the_cause(importing: Importing) -> None:
    table = "    Timer Latency\n  0 00:00:01   |   IRQ Timer Latency (us)\nCPU COUNT      |      cur       min\n"
    with pytest.raises(UsageError, match="rtla timerlat hist"):
        importing(table.encode())


def test_a_heading_that_names_another_unit_than_the_figures_have_is_questioned(importing: Importing) -> None:
    nanoseconds = re.sub(r"(?m)^\d+ .*\n", "", text("rtla-timerlat.txt"))
    for word, values in (
        ("min", "900 2100 800 2900"),
        ("avg", "1200 3100 1100 3300"),
        ("max", "131e3 140e3 5e3 128e3"),
    ):
        whole = " ".join(str(int(float(value))) for value in values.split())
        nanoseconds = re.sub(rf"(?m)^{word}: .*$", f"{word}: {whole}", nanoseconds, count=1)
    nanoseconds = re.sub(r"(?m)^over: .*$", "over: 10000 10000 10000 10000", nanoseconds, count=1)
    questioned = ("untrusted", "these microseconds are nanoseconds")
    found = importing(nanoseconds.encode())
    assert questioned in found.checks
    said = [one["actual"] for one in found.result["reasons"] if one["finding"] == questioned[1]]
    assert "10000 times the shortest wakeup are 21 s" in said
    told = nanoseconds.replace("Time unit is microseconds (us)", "Time unit is nanoseconds (ns)")
    assert questioned not in importing(told.encode()).checks
    other = text("rtla-timerlat.txt").replace("Time unit is microseconds (us)", "Time unit is nanoseconds (ns)")
    assert ("untrusted", "these nanoseconds are microseconds") in importing(other.encode()).checks
