"""Two captures: every packet that is in both, from the first point to the second; the others told and counted."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from latlab.model.errors import UsageError
from support.imports.captures import (
    MAC_A,
    MAC_B,
    Packet,
    checked,
    enhanced,
    ethernet,
    interface,
    ipv4,
    pcap,
    pcapng,
    probe,
    section,
    statistics,
    tcp,
    udp,
)
from support.imports.files import Importing

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
    """Its transit would be 0 everywhere, which no rule can distinguish from a very short way."""
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


def test_answers_go_the_other_way(importing: Importing) -> None:
    first, second = conversation(offset_ns=0, lost=20)
    found = importing(pcap(first), pcap(second), clock_bound_ns=0)
    asked, answered = found.streams["flow-1"], found.streams["flow-2"]
    assert [block["talker"] for block in (asked, answered)] == ["file-1", "file-2"]
    assert (answered["counts"]["lost"], answered["metrics"]["transit"]["n"]) == (1, 49)
    assert [block["metrics"]["transit"]["min"] for block in (asked, answered)] == [1_500, 1_700]
    assert found.result["verdict"] == "suspect"


def test_answers_of_a_host_without_ports_go_the_other_way(importing: Importing) -> None:
    """A request to all (ARP) and its answer share no address pair."""
    to_all = [(T + k * MS, ethernet(bytes([k]) * 46, 0x0806, to=b"\xff" * 6)) for k in range(9)]
    answers = [(T + k * MS + 500, ethernet(bytes([k, 9]) * 23, 0x0806, to=MAC_A, by=MAC_B)) for k in range(9)]
    first = sorted([*to_all, *later(answers, 100)])
    second = sorted([*later(to_all, 100), *answers])
    found = importing(pcap(first), pcap(second))
    assert {block["talker"] for block in found.streams.values()} == {"file-1", "file-2"}
    assert all(block["metrics"]["transit"]["min"] == 100 for block in found.streams.values())


def conversation(*, offset_ns: int, lost: int | None = None) -> tuple[list[Packet], list[Packet]]:
    """What two points see of questions (1.5 µs in flight) and answers (1.7 µs), the second's clock ahead by so much.

    lost: an answer that the first did not see.
    """
    first, second = [], []
    for k in range(50):
        asked = ethernet(ipv4(udp(struct.pack("<Q", k) + bytes(32))))
        answer = ethernet(ipv4(udp(struct.pack("<Q", k) + bytes(32), 6000, 5000), ends=(2, 1)))
        at = T + k * MS
        first.append((at, asked))
        second += [(at + 1_500 + offset_ns, asked), (at + 10_000 + offset_ns, answer)]
        first += [(at + 11_700, answer)] if k != lost else []
    return first, second


@pytest.mark.parametrize("bound_ns", [None, 1_000])
@pytest.mark.parametrize("offset_ns", [-MS, MS])
def test_a_clock_that_is_behind_or_ahead_turns_no_flow_round(
    importing: Importing, offset_ns: int, bound_ns: int | None
) -> None:
    first, second = conversation(offset_ns=offset_ns)
    found = importing(pcap(first), pcap(second), clock_bound_ns=bound_ns)
    assert [block["talker"] for block in found.streams.values()] == ["file-1", "file-1"]
    assert found.figures("flow-1", "transit")["p50"] == 1_500 + offset_ns
    assert ("untrusted", "both directions of a conversation appear as the same direction") in found.checks
    (said,) = [one["actual"] for one in found.result["reasons"] if one["finding"].startswith("both directions")]
    assert f"the clock of file-2 is some {'999.9 µs ahead' if offset_ns > 0 else '1 ms behind'}" in said


def test_what_one_conversation_hides_within_the_bound_is_no_contradiction(importing: Importing) -> None:
    first, second = conversation(offset_ns=2_000)
    found = importing(pcap(first), pcap(second), clock_bound_ns=5_000)
    assert found.result["verdict"] == "suspect"


def test_a_sign_within_the_bound_says_nothing_of_the_direction(importing: Importing) -> None:
    packets = sent(60)
    came = [one for k, one in enumerate(later(packets, -200)) if k not in (10, 20, 30, 40, 50)]
    found = importing(pcap(packets), pcap(came), clock_bound_ns=1_000)
    stream = found.streams["flow-1"]
    assert (stream["talker"], stream["counts"]["lost"]) == ("file-1", 5)
    assert (stream["metrics"]["transit"]["min"], stream["metrics"]["transit"]["n"]) == (-200, 55)
    assert found.result["verdict"] == "suspect"


@pytest.mark.parametrize("bound_ns", [None, 1_000])
def test_one_direction_that_arrives_before_it_left_is_not_turned(importing: Importing, bound_ns: int | None) -> None:
    packets = sent(50)
    found = importing(pcap(later(packets, 1_500)), pcap(packets), clock_bound_ns=bound_ns)
    assert found.streams["flow-1"]["talker"] == "file-1"
    assert found.figures("flow-1", "transit")["max"] == -1_500
    assert found.result["verdict"] == "untrusted"
    remedies = " ".join(one["remedy"] for one in found.result["reasons"])
    assert "in the order in which packets pass them" in remedies


def test_captures_on_two_time_scales_are_named(importing: Importing) -> None:
    packets = sent(50)
    found = importing(pcap(packets), pcap(later(packets, 37 * 10**9 + 900)), clock_bound_ns=1_000)
    assert ("untrusted", "two time scales are mixed: TAI and UTC are 37 s apart") in found.checks


def test_a_flow_that_one_point_has_none_of_is_named_and_counted(importing: Importing) -> None:
    missing = [(T + k * MS + 7, ethernet(ipv4(udp(struct.pack("<Q", k) + bytes(9), 7000, 7001)))) for k in range(30)]
    packets = sent(40)
    for pair, name in (
        ((sorted([*packets, *missing]), packets), "file-1"),
        ((packets, [*packets, *missing]), "file-2"),
    ):
        found = importing(pcap(pair[0]), pcap(later(pair[1], 900)))
        (one,) = found.found.left_out
        assert (one.count, one.what) == (30, f"packets of {name}")
        assert one.why.startswith("UDP 10.0.0.1:7000 → 10.0.0.2:7001: ")
        assert "lost, or not captured there" in one.why
        assert found.figures("flow-1", "transit")["lost"] == 0


def test_how_much_was_kept_of_another_flow_says_nothing_of_whole_packets(importing: Importing) -> None:
    whole = [(T + k * MS, ethernet(ipv4(udp(bytes(40) + struct.pack("<Q", k))))) for k in range(40)]
    foreign = (T + 7, ethernet(ipv4(udp(bytes(200), 5353, 5353))))
    found = importing(pcap(sorted([*whole, foreign]), snap=96), pcap(later(whole, 900), snap=96))
    assert found.figures("flow-1", "transit")["n"] == 40


SEGMENT = 1_448


def offloaded(n: int, segments: int) -> tuple[list[Packet], list[Packet]]:
    """What is seen before and behind a card that cuts segments: n small packets, and between them large ones."""
    first, second, at = [], [], 1
    for k in range(n):
        small = ethernet(ipv4(tcp(struct.pack("<Q", k), at), 6, identification=k))
        first.append((T + 2 * k * MS, small))
        second.append((T + 2 * k * MS + 900, small))
        at += 8
        if k % 3 == 0:
            large = ethernet(ipv4(tcp(bytes([k]) * SEGMENT * segments, at), 6, identification=1000 + k))
            first.append((T + (2 * k + 1) * MS, large))
            for part in range(segments):
                cut = tcp(bytes([k]) * SEGMENT, at + part * SEGMENT)
                frame = ethernet(ipv4(cut, 6, identification=1000 + k + part))
                second.append((T + (2 * k + 1) * MS + 900 + part, frame))
            at += SEGMENT * segments
    return first, second


@pytest.mark.parametrize("merged", [False, True], ids=["cut behind the first", "put together before the second"])
def test_what_a_card_cuts_or_puts_together_is_not_lost(importing: Importing, merged: bool) -> None:
    large, frames = offloaded(30, 8)
    pair = (later(frames, -900), later(large, 900)) if merged else (large, frames)
    found = importing(*(pcap(sorted(one), snap=96) for one in pair))
    figures = found.figures("flow-1", "transit")
    assert (figures["n"], figures["lost"]) == (30, None)
    assert ("suspect", "packets are larger than a frame: segmentation offload") in found.checks
    assert sorted(one.count for one in found.found.left_out) == [10, 80]
    assert any("ethtool -K" in one["remedy"] for one in found.result["reasons"])


def test_large_packets_that_are_really_lost_are_lost(importing: Importing) -> None:
    """Of a jumbo frame that was lost the other point has no parts."""
    packets = [(T + k * MS, ethernet(ipv4(udp(struct.pack("<Q", k) + bytes(8_000))))) for k in range(40)]
    kept = [one for k, one in enumerate(later(packets, 900)) if k != 20]
    found = importing(pcap(packets), pcap(kept))
    assert found.figures("flow-1", "transit")["lost"] == 1


def test_checksums_that_the_card_puts_in_do_not_count(importing: Importing) -> None:
    def segments(checksum: int) -> list[Packet]:
        return [
            (T + k * MS, ethernet(ipv4(tcp(b"data", 4 * k, checksum and checksum + k), 6, identification=k)))
            for k in range(40)
        ]

    found = importing(pcap(segments(0)), pcap(later(segments(0x1234), 21_000)))
    assert (found.figures("flow-1", "transit")["n"], found.figures("flow-1", "transit")["max"]) == (40, 21_000)
    assert "TCP 10.0.0.1:5000 → 10.0.0.2:6000" in found.found.streams[0].described


def test_a_frame_check_sequence_is_no_payload(importing: Importing) -> None:
    frames = [(T + k * MS, ethernet(struct.pack("<Q", k) + bytes(50), 0x88B5)) for k in range(30)]
    with_check = [(at, checked(frame)) for at, frame in later(frames, 7_000)]
    said_so = section() + interface(resolution=9, check_bytes=4)
    said_so += b"".join(enhanced(at, frame) for at, frame in with_check)
    for second in (pcap(with_check), pcap(with_check, link=0x24000001), said_so):
        assert importing(pcap(frames), second).figures("flow-1", "transit")["n"] == 30


@pytest.mark.parametrize(("kind", "tag"), [(0xF1C1, b"\0\0\0\7"), (0x892F, b"\x10\x3c\0\7")], ids=["R-TAG", "HSR"])
def test_tags_of_redundancy_are_no_payload(importing: Importing, kind: int, tag: bytes) -> None:
    packets = sent(30)
    tagged = [(at, frame[:12] + struct.pack(">H", kind) + tag + frame[12:]) for at, frame in later(packets, 900)]
    assert importing(pcap(packets), pcap(tagged)).figures("flow-1", "transit")["n"] == 30


def test_what_the_capture_dropped_itself_is_not_lost(importing: Importing) -> None:
    packets = sent(40)
    kept = [one for k, one in enumerate(later(packets, 900)) if k not in (7, 8)]
    second = pcapng(kept) + statistics(dropped=1, by_system=1)
    found = importing(pcap(packets), second)
    assert ("suspect", "a capture dropped packets") in found.checks
    assert found.figures("flow-1", "transit")["lost"] is None
    assert importing(pcap(packets), pcapng(kept) + statistics()).figures("flow-1", "transit")["lost"] == 2


def both_points(packets: list[Packet], order: tuple[int, int] = (0, 1)) -> bytes:
    seen = [(at, frame, order[0]) for at, frame in packets]
    seen += [(at, frame, order[1]) for at, frame in later(packets, 6_000)[:-1]]
    blocks = b"".join(enhanced(at, frame, number) for at, frame, number in sorted(seen))
    return section() + interface(resolution=9, name="eth0") + interface(resolution=9, name="eth1") + blocks


def test_the_trailer_of_prp_is_no_payload(importing: Importing) -> None:
    frames = [(T + k * MS, ethernet(struct.pack("<Q", k) + bytes(50), 0x88B5)) for k in range(30)]
    trailed = [(at, frame + struct.pack(">HHH", 7, 0xA000 | len(frame) - 8, 0x88FB)) for at, frame in frames]
    assert importing(pcap(frames), pcap(later(trailed, 900))).figures("flow-1", "transit")["n"] == 30


def test_two_who_send_to_a_group_may_be_at_either_end(importing: Importing) -> None:
    """As PTP's messages are: none of them has an answer to the address that it came from."""
    group = b"\x01\x1b\x19\0\0\0"
    frames = [
        (T + k * MS, ethernet(struct.pack("<Q", k) + bytes(40), 0x88F7, to=group, by=MAC_B if k % 2 else MAC_A))
        for k in range(40)
    ]
    first = [(at + 700 * (k % 2), frame) for k, (at, frame) in enumerate(frames)]
    second = [(at + 700 * (1 - k % 2), frame) for k, (at, frame) in enumerate(frames)]
    found = importing(pcap(first), pcap(second), clock_bound_ns=0)
    assert {block["talker"] for block in found.streams.values()} == {"file-1", "file-2"}
    assert all(block["metrics"]["transit"]["min"] == 700 for block in found.streams.values())
    assert found.result["verdict"] == "suspect"


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_both_points_in_one_file_are_its_interfaces(importing: Importing, order: tuple[int, int]) -> None:
    found = importing(both_points(sent(30), order))
    stream = found.streams["flow-1"]
    names = ("eth0", "eth1")
    assert (stream["talker"], stream["listener"]) == (names[order[0]], names[order[1]])
    assert (stream["metrics"]["transit"]["n"], stream["metrics"]["transit"]["max"]) == (29, 6_000)
    assert found.result["verdict"] == "suspect"  # one clock


def test_points_of_all_interfaces_are_told_apart_by_their_index(importing: Importing) -> None:
    cooked = [
        (at + by, struct.pack(">HHIHBB8s", 0x0800, 0, index, 1, 0, 6, MAC_A) + frame[14:])
        for index, by in ((2, 0), (5, 6_000))
        for at, frame in sent(30)
    ]
    found = importing(pcap(sorted(cooked), link=276))
    assert found.streams["flow-1"]["talker"] == "interface index 2"
    assert found.figures("flow-1", "transit")["max"] == 6_000


def test_a_capture_on_all_interfaces_is_named_as_why_packets_are_ambiguous(importing: Importing) -> None:
    cooked = [(at + by, bytes(14) + b"\x08\0" + frame[14:]) for by in (0, 6_000) for at, frame in sent(30)]
    with pytest.raises(UsageError, match=r"capture on all interfaces: capture on one \(-i NAME\)"):
        importing(pcap(sorted(cooked), link=113), pcap(later(sent(30), 9_000)))


def test_three_interfaces_are_refused_by_name(importing: Importing) -> None:
    more = interface(resolution=9, name="usb0") + enhanced(T, probe(0), 2)
    with pytest.raises(UsageError, match="packets of 3 interfaces: eth0, eth1, usb0"):
        importing(both_points(sent(30)) + more)


def test_an_interface_of_another_link_type_is_in_nobodys_way(importing: Importing) -> None:
    packets = sent(30)
    file = section() + interface(resolution=9, name="eth0") + interface(link=220, resolution=9, name="usbmon0")
    file += b"".join(enhanced(at, frame) for at, frame in packets)
    assert importing(file, pcap(later(packets, 900))).figures("flow-1", "transit")["n"] == 30
    found = importing(file + enhanced(T, bytes(64), 1), pcap(later(packets, 900)))
    assert [(one.count, one.why) for one in found.found.left_out] == [(1, "of link type 220, which is not supported")]


def test_two_captures_in_one_file_are_refused(importing: Importing) -> None:
    one = pcap(sent(5))
    with pytest.raises(UsageError, match=f"two captures in one file: another one begins at byte {len(one)}"):
        importing(one + one, pcap(later(sent(5), 900)))


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
    with pytest.raises(
        UsageError, match=r"no packet of file-1 can be found in it: 40 and 60 packets have unique payloads"
    ):
        importing(pcap(sent(40)), pcap(sent(100, 40)))
    constant = [(T + k * MS, ethernet(ipv4(udp(bytes(64))))) for k in range(9)]
    with pytest.raises(UsageError, match=r"9 and 9 share their payload"):
        importing(pcap(constant), pcap(later(constant, 900)))


def in_udp(frame: bytes, port: int) -> bytes:
    return ethernet(ipv4(udp(b"\x08\0\0\0\0\0\x2a\0" + frame, 40_000, port), ends=(8, 9)))


TUNNELS: dict[str, Callable[[bytes], bytes]] = {
    "VXLAN": lambda frame: in_udp(frame, 4789),
    "Geneve": lambda frame: in_udp(frame, 6081),
    "GRE or ERSPAN": lambda frame: ethernet(ipv4(b"\0\0\x65\x58" + frame, 47, ends=(8, 9))),
    "PPPoE": lambda frame: ethernet(b"\x11\0\0\7" + struct.pack(">HH", len(frame) - 12, 0x21) + frame[14:], 0x8864),
    "MPLS": lambda frame: ethernet(b"\0\x01\x01\x40" + frame[14:], 0x8847),
}


@pytest.mark.parametrize("name", TUNNELS)
def test_packets_that_are_in_a_tunnel_at_one_point_are_named(importing: Importing, name: str) -> None:
    inside = later([(at, TUNNELS[name](frame)) for at, frame in sent(30)], 6_000)
    with pytest.raises(UsageError, match=f"30 packets of file-2 in {name}: capture inside of it at both points") as one:
        importing(pcap(sent(30)), pcap(inside))
    assert "file-1 in" not in one.value.what
    both = importing(pcap([(at, TUNNELS[name](frame)) for at, frame in sent(30)]), pcap(inside))
    assert both.figures("flow-1", "transit")["n"] == 30


def test_fragments_are_packets_of_their_own(importing: Importing) -> None:
    """Behind the first one they have no ports."""
    packets = []
    for number in range(30):
        datagram = udp(struct.pack("<Q", number) + bytes(2_992))
        first = ipv4(datagram[:1_480], identification=number, flags=0x2000)
        last = ipv4(datagram[1_480:], identification=number, flags=1_480 // 8)
        packets += [(T + number * MS, ethernet(first)), (T + number * MS + 9_000, ethernet(last))]
    found = importing(pcap(packets), pcap(later(packets[:31] + packets[32:], 6_000)))
    figures = found.figures("flow-1", "transit")
    assert (figures["n"], figures["lost"], figures["max"]) == (59, 1, 6_000)


def test_one_capture_or_three_are_an_error(importing: Importing) -> None:
    with pytest.raises(UsageError, match="1 capture: two are needed"):
        importing(pcap(sent(5)))
    with pytest.raises(UsageError, match="3 captures: two are needed"):
        importing(pcap(sent(5)), pcap(sent(5)), pcap(sent(5)))


def test_a_clock_that_was_set_in_between_is_told_of(importing: Importing) -> None:
    packets = sent(400)
    jumped = [(at + 900 + (80 * MS if k > 200 else 0), frame) for k, (at, frame) in enumerate(packets)]
    found = importing(pcap(packets), pcap(jumped), clock_bound_ns=0)
    assert ("suspect", "a clock was stepped, or a queue remained full") in found.checks
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
