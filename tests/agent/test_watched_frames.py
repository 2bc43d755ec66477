"""Which frames the agent records: every kind of expression against the same frames, sent through a real cable."""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from agent_bed import Bed, inside
from agent_process import Agent
from agent_streams import ORDINARY, new_run_id, recording

from latlab.scenario.watched import parse_flow

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        not Path("/sys/kernel/btf/vmlinux").exists(),
        reason="this kernel has no BTF, so no BPF program sees its packets",
    ),
]

NO_BTF = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /sys/kernel/btf && exec "$@"', "sh")
UNPRIVILEGED = ("setpriv", "--bounding-set", "-sys_admin,-bpf,-perfmon")
MACS = bytes.fromhex("0200004e0002 0200004e0001")


MULTICAST = bytes.fromhex("010ccd040001 0200004e0001")


def tag(vid: int, pcp: int = 0, kind: int = 0x8100) -> bytes:
    return struct.pack(">HH", kind, pcp << 13 | vid)


def ipv4(protocol: int, payload: bytes, *, source: str = "10.1.0.1", to: str = "10.2.0.9", dscp: int = 0) -> bytes:
    addresses = socket.inet_aton(source) + socket.inet_aton(to)
    head = struct.pack(">BBHHHBBH", 0x45, dscp << 2, 20 + len(payload), 1, 0, 9, protocol, 0)
    return struct.pack(">H", 0x0800) + head + addresses + payload


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
EVERY = {*FRAMES, "sv-multicast"}
UDP = {"udp", "udp-back", "udp-ef", "udp6", "udp-qinq", "udp-rtag", "fragment"}


def both_ends() -> list[dict[str, int]]:
    """The cable's ends, as the agent has points."""
    points = []
    for namespace, interface in (("sensor", "ecu"), ("ecu", "sensor")):
        with inside(namespace):
            inode = Path("/proc/thread-self/ns/net").stat().st_ino
            points.append({"netns": inode, "ifindex": socket.if_nametoindex(interface)})
    return points


ATTACHED = {"watch_in", "watch_out", "watch_call", "watch_sent"}
"""The programs of interfaces, and those of sends."""


def watched(bed: Bed, folder: Path, **changes: Any) -> Agent:
    """An agent that watches both ends of the cable."""
    spec = {"run_id": new_run_id(), "recording": str(folder / "watch"), "realtime": ORDINARY, "points": both_ends()}
    return bed.agent("ecu", "watch", {**spec, **changes})


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
        for name, what in FRAMES.items():
            talker.send(MACS + what + b"|" + name.encode())
        talker.send(MULTICAST + FRAMES["sv"] + b"|sv-multicast")
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


def programs() -> dict[int, str]:
    """{id: name} of the BPF programs that the kernel has (bpf(2), BPF_PROG_GET_NEXT_ID and BPF_OBJ_GET_INFO_BY_FD)."""
    bpf = ctypes.CDLL(None, use_errno=True).syscall
    number = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
    found: dict[int, str] = {}
    at = 0
    while True:
        attribute = ctypes.create_string_buffer(struct.pack("II", at, 0), 128)
        if bpf(number, 11, attribute, 12):
            return found
        (at,) = struct.unpack_from("I", attribute, 4)
        attribute = ctypes.create_string_buffer(struct.pack("III", at, 0, 0), 128)
        descriptor = bpf(number, 13, attribute, 12)
        if descriptor < 0:
            continue
        info = ctypes.create_string_buffer(232)
        attribute = ctypes.create_string_buffer(struct.pack("IIQ", descriptor, 232, ctypes.addressof(info)), 128)
        if not bpf(number, 15, attribute, 16):
            found[at] = info.raw[64:80].split(b"\0")[0].decode()
        os.close(descriptor)
