"""Numbers that cannot be what they are taken for: of another unit, wrapped, or fewer than the program counted."""

from __future__ import annotations

import gzip
import json
import struct

import pytest

from latlab.model.errors import UsageError
from support.imports.captures import Packet, ethernet, ipv4, ipv6, pcap, pcapng, probe, udp
from support.imports.files import Importing, text

T = 1_700_000_000 * 10**9
WRAPPED = 2**64 - 7
NS_MAGIC, US_MAGIC = b"\x4d\x3c\xb2\xa1", b"\xd4\xc3\xb2\xa1"


def histogram(least: str, mean: str, most: str) -> bytes:
    """cyclictest's, of two threads of 1,000 cycles; of the first one 1 is beyond it."""
    rows = "".join(f"{number:06d} {a:06d}\t{b:06d}\n" for number, a, b in ((2, 400, 500), (3, 500, 490), (4, 99, 10)))
    return (
        f"# Histogram\n{rows}# Total: 000000999 000001000\n# Min Latencies: {least}\n# Avg Latencies: {mean}\n"
        f"# Max Latencies: {most}\n# Histogram Overflows: 00001 00000\n"
    ).encode()


def early(found: object) -> list[str]:
    return [one["where"] for one in found.result["reasons"] if one["id"] == "timestamps-possible"]  # type: ignore[attr-defined]


def test_a_maximum_that_wrapped_is_no_maximum_and_no_other_threads(importing: Importing) -> None:
    found = importing(histogram("00002 00002", "9223372036854775 00003", f"{WRAPPED} 00004"))
    assert list(found.streams) == ["thread-0", "thread-1"]
    first, second = (found.figures(f"thread-{number}", "wakeup") for number in (0, 1))
    assert (first["n"], first["max"], first["mean"], first["p50"]) == (1000, None, None, 3_000)
    assert (second["min"], second["mean"], second["max"]) == (2_000, 3_000, 4_000)
    assert [where.endswith("thread-0") for where in early(found)] == [True]
    assert found.result["verdict"] == "untrusted"


def test_a_minimum_that_was_printed_unsigned_is_below_zero(importing: Importing) -> None:
    found = importing(histogram(f"{WRAPPED} 00002", "00003 00003", "00004 00004"))
    first, second = (found.figures(f"thread-{number}", "wakeup") for number in (0, 1))
    assert (first["min"], first["mean"], first["max"]) == (-7_000, 3_000, 4_000)
    assert second["min"] == 2_000
    assert len(early(found)) == 1


def test_a_thread_with_a_value_below_zero_stays(importing: Importing) -> None:
    lines = (
        "T: 0 (  812) P:90 I:1000 C:   2000 Min:      4 Act:   -3 Avg:    6 Max:      -7\n"
        "T: 1 (  813) P:90 I:1000 C:   2000 Min:      4 Act:    6 Avg:    7 Max:      19\n"
    )
    found = importing(lines.encode())
    assert found.left_out() == {}
    assert found.figures("thread-0", "wakeup")["n"] == 2000
    assert found.figures("thread-0", "wakeup")["max"] is None
    assert len(early(found)) == 1


def test_a_value_below_zero_in_json_leaves_no_thread_out(importing: Importing) -> None:
    document = json.loads(text("cyclictest-smp.json"))
    next(iter(document["thread"].values()))["min"] = -7
    found = importing(json.dumps(document).encode())
    assert found.left_out() == {}
    assert len(early(found)) == 1


def test_an_answer_that_the_log_does_not_have_is_missed_without_its_total_too(importing: Importing) -> None:
    lines = text("sockperf-ping-pong.csv").splitlines(keepends=True)
    rows = [place for place, line in enumerate(lines) if line[:1].isdigit()]
    kept = [line for place, line in enumerate(lines) if place not in rows[5:9] and "observations" not in line]
    found = importing("".join(kept).encode())
    assert ("untrusted", "rows are missing, or appear twice") in found.checks
    whole = [line for line in lines if "observations" not in line]
    assert ("untrusted", "rows are missing, or appear twice") not in importing("".join(whole).encode()).checks


def pair(n: int = 60, every_ns: int = 50_000_137) -> tuple[list[Packet], list[Packet]]:
    """The same packets at two points, 9 µs apart."""
    first = [(T + k * every_ns, probe(k)) for k in range(n)]
    return first, [(at_ns + 9_000 + k % 7, frame) for k, (at_ns, frame) in enumerate(first)]


def test_nanoseconds_in_a_capture_of_microseconds_are_refused(importing: Importing) -> None:
    first, second = map(pcap, pair())
    with pytest.raises(UsageError, match="more than a second's worth: they are nanoseconds"):
        importing(US_MAGIC + first[4:], second)


def test_one_packet_at_an_impossible_time_is_left_out_and_counted(importing: Importing) -> None:
    first, second = (bytearray(pcap(packets, nano=False)) for packets in pair())
    struct.pack_into("<I", first, 24 + 4, 3_000_000)
    found = importing(bytes(first), bytes(second))
    assert found.figures("flow-1", "transit")["n"] == 59
    assert found.left_out()["packets of file-1"] == 1


def test_microseconds_in_a_capture_of_nanoseconds_are_questioned(importing: Importing) -> None:
    captures = [NS_MAGIC + pcap(packets, nano=False)[4:] for packets in pair()]
    found = importing(*captures)
    assert ("suspect", "these nanoseconds may be microseconds") in found.checks
    right = importing(*map(pcap, pair()))
    assert ("suspect", "these nanoseconds may be microseconds") not in right.checks


def test_a_resolution_by_which_no_time_is_possible_is_the_cause(importing: Importing) -> None:
    first, second = pair()
    wrong = bytearray(pcapng(first))
    place = wrong.index(struct.pack("<HHB", 9, 1, 9))
    wrong[place + 4] = 0
    with pytest.raises(UsageError, match=r"at an impossible time.*if_tsresol"):
        importing(bytes(wrong), pcapng(second))


def test_tags_of_redundancy_behind_those_of_a_vlan_are_no_payload(importing: Importing) -> None:
    first, second = pair()
    tagged = [
        (at_ns, frame[:12] + struct.pack(">HHHHH", 0x8100, 2 << 13 | 7, 0xF1C1, 0, k + 65_530 & 0xFFFF) + frame[12:])
        for k, (at_ns, frame) in enumerate(second)
    ]
    figures = importing(pcap(first), pcap(tagged), clock_bound_ns=1_000).figures("flow-1", "transit")
    assert (figures["n"], figures["lost"], figures["min"]) == (60, 0, 9_000)
    with pytest.raises(UsageError, match=r"60 packets of file-2 of which less than 16 bytes .*tcpdump -s 128"):
        importing(pcap(first, snap=64), pcap(tagged, snap=64))


def test_flows_that_either_point_alone_has_are_named(importing: Importing) -> None:
    first, second = pair()
    ours = [(at_ns + 50, ethernet(ipv4(udp(frame[-32:], 7000, 7001)))) for at_ns, frame in first[:25]]
    ours = [(at_ns, frame + k.to_bytes(4, "big")) for k, (at_ns, frame) in enumerate(ours)]
    theirs = [
        (at_ns + 70, ethernet(ipv6(udp(k.to_bytes(24, "big"), 8000, 8001)), 0x86DD))
        for k, (at_ns, _) in enumerate(second[:15])
    ]
    found = importing(pcap(sorted(first + ours)), pcap(sorted(second + theirs)), clock_bound_ns=1_000)
    assert found.figures("flow-1", "transit")["n"] == 60
    told = {one.what: (one.count, one.why.partition(":")[0]) for one in found.found.left_out}
    assert told["packets of file-2"][0] == 15
    assert {one.count for one in found.found.left_out} == {25, 15}


def test_two_files_that_were_compressed_and_then_joined_are_two_runs(importing: Importing) -> None:
    plain = text("cyclictest-smp.txt").encode()
    found = importing(gzip.compress(plain) + gzip.compress(plain))
    assert found.of_runs("thread-1", "wakeup", "max") == [43_473_000, 43_473_000]


@pytest.mark.parametrize("apart_s", [37, -37])
def test_differences_of_two_time_scales_are_named_where_only_they_are_in_the_file(
    importing: Importing, apart_s: int
) -> None:
    lines = text("sample-app-taprio.log").splitlines()
    shifted = []
    for line in lines:
        before, _, rest = line.partition("Latency = ")
        value, unit, after = rest.partition(" ns")
        number = int(value) + apart_s * 10**9 if unit and abs(int(value)) < 10**9 else value
        shifted.append(f"{before}Latency = {number}{unit}{after}" if unit else line)
    found = importing("\n".join(shifted).encode(), clock_bound_ns=1_000)
    assert ("untrusted", "two time scales are mixed: TAI and UTC are 37 s apart") in found.checks
