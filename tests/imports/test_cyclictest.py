"""cyclictest: wake-ups, by histogram or summed up; text and JSON of one run agree."""

from __future__ import annotations

import json
import re
from dataclasses import astuple
from math import ceil

import pytest

from latlab.model.errors import UsageError
from support.imports.files import Importing, text


def own_percentile(histogram: dict[str, int], cycles: int, p: float) -> int | None:
    """The microsecond in which the value lies; None beyond the histogram."""
    rank, seen = ceil(p * cycles), 0
    for us, count in sorted((int(us), count) for us, count in histogram.items()):
        seen += count
        if seen >= rank:
            return us * 1000
    return None


@pytest.mark.parametrize("thread", ["0", "1"])
@pytest.mark.parametrize("name", ["cyclictest-smp.json", "cyclictest-smp.txt"])
def test_figures_are_those_of_its_json(importing: Importing, name: str, thread: str) -> None:
    own = json.loads(text("cyclictest-smp.json"))["thread"][thread]
    figures = importing(name).figures(f"thread-{thread}", "wakeup")
    assert (figures["min"], figures["max"]) == (own["min"] * 1000, own["max"] * 1000)
    assert figures["mean"] == pytest.approx(own["avg"] * 1000, abs=1000)
    assert figures["n"] == pytest.approx(own["cycles"], abs=4)  # what it prints, it printed a moment earlier
    for key, p in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        assert figures[key] == own_percentile(own["histogram"], figures["n"], p), key


def test_a_percentile_has_its_bin_as_uncertainty_and_none_beyond_the_histogram(importing: Importing) -> None:
    figures = importing("cyclictest-smp.json").figures("thread-0", "wakeup")
    assert figures["bins"]["p50"] == [figures["p50"], figures["p50"] + 1000]
    assert figures["uncertainty_ns"] >= 1000
    assert figures["above"] == 20  # of 1999 values: p99 is among them
    assert figures["p99"] is None
    assert figures["stddev"] is None


def test_the_sum_of_all_threads_is_no_thread(importing: Importing) -> None:
    assert set(importing("cyclictest-sum.txt").streams) == {"thread-0", "thread-1"}


def test_a_line_a_thread_has_extremes_and_no_percentiles(importing: Importing) -> None:
    figures = importing("cyclictest-quiet.txt").figures("thread-0", "wakeup")
    assert (figures["n"], figures["min"], figures["mean"], figures["max"]) == (2000, 12_000, 24_000, 479_000)
    assert figures["p50"] is None
    assert figures["kept"] == "summary"


def test_skipped_periods_are_told_of(importing: Importing) -> None:
    assert any("1102 cycles while another made 1999" in note for note in importing("cyclictest-smp.txt").found.notes)
    assert not any("cycles while" in note for note in importing("cyclictest-quiet.txt").found.notes)


def test_the_unit_is_what_is_reported_and_that_it_was_assumed_is_said(importing: Importing) -> None:
    assumed, told = importing("cyclictest-quiet.txt"), importing("cyclictest-quiet.txt", unit="ns")
    assert any("assumed to be microseconds" in note for note in assumed.found.notes)
    assert told.figures("thread-0", "wakeup")["max"] == 479
    assert not any("assumed to be" in note for note in told.found.notes)


def test_nanoseconds_are_read_from_its_json(importing: Importing) -> None:
    document = json.loads(text("cyclictest-smp.json"))
    document["resolution_in_ns"] = 1
    figures = importing(json.dumps(document, indent=2).encode()).figures("thread-0", "wakeup")
    assert (figures["max"], figures["bins"]["p50"]) == (1199, [16, 17])


SUMMED = re.compile(r"(\d{6} |# (?:Min|Avg|Max) Latencies: |# Histogram Overflows: |# Total: )(\d+)([\t ])(\d+)")


def never_ran(name: str, *threads: int) -> bytes:
    """The file, if these threads had not run: with what cyclictest begins with."""
    if name.endswith("json"):
        document = json.loads(text(name))
        for one in threads:
            document["thread"][str(one)] |= {"histogram": {}, "cycles": 0, "min": 1_000_000, "max": 0, "avg": 0.0}
        return json.dumps(document, indent=2).encode()

    def line_of(line: str) -> str:
        if not (match := SUMMED.fullmatch(line)):
            return line
        head, first, between, second = match.groups()
        begins = "1000000" if "Min" in head else "0"
        return head + between.join(
            begins.zfill(len(own)) if place in threads else own for place, own in enumerate((first, second))
        )

    return "\n".join(map(line_of, text(name).splitlines())).encode()


@pytest.mark.parametrize("name", ["cyclictest-smp.json", "cyclictest-smp.txt"])
def test_a_thread_that_never_ran_has_no_figures(importing: Importing, name: str) -> None:
    found = importing(never_ran(name, 1))
    assert set(found.streams) == {"thread-0"}
    assert ("threads", 1, "without a completed cycle") in [astuple(one) for one in found.found.left_out]
    assert not any("may be nanoseconds" in finding for _, finding in found.checks)
    with pytest.raises(UsageError, match="no thread that completed a cycle"):
        importing(never_ran(name, 0, 1))


def test_it_is_a_metric_of_ours_and_no_latency(importing: Importing) -> None:
    found = importing("cyclictest-smp.json")
    assert {name for block in found.streams.values() for name in block["metrics"]} == {"wakeup"}
    assert found.result["label"] == "imported"


def test_a_histogram_without_its_totals_was_cut(importing: Importing) -> None:
    cut = "\n".join(text("cyclictest-smp.txt").splitlines()[:40])
    found = importing(cut.encode())
    assert ("untrusted", "a file is cut short") in found.checks
    assert found.figures("thread-0", "wakeup")["mean"] is None


def test_another_file_version_is_refused_by_name(importing: Importing) -> None:
    document = json.loads(text("cyclictest-smp.json"))
    document["file_version"] = 2
    with pytest.raises(UsageError, match="JSON, file version 2: latlab reads file version 1"):
        importing(json.dumps(document, indent=2).encode())


@pytest.mark.parametrize(
    "damage", ['"thread": {}', '"thread": {"0": {"min": 1}}', '"thread": {"0": {"cycles": 1e400}}']
)
def test_json_without_a_whole_thread_is_an_error(importing: Importing, damage: str) -> None:
    head = '{"file_version": 1, "cmdline:": "cyclictest -q", "rt_test_version:": "2.40", '
    with pytest.raises(UsageError, match="thread"):
        importing((head + damage + "}").encode(), as_format="cyclictest-json")


@pytest.mark.parametrize("colon", [":", ""], ids=["colon", "no colon"])
@pytest.mark.parametrize("path", ["", "./", "/usr/bin/"])
def test_its_json_is_recognised_however_it_was_called(importing: Importing, path: str, colon: str) -> None:
    document = json.loads(text("cyclictest-smp.json"))
    command, version = path + document.pop("cmdline:"), document.pop("rt_test_version:")
    told = {f"cmdline{colon}": command, f"rt_test_version{colon}": version}
    found = importing(json.dumps(told | document).encode())
    assert found.outcome.format.name == "cyclictest-json"
    assert found.found.version == f"rt-tests {version}"
    assert found.found.facts["command"] == command


def test_json_of_another_of_rt_tests_is_not_taken_for_cyclictests(importing: Importing) -> None:
    document = json.loads(text("cyclictest-smp.json")) | {"cmdline:": "/opt/cyclictest/oslat -D1"}
    with pytest.raises(UsageError, match="recognised"):
        importing(json.dumps(document).encode())


@pytest.mark.parametrize(("name", "n"), [("rows-missing", 1002), ("rows-out-of-order", 1000)])
def test_rows_that_are_not_what_its_total_says_have_no_percentile(importing: Importing, name: str, n: int) -> None:
    found = importing(f"cyclictest-{name}.txt")
    assert ("untrusted", "rows are missing, or appear twice") in found.checks
    figures = found.figures("thread-0", "wakeup")
    assert (figures["n"], figures["p50"], figures["kept"]) == (n, None, "summary")  # what it printed itself stays
    assert figures["max"] in (7_000, 71_000)


def test_rows_of_nothing_may_be_filtered_out(importing: Importing) -> None:
    lines = [line for line in text("cyclictest-histogram-twice.txt").splitlines()[:30] if not line.endswith(" 000000")]
    found = importing("\n".join(lines).encode())
    assert found.result["verdict"] == "suspect"
    assert found.figures("thread-0", "wakeup")["p50"] == 6_000


def test_json_whose_bins_are_not_its_cycles_has_no_percentile(importing: Importing) -> None:
    document = json.loads(text("cyclictest-smp.json"))
    bins = document["thread"]["0"]["histogram"]
    bins[next(iter(bins))] += 5_000
    found = importing(json.dumps(document).encode())
    assert ("untrusted", "rows are missing, or appear twice") in found.checks
    assert found.figures("thread-0", "wakeup")["p50"] is None
    assert found.figures("thread-1", "wakeup")["p50"] is not None


def test_threads_of_longer_intervals_missed_nothing(importing: Importing) -> None:
    assert not any("missed" in note for note in importing("cyclictest-distance.txt").notes)


def test_a_thread_that_missed_periods_is_compared_with_its_own(importing: Importing) -> None:
    (note,) = [note for note in importing("cyclictest-really-missed.txt").notes if "missed" in note]
    assert note.startswith(
        "thread 1 made 4100 of the 6667 cycles of 1500 µs that 10.0 s have: it missed 2567 periods (38.5"
    )


def test_nanoseconds_taken_for_microseconds_are_questioned(importing: Importing) -> None:
    taken, told = importing("cyclictest-nanoseconds.txt"), importing("cyclictest-nanoseconds.txt", unit="ns")
    assert ("untrusted", "these microseconds are nanoseconds") in taken.checks
    assert any("--unit ns" in one["remedy"] for one in taken.result["reasons"])
    assert told.result["verdict"] == "suspect"
    assert not told.found.problems
    assert told.figures("thread-0", "wakeup")["max"] == 60_124


def test_slow_microseconds_are_not_questioned(importing: Importing) -> None:
    found = importing("cyclictest-microseconds-slow.txt")
    assert not found.found.problems
    assert found.figures("thread-0", "wakeup")["max"] == 91_044_000


def test_microseconds_stated_to_be_nanoseconds_are_questioned(importing: Importing) -> None:
    found = importing("cyclictest-distance.txt", unit="ns")
    assert ("untrusted", "these nanoseconds are microseconds") in found.checks


def test_single_cycles_of_v_are_refused_by_the_cause(importing: Importing) -> None:
    with pytest.raises(UsageError, match="with -q instead of -v"):
        importing(b"       0:       0:      10\n       0:       1:       9\n", as_format="cyclictest")
