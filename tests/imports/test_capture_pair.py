"""Two captures: every packet that is in both, from the first point to the second; the others told and counted."""

from __future__ import annotations

import struct

import pytest
from capture_files import Packet, ethernet, ipv4, pcap, pcapng, probe, udp
from foreign import Importing

from latlab.errors import UsageError

T = 1_700_000_000 * 10**9
MS = 1_000_000


def sent(n: int, first: int = 0) -> list[Packet]:
    return [(T + k * MS, probe(k)) for k in range(first, n)]


def later(packets: list[Packet], by_ns: int, step_ns: int = 0) -> list[Packet]:
    return [(at + by_ns + k * step_ns, frame) for k, (at, frame) in enumerate(packets)]


def test_what_tcpdump_saw_at_both_ends_of_a_link(importing: Importing) -> None:
    found = importing("first.pcap", "second.pcap", clock_bound_ns=0)
    there, back = found.streams["flow-1"], found.streams["flow-2"]
    assert (there["talker"], there["listener"]) == ("first.pcap", "second.pcap")
    assert (back["talker"], back["listener"]) == ("second.pcap", "first.pcap")  # the answers
    for block in (there, back):
        figures = block["metrics"]["transit"]
        assert (figures["n"], figures["lost"], figures["uncertainty_ns"]) == (46, 0, 0)
        assert -1_000 < figures["min"] < figures["max"] < 100_000  # a veth link; the second counts microseconds
    assert found.result["verdict"] == "suspect"


@pytest.mark.parametrize(
    "twice", [["first.pcap", "first.pcap"], [pcap(sent(9)), pcap(sent(9))], [pcap(sent(9)), pcapng(sent(9))]]
)
def test_one_capture_given_twice_is_refused_by_name(importing: Importing, twice: list[str | bytes]) -> None:
    """Its transit would be 0 everywhere, which no rule can tell from a very short way."""
    with pytest.raises(UsageError, match=r"the same (file|capture) twice") as refused:
        importing(*twice)
    assert refused.value.where.endswith("first.pcap") or refused.value.where.count("file-") == 2


def test_captures_that_differ_in_one_instant_are_two_points(importing: Importing) -> None:
    packets = sent(9)
    moved = [*packets[:-1], (packets[-1][0] + 1_000, packets[-1][1])]
    assert importing(pcap(packets), pcap(moved)).figures("flow-1", "transit")["max"] == 1_000


def test_the_time_between_is_exact(importing: Importing) -> None:
    packets = sent(100)
    figures = importing(pcap(packets), pcapng(later(packets, 7_000, 3))).figures("flow-1", "transit")
    assert (figures["n"], figures["min"], figures["max"]) == (100, 7_000, 7_297)
    assert (figures["from"], figures["to"]) == ("first_point", "second_point")


def test_tags_and_addresses_may_change_between_the_points(importing: Importing) -> None:
    packets = sent(50)
    changed = [
        (at, frame[6:12] + frame[:6] + struct.pack(">HH", 0x8100, 5) + frame[12:]) for at, frame in later(packets, 900)
    ]
    figures = importing(pcap(packets), pcap(changed, order=">")).figures("flow-1", "transit")
    assert (figures["n"], figures["max"]) == (50, 900)


def test_a_packet_that_the_second_has_not_is_lost_between_common_ones(importing: Importing) -> None:
    packets = sent(60)
    kept = [one for k, one in enumerate(later(packets, 900)) if k not in (0, 1, 30, 31, 59)]
    found = importing(pcap(packets), pcap(kept))
    counts = found.streams["flow-1"]["counts"]
    assert (counts["scheduled"], counts["lost"]) == (57, 2)
    # At the ends the second capture may not have been running.
    assert found.left_out() == {"packets of file-1": 3}


def test_a_packet_that_only_the_second_has_is_counted(importing: Importing) -> None:
    packets = sent(60)
    found = importing(pcap(packets[:40]), pcap(later(packets, 900)))
    assert found.left_out() == {"packets of file-2": 20}
    assert found.figures("flow-1", "transit")["n"] == 40


def test_packets_that_cannot_be_told_apart_are_left_out_of_both(importing: Importing) -> None:
    packets = [*sent(40), (T + 40 * MS, probe(3)), (T + 41 * MS, probe(5))]
    found = importing(pcap(packets), pcap(later(sent(40), 900)))
    assert found.left_out() == {"packets of file-1": 4, "packets of file-2": 2}
    assert found.figures("flow-1", "transit")["n"] == 38


def test_a_flow_that_goes_the_other_way_is_turned_round(importing: Importing) -> None:
    packets = sent(50)
    came = [one for k, one in enumerate(later(packets, 1_500)) if k != 20]
    found = importing(pcap(came), pcap(packets))
    stream = found.streams["flow-1"]
    assert (stream["talker"], stream["counts"]["lost"]) == ("file-2", 1)
    assert (stream["metrics"]["transit"]["min"], stream["metrics"]["transit"]["n"]) == (1_500, 49)


def test_flows_are_streams_and_those_beyond_the_largest_are_counted(importing: Importing) -> None:
    packets = [
        (T + k * MS, ethernet(ipv4(udp(struct.pack("<Q", k) + bytes(16), source=5000 + k % 18)))) for k in range(180)
    ]
    found = importing(pcap(packets), pcap(later(packets, 900)))
    assert len(found.streams) == 16
    assert found.left_out() == {"packets": 20}


def test_captures_that_cut_their_packets_differently_still_match(importing: Importing) -> None:
    packets = sent(40)
    found = importing(pcap(packets, snap=66), pcap(later(packets, 900), snap=70))
    assert found.figures("flow-1", "transit")["n"] == 40
    with pytest.raises(UsageError, match="no packet of file-1"):
        importing(pcap(packets, snap=46), pcap(later(packets, 900)))


def test_two_captures_without_a_common_packet_are_an_error(importing: Importing) -> None:
    with pytest.raises(UsageError, match=r"no packet of file-1 can be found in it: 40 and 60 can be told apart"):
        importing(pcap(sent(40)), pcap(sent(100, 40)))
    constant = [(T + k * MS, ethernet(ipv4(udp(bytes(64))))) for k in range(9)]
    with pytest.raises(UsageError, match=r"9 and 9 cannot"):
        importing(pcap(constant), pcap(later(constant, 900)))


def test_one_capture_or_three_are_an_error(importing: Importing) -> None:
    with pytest.raises(UsageError, match="1 capture: two are needed"):
        importing(pcap(sent(5)))
    with pytest.raises(UsageError, match="3 captures: two are needed"):
        importing(pcap(sent(5)), pcap(sent(5)), pcap(sent(5)))


def test_a_clock_that_was_set_in_between_is_told_of(importing: Importing) -> None:
    packets = sent(400)
    jumped = [(at + 900 + (80 * MS if k > 200 else 0), frame) for k, (at, frame) in enumerate(packets)]
    found = importing(pcap(packets), pcap(jumped), clock_bound_ns=0)
    assert ("suspect", "a clock was stepped, or a queue stayed full") in found.checks
    back = [(at + 900 - (80 * MS if k > 200 else 0), frame) for k, (at, frame) in enumerate(packets)]
    found = importing(pcap(packets), pcap(back), clock_bound_ns=0)
    assert ("untrusted", "a clock was stepped back") in found.checks
    assert ("untrusted", "packets arrived before they left") in found.checks


def test_a_stall_and_a_slow_drift_are_no_step(importing: Importing) -> None:
    packets = sent(400)
    stalled = [(max(at + 900, T + 250 * MS if k > 150 else 0), frame) for k, (at, frame) in enumerate(packets)]
    drifting = [(at + 900 + k * 100_000, frame) for k, (at, frame) in enumerate(packets)]
    for other in (stalled, drifting):
        assert not any("stepped" in finding for _, finding in importing(pcap(packets), pcap(other)).checks)


def test_a_capture_that_was_cut_is_told_of(importing: Importing) -> None:
    packets = sent(40)
    found = importing(pcap(packets), pcap(later(packets, 900))[:-5])
    assert ("untrusted", "a file is cut short") in found.checks
    assert found.figures("flow-1", "transit")["n"] == 39
