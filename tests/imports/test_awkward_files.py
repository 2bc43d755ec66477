"""Files that come about where programs run again, together, or are copied by halves: each has its right answer."""

from __future__ import annotations

import gzip
import struct

import pytest

from latlab.model.errors import UsageError
from support.imports.captures import Packet, ethernet, ipv4, pcap, probe, udp
from support.imports.files import Importing, text

SECOND = 1_700_000_000_000_000_000
SENT: list[Packet] = [(SECOND + n * 1_000_000, probe(n)) for n in range(30)]


def later(packets: list[Packet], by_ns: int = 6_000) -> list[Packet]:
    return [(at_ns + by_ns, frame) for at_ns, frame in packets]


def test_a_second_histogram_of_other_cpus_is_another_run(importing: Importing) -> None:
    one = text("rtla-timerlat.txt")
    other = one.replace("-000", "-002").replace("-001", "-003").replace("140", "940")
    first, second = importing((one + other).encode()).result["cells"]
    assert [set(cell["streams"]) for cell in (first, second)] == [{"cpu-0", "cpu-1"}, {"cpu-2", "cpu-3"}]
    assert second["streams"]["cpu-2"]["metrics"]["wakeup"]["max"] == 940_000


def test_compressed_files_that_were_put_together_are_two_runs(importing: Importing) -> None:
    one = text("cyclictest-quiet.txt")
    both = gzip.compress(one.encode()) + gzip.compress(one.replace("479", "979").encode())
    assert importing(both).of_runs("thread-0", "wakeup", "max") == [479_000, 979_000]


def test_half_a_compressed_file_is_refused_as_that(importing: Importing) -> None:
    with pytest.raises(UsageError, match=r"gzip cannot be decompressed: .* \(copy the complete file again"):
        importing(gzip.compress(text("cyclictest-smp.txt").encode())[:-300])


def test_processes_that_printed_alternately_are_runs_that_begin_where_they_do(importing: Importing) -> None:
    one = text("ddsperf-ping.txt").splitlines(True)
    other = [line.replace("[3790]", "[4790]").replace("vm:3790", "vm:4790").replace("693.", "993.") for line in one]
    found = importing("".join(line for both in zip(one, other, strict=True) for line in both).encode())
    assert found.of_runs("vm-3779", "half_round_trip", "n") == [400, 400]
    assert found.of_runs("vm-3779", "half_round_trip", "max") == [693_015, 993_015]
    begins = [cell.imported.notes[0] for cell in found.outcome.cells]
    assert begins == [f"run {number} of 2 in the file, from its line {number}" for number in (1, 2)]


def test_messages_that_are_not_in_a_log_are_missed_in_its_total(importing: Importing) -> None:
    lines = text("sockperf-ping-pong.csv").splitlines(True)
    found = importing("".join(lines[:60] + lines[68:]).encode())
    assert ("untrusted", "rows are missing, or appear twice") in found.checks
    assert found.figures("server-0", "round_trip")["lost"] == 0


def test_half_a_json_file_is_named_as_that(importing: Importing) -> None:
    whole = text("cyclictest-smp.json")
    with pytest.raises(UsageError, match=r"cut short: its JSON has no end \(copy it again, complete"):
        importing(whole[: len(whole) // 2].encode())


def test_single_cycles_are_known_for_what_they_are(importing: Importing) -> None:
    lines = [f"{thread:8}:{cycle:8}:{5 + cycle % 7:8}\n" for cycle in range(9) for thread in (0, 1)]
    with pytest.raises(UsageError, match="with -q instead of -v"):
        importing(("Max CPUs = 2\nOnline CPUs = 2\n" + "".join(lines)).encode())


def test_packets_whose_payload_never_changes_are_told_apart_by_their_identification(importing: Importing) -> None:
    frames = [ethernet(ipv4(udp(bytes(32)), identification=100 + n)) for n in range(30)]
    sent = [(at_ns, frame) for (at_ns, _), frame in zip(SENT, frames, strict=True)]
    found = importing(pcap(sent), pcap(later(sent[:10] + sent[11:])))
    figures = found.figures("flow-1", "transit")
    assert [figures[key] for key in ("n", "lost", "min", "max")] == [29, 1, 6_000, 6_000]


@pytest.mark.parametrize("kept", [slice(10, None), slice(20)], ids=["began later", "ended earlier"])
def test_what_passed_while_the_second_point_did_not_capture_is_not_lost(importing: Importing, kept: slice) -> None:
    found = importing(pcap(SENT), pcap(later(SENT[kept])))
    assert found.figures("flow-1", "transit")["lost"] == 0
    ((what, count),) = found.left_out().items()
    assert (what.startswith("packets of "), count) == (True, 10)


def test_two_tags_that_a_provider_puts_in_are_no_payload(importing: Importing) -> None:
    tags = struct.pack(">HHHH", 0x88A8, 100, 0x8100, 7)
    second = [(at_ns, frame[:12] + tags + frame[12:]) for at_ns, frame in later(SENT)]
    assert importing(pcap(SENT), pcap(second)).figures("flow-1", "transit")["n"] == 30
