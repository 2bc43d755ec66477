"""A stated clock bound that the file itself contradicts makes figures untrusted; nothing is reversed to fit."""

from __future__ import annotations

import pytest

from support.imports.files import Importing

T = 1_700_000_000 * 10**9
S = 10**9


def table(*, hard_ns: int = 0, receiver_ns: int = 0, soft_receiver_ns: int = 0, leave_ns: int = 500) -> bytes:
    """isochron's packets each ms: leaving `leave_ns` after their time, 1.5 µs in flight; clocks off by so much."""
    lines = ["q,S,w,s,T,R,r,a"]
    for k in range(60):
        due = T + k * 1_000_000
        left = due + leave_ns
        came = left + 1_500
        sender = (due - 300_000, due - 260_000, left + hard_ns)
        receiver = (came + receiver_ns, came + 12_000 + soft_receiver_ns, came + 30_000 + soft_receiver_ns)
        lines.append(",".join(map(str, (k + 1, due, *sender, *receiver))))
    return "\n".join(lines).encode()


def test_clocks_that_agree_are_not_questioned(importing: Importing) -> None:
    found = importing(table(), clock_bound_ns=1_000)
    assert not any(severity == "untrusted" for severity, _ in found.checks)


@pytest.mark.parametrize("apart_s", [37, -37])
def test_tai_and_utc_are_named(importing: Importing, apart_s: int) -> None:
    off = apart_s * S
    found = importing(table(receiver_ns=off, soft_receiver_ns=off), clock_bound_ns=1_000)
    assert ("untrusted", "two time scales are mixed: TAI and UTC are 37 s apart") in found.checks
    (reason,) = [one for one in found.result["reasons"] if "time scales" in one["finding"]]
    assert "packets.path" in reason["where"]
    assert found.figures("packets", "path")["min"] == 1_500 + off


def test_they_are_named_without_a_bound_too(importing: Importing) -> None:
    found = importing(table(receiver_ns=37 * S, soft_receiver_ns=37 * S))
    assert any("TAI and UTC" in finding for _, finding in found.checks)


@pytest.mark.parametrize(
    ("off", "where"),
    [({"hard_ns": -400_000}, "packets: wake − tx_hard"), ({"receiver_ns": 50_000}, "packets: rx_user − rx_hard")],
)
def test_a_machines_own_timestamps_contradict_the_bound(importing: Importing, off: dict[str, int], where: str) -> None:
    """A card cannot stamp a packet before the thread woke up that sent it, nor after the application has it."""
    found = importing(table(**off), clock_bound_ns=1_000)
    reasons = [one for one in found.result["reasons"] if "contradict the stated clock bound" in one["finding"]]
    ends = set(where.partition(": ")[2].split(" − "))
    assert any(ends == set(one["where"].partition(": ")[2].partition(": ")[2].split(" − ")) for one in reasons)
    assert found.result["verdict"] == "untrusted"
    wide = importing(table(**off), clock_bound_ns=1_000_000)
    assert not any("contradict" in finding for _, finding in wide.checks)


def test_a_cards_clock_in_tai_next_to_a_system_in_utc_is_named(importing: Importing) -> None:
    found = importing(table(hard_ns=-37 * S), clock_bound_ns=1_000)
    (reason,) = [one for one in found.result["reasons"] if "wake" in one["where"] and "contradict" in one["finding"]]
    assert "TAI and UTC are 37 s apart" in reason["actual"]


def test_a_path_below_zero_beyond_the_bound_stays_below_zero(importing: Importing) -> None:
    found = importing(table(receiver_ns=-5_000, soft_receiver_ns=-5_000), clock_bound_ns=1_000)
    assert ("untrusted", "packets arrived before they left") in found.checks
    assert found.figures("packets", "path")["max"] == -3_500


def test_packets_that_leave_before_their_time_do_not_arrive_before_they_left(importing: Importing) -> None:
    found = importing(table(leave_ns=-180_000), clock_bound_ns=1_000)
    assert found.figures("packets", "latency")["max"] < 0
    assert not any("before they left" in finding for _, finding in found.checks)
