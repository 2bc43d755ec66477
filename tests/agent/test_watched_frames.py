"""Which frames the agent records: every kind of expression against the same frames, sent through a real cable."""

from __future__ import annotations

import fcntl
import json
import os
import random
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from latlab.scenario.pcap_filter import Instruction, compiled
from latlab.scenario.watched import parse_flow
from support.agent.bed import Bed, inside
from support.agent.process import Agent
from support.agent.streams import ORDINARY, new_run_id, recording
from support.agent.switch import IFF_NO_PI, TUNSETIFF
from support.agent.watch import ATTACHED, MACS, accepts, ipv4, programs, tag
from support.machine import run, until

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        not Path("/sys/kernel/btf/vmlinux").exists(),
        reason="this kernel has no BTF, so no BPF program sees its packets",
    ),
]

IFF_TUN = 0x0001
NO_BTF = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /sys/kernel/btf && exec "$@"', "sh")
UNPRIVILEGED = ("setpriv", "--bounding-set", "-sys_admin,-bpf,-perfmon")


MULTICAST = bytes.fromhex("010ccd040001 0200004e0001")


def ipv6(protocol: int, payload: bytes, *, dscp: int = 0) -> bytes:
    addresses = socket.inet_pton(socket.AF_INET6, "fd00::1") + socket.inet_pton(socket.AF_INET6, "fd00:1::2")
    head = struct.pack(">IHBB", 6 << 28 | dscp << 22, len(payload), protocol, 9)
    return struct.pack(">H", 0x86DD) + head + addresses + payload


def ports(source: int, destination: int) -> bytes:
    return struct.pack(">HHHH", source, destination, 8 + 16, 0) + bytes(16)


FRAMES = {
    "udp": ipv4(17, ports(4000, 5000)),
    "udp-back": ipv4(17, ports(5000, 4000), source="10.2.0.9", to="10.1.0.1"),
    "udp-ef": ipv4(17, ports(4000, 5009), dscp=46),
    "tcp": ipv4(6, ports(4000, 5000)),
    "fragment": ipv4(17, b"")[:8] + struct.pack(">H", 100) + ipv4(17, ports(4000, 5000))[10:],
    "udp6": ipv6(17, ports(4000, 5000), dscp=46),
    "icmp": ipv4(1, bytes(16)),
    "sv": struct.pack(">H", 0x88BA) + bytes(50),
    "sv-vlan": tag(10, 4) + struct.pack(">H", 0x88BA) + bytes(50),
    "udp-qinq": tag(7, 1, 0x88A8) + tag(10, 5) + ipv4(17, ports(4000, 5000)),
    "udp-rtag": struct.pack(">HHH", 0xF1C1, 0, 1) + ipv4(17, ports(4000, 5000)),
}
"""By name what follows the addresses of a frame."""
NAMED = {name: MACS + what + b"|" + name.encode() for name, what in FRAMES.items()}
NAMED["sv-multicast"] = MULTICAST + FRAMES["sv"] + b"|sv-multicast"
"""The frames, each with its name at its end."""
EVERY = set(NAMED)
UDP = {"udp", "udp-back", "udp-ef", "udp6", "udp-qinq", "udp-rtag", "fragment"}


def both_ends() -> list[dict[str, int]]:
    """The cable's ends, as the agent has points."""
    points = []
    for namespace, interface in (("sensor", "ecu"), ("ecu", "sensor")):
        with inside(namespace):
            inode = Path("/proc/thread-self/ns/net").stat().st_ino
            points.append({"netns": inode, "ifindex": socket.if_nametoindex(interface)})
    return points


def watched(bed: Bed, folder: Path, **changes: Any) -> Agent:
    """An agent that watches both ends of the cable."""
    spec = {"run_id": new_run_id(), "recording": str(folder / "watch"), "realtime": ORDINARY}
    return bed.agent("ecu", "watch", {**spec, "points": changes.get("points") or both_ends(), **changes})


@contextmanager
def on_one_cpu() -> Iterator[None]:
    """What this thread sends leaves by one CPU."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("udp", UDP),
        ("udp port 5000", UDP - {"udp-ef", "fragment"}),
        ("udp dst port 5000 and ip", {"udp", "udp-qinq", "udp-rtag"}),
        ("portrange 5001-5009 or icmp", {"udp-ef", "icmp"}),
        ("ip6", {"udp6"}),
        ("dscp ef", {"udp-ef", "udp6"}),
        ("dscp be", {"udp", "udp-back", "tcp", "fragment", "icmp", "udp-qinq", "udp-rtag"}),
        ("src host 10.2.0.9", {"udp-back"}),
        ("net 10.2.0.0/16 and tcp", {"tcp"}),
        ("host fd00:1::2", {"udp6"}),
        ("ether proto sv", {"sv", "sv-vlan", "sv-multicast"}),
        ("vlan", {"sv-vlan", "udp-qinq"}),
        ("vlan 10", {"sv-vlan"}),
        ("pcp 1 and udp", {"udp-qinq"}),
        ("not udp", EVERY - UDP),
        ("udp and not (port 5000 or vlan)", {"udp-ef", "fragment"}),
        ("not ip and not ip6 and not vlan 10", {"sv", "sv-multicast"}),
        ("not port 5000", EVERY - {name for name in FRAMES if name.startswith(("udp", "tcp"))} | {"udp-ef"}),
        ("udp port 5009 or 4000 and not src 10.1.0.1", {"udp-back", "udp6"}),
        ("ether src 02:00:00:4e:00:01 and icmp", {"icmp"}),
        ("ether dst 02:00:00:4e:00:01", set()),
        ("ether host 02:00:00:4e:00:02 and not (ip or ip6 or vlan)", {"sv"}),
        ("multicast", {"sv-multicast"}),
    ],
)
def test_an_expression_fits_these_frames_and_no_others(
    bed: Bed, tmp_path: Path, expression: str, expected: set[str]
) -> None:
    agent = watched(bed, tmp_path, flow=parse_flow(expression))
    assert agent.until("ready")["watch"] == {"clock": "CLOCK_TAI", "snap": 128, "reads_pages": True}
    with bed.tap("sensor", "ecu") as talker:
        for frame in NAMED.values():
            talker.send(frame)
    agent.tell(stop=True)
    done = agent.until("done")
    assert agent.ended() == 0
    rows = recording(tmp_path, "watch.watched").table
    left = {"in": 0, "out": len(expected), "passed_in": 0, "passed_out": len(expected)}
    came = {"in": len(expected), "out": 0, "passed_in": len(expected), "passed_out": 0}
    assert done["points"] == [left, came]
    assert (done["lost"], done["ring_full"], done["recorded"]) == (0, 0, rows.height)
    for point, out in ((0, True), (1, False)):
        seen = [row for row in rows.iter_rows(named=True) if (row["point"], row["out"]) == (point, out)]
        assert {row["bytes"].rpartition(b"|")[2].decode() for row in seen} == expected
        assert all(row["ethernet"] for row in seen)
        assert [row["tai_ns"] for row in seen] == sorted(row["tai_ns"] for row in seen)


FILTERS = [
    "udp port 5000",
    "ip6 and udp",
    "vlan and vlan and udp",
    "vlan 10 and ether proto 0x88ba",
    "ip[8] = 9 and ip[1] >> 2 = 46",
    "udp[4:2] != 24 or tcp",
    "ip[16:4] & 0xffff0000 = 0x0a020000 and not icmp",
    "len > 80",
    "less 70",
    "ip[0] * 4 - ip[9] / 2 > 270 or ip[3] % 7 = 0 or ip[2:2] * 3 ^ 1 > 200",
    "ether multicast",
    "ip[6:2] & 0x1fff != 0",
    "ip[ip[9]:2] = 0x0200",
    "(ip[12] << ip[15]) | ip[1] = 20",
]


def any_filter(seed: int, length: int) -> list[Instruction]:
    """Instructions of every kind, in any order, the last of which accept about half of all frames."""
    draw = random.Random(seed)
    computing = [0x04, 0x14, 0x24, 0x34, 0x44, 0x54, 0x64, 0x74, 0x94, 0xA4]
    moving = [0x00, 0x01, 0x07, 0x87, 0x80, 0x81, 0x84, 0x60, 0x61, 0x02, 0x03]
    reading = [0x20, 0x28, 0x30, 0x40, 0x48, 0x50, 0xB1]
    asking = [0x15, 0x25, 0x35, 0x45, 0x1D, 0x2D, 0x3D, 0x4D]
    # Memory has no value in libpcap before it is stored to.
    found: list[Instruction] = [(0x30, 0, 0, draw.randrange(40)), (0x07, 0, 0, 0), *((0x02, 0, 0, n) for n in (0, 15))]
    while len(found) < length - 2:
        code = draw.choice(draw.choice([computing, [one | 0x08 for one in computing], moving, reading, asking, [0x05]]))
        further = draw.randrange(min(5, length - 1 - len(found)))
        number = {0x05: further}.get(code, draw.choice([0, 15]) if code in (0x60, 0x61, 0x02, 0x03) else None)
        number = draw.choice([1, 2, 5, 20, 33, 0xFF, 0x88BA]) if number is None else number
        if code in (0x40, 0x48, 0x50, 0x3C, 0x9C) and len(found) < length - 3:
            # Else most would read behind the frame, or divide by 0.
            found.append((0x01, 0, 0, draw.randrange(1, 9)))
        found.append((code, *(draw.sample([0, further], 2) if code in asking else (0, 0)), number))
    return [*found, (0x54, 0, 0, 1), (0x16, 0, 0, 0)]


def telling(length: int, count: int) -> list[list[Instruction]]:
    """So many filters of this length, none of which accepts all frames, and none none."""
    drawn = (any_filter(seed, length) for seed in range(10_000))
    found = (one for one in drawn if 0 < sum(accepts(one, frame) for frame in NAMED.values()) < len(NAMED))
    return list(islice(found, count))


def assert_accepts_what_libpcap_does(bed: Bed, folder: Path, filtering: list[Instruction]) -> None:
    expected = {name for name, frame in NAMED.items() if accepts(filtering, frame)}
    agent = watched(bed, folder, flow={"pcap": filtering})
    agent.until("ready")
    with bed.tap("sensor", "ecu") as talker:
        for frame in NAMED.values():
            talker.send(frame)
    agent.tell(stop=True)
    done = agent.until("done")
    assert [(one["out"], one["in"]) for one in done["points"]] == [(len(expected), 0), (0, len(expected))], filtering
    seen = recording(folder, "watch.watched").table["bytes"]
    assert {one.rpartition(b"|")[2].decode() for one in seen} == expected, filtering


@pytest.mark.parametrize("expression", FILTERS)
def test_a_filter_accepts_the_frames_that_libpcap_does(bed: Bed, tmp_path: Path, expression: str) -> None:
    assert_accepts_what_libpcap_does(bed, tmp_path, compiled(expression))


@pytest.mark.parametrize(("length", "count"), [(24, 15), (128, 2)])
def test_filters_of_any_instructions_accept_the_frames_that_libpcap_does(
    bed: Bed, tmp_path: Path, length: int, count: int
) -> None:
    for filtering in telling(length, count):
        assert_accepts_what_libpcap_does(bed, tmp_path, filtering)


def test_a_filter_sees_the_tag_that_the_kernel_keeps_beside_a_packet(relay_bed: Bed, tmp_path: Path) -> None:
    within = ("ip", "-n", "relay", "link")
    run(*within, "add", "br0", "type", "bridge")
    for port in ("sensor", "ecu"):
        run(*within, "set", port, "master", "br0")
    run(*within, "set", "br0", "up")
    shown = ("bridge", "-n", "relay", "-j", "link", "show")
    until(lambda: {one["state"] for one in json.loads(run(*shown))} == {"forwarding"})
    with inside("relay"):
        inode = Path("/proc/thread-self/ns/net").stat().st_ino
        point = {"netns": inode, "ifindex": socket.if_nametoindex("ecu")}
    expression = "vlan 10 and ether[14:2] = 0x800a and len = 72"
    agent = watched(relay_bed, tmp_path, flow=parse_flow(f"pcap: {expression}"), points=[point])
    agent.until("ready")
    frames = {pcp: MULTICAST + tag(10, pcp) + struct.pack(">H", 0x88BA) + bytes(54) for pcp in (3, 4, 5)}
    assert [pcp for pcp, frame in frames.items() if accepts(compiled(expression), frame)] == [4]
    with relay_bed.tap("sensor", "relay") as talker:
        for frame in frames.values():
            talker.send(frame)
    agent.tell(stop=True)
    assert agent.until("done")["points"][0]["out"] == 1


def test_a_filter_sees_packets_without_an_ethernet_header_behind_one(bed: Bed, tmp_path: Path) -> None:
    with inside("sensor"):
        tun = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", b"tun0", IFF_TUN | IFF_NO_PI))
        inode = Path("/proc/thread-self/ns/net").stat().st_ino
        point = {"netns": inode, "ifindex": socket.if_nametoindex("tun0")}
    run("ip", "-n", "sensor", "addr", "add", "10.9.0.1/24", "dev", "tun0")
    run("ip", "-n", "sensor", "link", "set", "tun0", "up")
    flow = parse_flow("pcap: udp dst port 5000 and udp[8:2] = 0x4242 and ether[0:4] = 0 and len = 44")
    agent = watched(bed, tmp_path, flow=flow, points=[point])
    agent.until("ready")
    with bed.udp("sensor", "10.9.0.1") as talker:
        for data in (b"AA", b"BB", b"BBB"):
            talker.sendto(data, ("10.9.0.2", 5000))
    agent.tell(stop=True)
    assert agent.until("done")["points"][0]["out"] == 1
    os.close(tun)


@pytest.mark.parametrize(
    ("pcap", "where", "what"),
    [
        ([], "flow.pcap", "0 instructions, expected 1 to 128"),
        ([[6, 0, 0, 0]] * 129, "flow.pcap", "129 instructions, expected 1 to 128"),
        ([[0x15, 0, 1, 5], [6, 0, 0, 0]], "flow.pcap[0]", "leads behind the last instruction"),
        ([[5, 0, 0, 1], [6, 0, 0, 0]], "flow.pcap[0]", "leads behind the last instruction"),
        ([[0x60, 0, 0, 16], [6, 0, 0, 0]], "flow.pcap[0]", "or to memory that is not there"),
        ([[0x28, 0, 0, 12]], "flow.pcap[0]", "leads behind the last instruction"),
        ([[0xFF, 0, 0, 0], [6, 0, 0, 0]], "flow.pcap[0][0]", "0xff is no instruction of classic BPF"),
    ],
)
def test_what_is_no_filter_is_refused(bed: Bed, tmp_path: Path, pcap: list[Any], where: str, what: str) -> None:
    agent = watched(bed, tmp_path, flow={"pcap": pcap})
    assert agent.ended() != 0
    (error,) = [event for event in agent.events if event["event"] == "error"]
    assert (error["where"], what in error["what"]) == (where, True), error


def test_flows_that_do_not_fit_are_named_only_where_nothing_fits(bed: Bed, tmp_path: Path) -> None:
    agent = watched(bed, tmp_path, flow=parse_flow("udp port 9"))
    agent.until("ready")
    with bed.tap("sensor", "ecu") as talker:
        for _ in range(3):
            talker.send(MACS + FRAMES["udp"])
        talker.send(MACS + FRAMES["sv-vlan"])
    agent.tell(stop=True)
    others = agent.until("done")["others"]
    assert {(one["point"], one["out"]) for one in others} == {(0, True), (1, False)}
    most = others[0]
    assert (most["packets"], most["ports"], most["source"], most["protocol"]) == (3, [4000, 5000], "10.1.0.1", 17)
    assert (others[1]["packets"], others[1]["ether_type"], others[1]["tag"]) == (1, 0x88BA, [10, 4])


def test_of_many_packets_that_do_not_fit_one_in_16_is_counted_for_16(bed: Bed, tmp_path: Path) -> None:
    each_of = 9000
    agent = watched(bed, tmp_path, flow=parse_flow("udp port 9"))
    agent.until("ready")
    with bed.tap("sensor", "ecu") as talker, on_one_cpu():
        # The first 4096 on each CPU are counted one by one.
        for _ in range(4096):
            talker.send(MACS + FRAMES["tcp"])
        for n in range(each_of):
            talker.send(MACS + FRAMES["udp"])
            talker.send(MACS + FRAMES["udp-back"])
            if n % 99 == 0:
                talker.send(MACS + FRAMES["icmp"])
    agent.tell(stop=True)
    left = [one for one in agent.until("done")["others"] if one["out"]]
    found = {(one["protocol"], one["source"]): one["packets"] for one in left}
    # Of the others one stands for 16, which takes turns with the flows as if by chance. 9000 is no multiple of 16.
    for source in ("10.1.0.1", "10.2.0.9"):
        assert abs(found[17, source] - each_of) < each_of / 20
    assert found[1, "10.1.0.1"] > 0
    assert {found[flow] % 16 for flow in ((17, "10.1.0.1"), (17, "10.2.0.9"), (1, "10.1.0.1"))} == {0}


def test_a_flow_of_the_most_tests_at_the_most_points_is_watched(bed: Bed, tmp_path: Path) -> None:
    addresses = " or ".join(f"dst host fd00:1::{n + 0x100:x}" for n in range(22))
    flow = parse_flow(f"{addresses} or src host 10.1.0.1 and udp dst port 5000")
    ends = both_ends()
    others = [{"netns": ends[0]["netns"], "ifindex": ends[0]["ifindex"] + 1000 + n} for n in range(62)]
    agent = watched(bed, tmp_path, flow=flow, points=[*others, *ends])
    agent.until("ready")
    with bed.tap("sensor", "ecu") as talker:
        for frame in FRAMES.values():
            talker.send(MACS + frame)
    agent.tell(stop=True)
    points = agent.until("done")["points"]
    fit = ["udp", "udp-qinq", "udp-rtag"]
    assert [(one["out"], one["in"]) for one in points] == [(0, 0)] * 62 + [(len(fit), 0), (0, len(fit))]


def test_of_a_long_packet_no_more_is_kept_than_was_asked_for(bed: Bed, tmp_path: Path) -> None:
    agent = watched(bed, tmp_path, flow=parse_flow("udp"), snap=100)
    agent.until("ready")
    with bed.tap("sensor", "ecu") as talker:
        frame = MACS + ipv4(17, ports(1, 2) + bytes(range(200)))
        talker.send(frame)
    agent.tell(stop=True)
    agent.until("done")
    (row, _) = recording(tmp_path, "watch.watched").table.iter_rows(named=True)
    assert (row["length"], row["bytes"]) == (len(frame), frame[: len(row["bytes"])])
    assert 100 <= len(row["bytes"]) <= 104  # whole words


def tcp(payload: bytes, source: int, checksum: int) -> bytes:
    return struct.pack(">HHIIBBHHH", source, 80, 1000, 2000, 0x50, 0x18, 512, checksum, 0) + payload


def sctp(payload: bytes, source: int, checksum: int) -> bytes:
    return struct.pack(">HHII", source, 80, 7, checksum) + payload


def icmp(payload: bytes, checksum: int) -> bytes:
    return struct.pack(">BBHHH", 8, 0, checksum, 5, 6) + payload


def prp_trailer(frame: bytes, lan: int) -> bytes:
    """IEC 62439-3: sequence number, LAN and size, suffix."""
    return struct.pack(">HHH", lan, lan << 12 | (len(frame) - 2 + 6), 0x88FB)


SV = struct.pack(">H", 0x88BA)
CHANGED: dict[str, tuple[Callable[[bytes], bytes], ...]] = {
    "udp": (
        lambda own: ipv4(17, ports(4000, 5000)[:8] + own),
        lambda own: ipv4(17, ports(61000, 5000)[:6] + b"\xab\xcd" + own, source="192.0.2.1", dscp=46),
        lambda own: tag(10, 5) + ipv4(17, ports(4000, 5000)[:8] + own),
        lambda own: struct.pack(">HHH", 0xF1C1, 0, 7) + ipv4(17, ports(4000, 5000)[:8] + own) + bytes(6),
    ),
    "tcp": (
        lambda own: ipv4(6, tcp(own, 4000, 1)),
        lambda own: tag(7) + ipv4(6, tcp(own, 61000, 2), source="192.0.2.1"),
    ),
    "sctp": (lambda own: ipv4(132, sctp(own, 4000, 1)), lambda own: tag(7) + ipv4(132, sctp(own, 61000, 2))),
    "icmp": (lambda own: ipv4(1, icmp(own, 1)), lambda own: tag(7) + ipv4(1, icmp(own, 2), source="192.0.2.1")),
    "udp6": (
        lambda own: ipv6(17, ports(4000, 5000)[:8] + own),
        lambda own: tag(10, 5) + ipv6(17, ports(61000, 5000)[:8] + own, dscp=46),
    ),
    "sv": (
        lambda own: SV + own,
        lambda own: tag(10, 4) + SV + own + bytes(9),
        lambda own: (SV + own) + prp_trailer(SV + own, 0xA),
        lambda own: tag(10, 4) + (SV + own) + prp_trailer(SV + own, 0xB),
    ),
}
"""By protocol the same packet as it may pass several points, behind the addresses of its frame."""


@pytest.mark.parametrize("protocol", CHANGED)
def test_of_a_sample_the_same_packets_are_recorded_whatever_their_path_changes(
    bed: Bed, tmp_path: Path, protocol: str
) -> None:
    count, sample = 1000, 8
    agent = watched(bed, tmp_path, flow={"all": []}, sample=sample)
    agent.until("ready")
    with bed.tap("sensor", "ecu") as talker:
        for number in range(count):
            own = b"<own %05d>" % number + bytes(20) + b"|"
            for form, frame in enumerate(CHANGED[protocol]):
                # Its form stands in the addresses, which no digest is made of.
                talker.send(MACS[:11] + bytes([form]) + frame(own))
    agent.tell(stop=True)
    done = agent.until("done")
    assert agent.ended() == 0
    forms = len(CHANGED[protocol])
    assert [done["points"][0]["passed_out"], done["points"][1]["passed_in"]] == [count * forms] * 2
    found: dict[tuple[int, int], list[bytes]] = {}
    for row in recording(tmp_path, "watch.watched").table.iter_rows(named=True):
        _, _, own = row["bytes"].partition(b"<own ")
        found.setdefault((row["point"], row["bytes"][11]), []).append(own[:5])
    chosen = found[0, 0]
    assert found == {(point, form): chosen for point in range(2) for form in range(forms)}
    # Five standard deviations of a binomial distribution on either side.
    assert abs(len(chosen) - count / sample) < 5 * (count / sample) ** 0.5
    assert len(set(chosen)) == len(chosen)


def test_the_number_in_a_sequence_does_not_decide_what_is_in_a_sample(bed: Bed, tmp_path: Path) -> None:
    count, sample = 4000, 10
    agent = watched(bed, tmp_path, flow=parse_flow("udp"), sample=sample)
    agent.until("ready")
    with bed.tap("sensor", "ecu") as talker:
        for number in range(count):
            talker.send(MACS + ipv4(17, ports(4000, 5000)[:8] + struct.pack(">Q", number)))
    agent.tell(stop=True)
    agent.until("done")
    rows = recording(tmp_path, "watch.watched").table
    numbers = [struct.unpack(">Q", row["bytes"][42:50])[0] for row in rows.iter_rows(named=True) if row["out"]]
    for part in range(8):
        in_part = sum(number * 8 // count == part for number in numbers)
        of_rest = sum(number % 8 == part for number in numbers)
        for found in (in_part, of_rest):
            assert abs(found - count / 8 / sample) < 5 * (count / 8 / sample) ** 0.5


def test_what_lies_in_pages_apart_from_its_headers_is_read_and_kept(bed: Bed, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_bytes(bytes(range(200)))
    agent = watched(bed, tmp_path, flow=parse_flow("udp port 5000"))
    agent.until("ready")
    with (
        bed.udp("sensor", "10.78.0.1") as talker,
        bed.udp("ecu", "10.78.0.2", 5000) as listener,
        data.open("rb") as file,
    ):
        talker.connect(("10.78.0.2", 5000))
        # The kernel sends the file's own pages.
        assert os.sendfile(talker.fileno(), file.fileno(), 0, 200) == 200
        assert listener.recv(300) == data.read_bytes()
    agent.tell(stop=True)
    agent.until("done")
    rows = list(recording(tmp_path, "watch.watched").table.iter_rows(named=True))
    assert [(row["out"], row["bytes"][42:]) for row in rows] == [
        (True, data.read_bytes()[:86]),
        (False, data.read_bytes()[:86]),
    ]


def test_a_packet_that_a_card_cuts_is_recorded_once_with_how_many_it_stands_for(bed: Bed, tmp_path: Path) -> None:
    agent = watched(bed, tmp_path, flow=parse_flow("udp port 5000"))
    agent.until("ready")
    with bed.udp("sensor", "10.78.0.1") as talker, bed.udp("ecu", "10.78.0.2", 5000):
        talker.setsockopt(socket.SOL_UDP, 103, 100)  # UDP_SEGMENT
        talker.sendto(bytes(range(250)), ("10.78.0.2", 5000))
        talker.setsockopt(socket.SOL_UDP, 103, 0)
        talker.sendto(bytes(30), ("10.78.0.2", 5000))
    agent.tell(stop=True)
    agent.until("done")
    rows = list(recording(tmp_path, "watch.watched").table.iter_rows(named=True))
    assert [(row["length"], row["segments"]) for row in rows if row["out"]] == [(292, 3), (72, 1)]


@pytest.mark.parametrize(
    ("before", "why"), [(NO_BTF, "no BTF"), (UNPRIVILEGED, "it takes root, or CAP_BPF and CAP_PERFMON")]
)
def test_a_kernel_that_lets_nobody_watch_is_one_error(
    bed: Bed, tmp_path: Path, before: tuple[str, ...], why: str
) -> None:
    spec = {"run_id": new_run_id(), "recording": str(tmp_path / "watch"), "realtime": ORDINARY, "flow": {"all": []}}
    agent = bed.agent("ecu", "watch", {**spec, "points": [{"netns": 1, "ifindex": 1}]}, before=before)
    error = agent.until("error")
    assert why in error["what"]
    assert "tcpdump" in error["remedy"]
    assert agent.ended() == 1


def test_nothing_stays_attached_when_it_is_killed(bed: Bed, tmp_path: Path) -> None:
    points = both_ends()
    before = programs()
    agent = watched(bed, tmp_path, flow=parse_flow("udp"), points=[*points, {**points[0], "ifindex": 0}])
    agent.until("ready")
    own = programs().items() - before.items()
    assert {name for _, name in own} >= ATTACHED
    agent.kill()
    deadline = time.monotonic() + 10
    while own & programs().items() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not own & programs().items()
