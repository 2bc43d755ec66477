"""sockperf: round trips of single messages, by the timestamps and never halved."""

from __future__ import annotations

import re

import pytest

from latlab.model.errors import UsageError
from support.imports.files import Importing, text


def printed(name: str, what: str) -> float:
    found = re.search(rf"{what}\D*?([\d.]+)", text(name))
    assert found is not None
    return float(found[1])


def test_round_trips_are_what_sockperf_says_of_them(importing: Importing) -> None:
    figures = importing("sockperf-ping-pong.csv").figures("server-0", "round_trip")
    name = "sockperf-ping-pong.csv"
    assert figures["n"] == 109
    assert figures["mean"] == pytest.approx(printed(name, "avg-rtt=") * 1000, abs=1)
    assert figures["max"] == pytest.approx(printed(name, "<MAX> observation = ") * 1000, abs=2)
    assert figures["min"] == pytest.approx(printed(name, "<MIN> observation = ") * 1000, abs=2)
    n = figures["n"]
    assert figures["stddev"] * (n / (n - 1)) ** 0.5 == pytest.approx(
        printed(name, "std-dev=") * 1000, abs=1
    )  # a sample's


def test_a_log_of_halves_gives_whole_round_trips(importing: Importing) -> None:
    figures = importing("sockperf-under-load.csv").figures("server-0", "round_trip")
    assert figures["n"] == 53
    assert figures["mean"] == pytest.approx(2 * printed("sockperf-under-load.csv", "avg-latency=") * 1000, abs=4)
    assert figures["max"] == pytest.approx(2 * printed("sockperf-under-load.csv", "<MAX> observation = ") * 1000, abs=3)


def test_it_is_no_latency_and_needs_no_second_clock(importing: Importing) -> None:
    found = importing("sockperf-ping-pong.csv")
    assert set(found.streams["server-0"]["metrics"]) == {"round_trip"}
    assert found.figures("server-0", "round_trip")["uncertainty_ns"] == 0
    assert found.result["verdict"] == "suspect"
    assert found.packets["launch_tai_ns"].null_count() == found.packets.height


def test_counts_are_sockperfs_own(importing: Importing) -> None:
    counts = importing("sockperf-under-load.csv").streams["server-0"]["counts"]
    assert (counts["sent"], counts["received"], counts["lost"], counts["duplicated"]) == (105, 53, 0, 0)


def test_dropped_and_late_messages_are_told_of(importing: Importing) -> None:
    said = text("sockperf-ping-pong.csv").replace(
        "dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0",
        "dropped messages = 3; # duplicated messages = 1; # out-of-order messages = 2",
    )
    found = importing(said.encode())
    assert found.figures("server-0", "round_trip")["lost"] == 3
    assert found.left_out()["messages"] == 2


def test_several_servers_are_several_streams(importing: Importing) -> None:
    one = text("sockperf-ping-pong.csv")
    body = one[one.index("sockperf: ========= Printing") :]
    found = importing((one + body.replace("Server No: 0", "Server No: 1")).encode())
    assert {name: block["counts"]["scheduled"] for name, block in found.streams.items()} == {
        "server-0": 109,
        "server-1": 109,
    }


def test_a_column_that_is_not_what_the_timestamps_say_is_told_of(importing: Importing) -> None:
    said = text("sockperf-ping-pong.csv").replace(", 140.528", ", 150.528")
    assert any("in 1 row the last column" in note for note in importing(said.encode()).found.notes)
    assert not any("last column differs" in note for note in importing("sockperf-under-load.csv").found.notes)


def test_a_log_that_was_cut_is_read_as_far_as_it_goes(importing: Importing) -> None:
    lines = text("sockperf-ping-pong.csv").splitlines()[:60]
    found = importing("\n".join([*lines, "37, 2.590"]).encode())
    assert ("untrusted", "a file is cut short") in found.checks
    assert found.left_out() == {"rows": 1}


def test_a_clock_that_goes_back_is_told_of(importing: Importing) -> None:
    lines = text("sockperf-ping-pong.csv").splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("50, "))
    lines[place] = re.sub(r"\d\.(\d{9}), \d\.(\d{9})", r"1.\1, 1.\2", lines[place])
    assert ("untrusted", "a clock was stepped back") in importing("\n".join(lines).encode()).checks


def test_a_log_without_observations_is_empty(importing: Importing) -> None:
    with pytest.raises(UsageError, match="empty: there is no observation"):
        importing(text("sockperf-ping-pong.csv").split("0, 2.4")[0].encode())


def test_the_log_of_an_older_version_is_refused_by_name(importing: Importing) -> None:
    old = "------------------------------\ntxTime, rxTime\n2.405899978, 2.406040506\n"
    with pytest.raises(UsageError, match=r"sockperf 3\.3 or older: latlab reads those of 3\.4 to 3\.10"):
        importing(old.encode())


@pytest.mark.parametrize("separator", ["; ", ";", "\t", ","])
def test_a_log_with_other_separators_is_not_called_empty(importing: Importing, separator: str) -> None:
    """As a spreadsheet writes it: an error that it is empty would cause a needless repetition."""
    said = text("sockperf-under-load.csv").replace(", ", separator)
    with pytest.raises(UsageError, match=re.escape(f"its columns are separated by {separator!r}: expected ', '")):
        importing(said.encode())
