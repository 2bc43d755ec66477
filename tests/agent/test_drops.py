"""Where the kernel drops packets of ours, and why: real packets, dropped on purpose at places of each kind."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from support.agent.bed import Bed, inside, mac
from support.agent.process import Agent
from support.agent.streams import ECU, ETHERTYPE, ORDINARY, SENSOR, Probe, new_run_id, recording
from support.machine import run

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        not Path("/sys/kernel/btf/vmlinux").exists(), reason="this kernel has no BTF, so no BPF program sees its drops"
    ),
]

PORT = 5557
COUNT = 40
UNPRIVILEGED = ("setpriv", "--bounding-set", "-sys_admin,-bpf,-perfmon")
"""Without what BPF programs take; CAP_NET_ADMIN and CAP_NET_RAW stay."""
NO_BTF = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /sys/kernel/btf && exec "$@"', "sh")
NO_ADDRESSES = (
    *("unshare", "--mount", "sh", "-c"),
    'mount --bind /dev/null /proc/kallsyms && exec "$@"',
    "sh",
)
SV_PREFIX = 44
"""Bytes from EtherType to the samples (IEC 61850-9-2, annex A), as the agent's talker has them."""
TC_DROP = """
__attribute__((section("tc"), used)) int drop(void *skb) { return 2; }
char LICENSE[] __attribute__((section("license"), used)) = "GPL";
"""
"""A filter that drops all (TC_ACT_SHOT)."""


class Watched:
    """Drops of one run, watched in `ecu`."""

    def __init__(self, bed: Bed, folder: Path, *, before: tuple[str, ...] = (), **changes: Any) -> None:
        self.bed = bed
        self.folder = folder
        self.run_id = new_run_id()
        spec = {"run_id": self.run_id, "recording": str(folder / "drops-ecu"), "realtime": ORDINARY, **changes}
        self.agent: Agent = bed.agent("ecu", "drops", spec, before=before)
        self.ready = self.agent.until("ready")

    def probes(self, count: int = COUNT, size: int = 64) -> list[bytes]:
        """Packets of stream 7 of this run."""
        return [Probe(self.run_id, sequence=n, stream=7, size=size).bytes() for n in range(count)]

    def send(self, count: int = COUNT, size: int = 64, to: str = ECU, port: int = PORT) -> None:
        """Send datagrams from `sensor`."""
        with self.bed.udp("sensor", "0.0.0.0") as talker:
            for probe in self.probes(count, size):
                talker.sendto(probe, (to, port))

    def end(self) -> tuple[dict[str, Any], pl.DataFrame]:
        """What it says at its end, and what it has recorded of our stream."""
        self.agent.tell(stop=True)
        done = self.agent.until("done")
        assert self.agent.ended() == 0
        return done, recording(self.folder, "drops-ecu.drops").table

    def dropped(self) -> pl.DataFrame:
        """The same, of packets each of which was dropped once: all of them are ours, in their order."""
        done, drops = self.end()
        assert done["lost"] == done["ring_full"] == 0
        assert done["drops"] == done["recorded"] == drops.height
        assert drops["stream"].unique().to_list() == [7]
        assert drops["sequence"].is_unique().all()
        assert drops["tai_ns"].is_sorted()
        return drops


def namespace(name: str) -> int:
    """Inode of a network namespace."""
    return os.stat(f"/run/netns/{name}").st_ino


def only(drops: pl.DataFrame, column: str) -> Any:
    """What all rows have in common there."""
    values = drops[column].unique().to_list()
    assert len(values) == 1, (column, values, drops.rows()[:3])
    return values[0]


def test_it_says_what_it_watches(bed: Bed, tmp_path: Path) -> None:
    watched = Watched(bed, tmp_path)
    found = watched.ready["drops"]
    assert (found["watched"], found["missing"]) == (True, [])
    assert watched.ready["netns"] == namespace("ecu")
    # A drop of another run is not ours.
    with bed.udp("sensor", SENSOR) as talker:
        talker.sendto(Probe(new_run_id()).bytes(), (ECU, PORT))
    done, drops = watched.end()
    assert (done["drops"], drops.height) == (0, 0)


def test_a_full_socket_buffer(bed: Bed, tmp_path: Path) -> None:
    watched = Watched(bed, tmp_path)
    with inside("ecu"), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        receiver.bind((ECU, PORT))
        watched.send(200)
        receiver.setblocking(False)
        received = 0
        with contextlib.suppress(BlockingIOError):
            while receiver.recv(100):
                received += 1
    drops = watched.dropped()
    assert received + drops.height == 200
    assert drops.height > 100
    assert only(drops, "reason") == "SOCKET_RCVBUFF"
    assert only(drops, "netns") == namespace("ecu")
    assert "udp" in only(drops, "location")


def test_a_port_that_nobody_has_and_a_filter_of_a_socket(bed: Bed, tmp_path: Path) -> None:
    watched = Watched(bed, tmp_path)
    watched.send()
    drops = watched.dropped()
    assert drops["sequence"].to_list() == list(range(COUNT))
    assert (only(drops, "reason"), only(drops, "device"), only(drops, "netns")) == (
        "NO_SOCKET",
        "sensor",
        namespace("ecu"),
    )
    other = Watched(bed, tmp_path)
    with bed.udp("ecu", ECU, PORT) as receiver:
        nothing = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0))  # BPF_RET 0
        receiver.setsockopt(socket.SOL_SOCKET, 26, struct.pack("HP", 1, ctypes.addressof(nothing)))
        other.send()
    assert only(other.dropped(), "reason") == "SOCKET_FILTER"


def test_a_queue_that_is_full(bed: Bed, tmp_path: Path) -> None:
    watched = Watched(bed, tmp_path)
    shaped = ("rate", "8kbit", "burst", "200", "limit", "400")
    run("tc", "-n", "sensor", "qdisc", "replace", "dev", "ecu", "root", "tbf", *shaped)
    with bed.udp("ecu", ECU, PORT):
        watched.send()
        drops = watched.dropped()
    assert COUNT - 10 <= drops.height < COUNT
    assert only(drops, "reason").startswith("QDISC_")
    assert (only(drops, "device"), only(drops, "netns")) == ("ecu", namespace("sensor"))


def test_a_cable_that_is_down_at_the_other_end(bed: Bed, tmp_path: Path) -> None:
    watched = Watched(bed, tmp_path)
    run("ip", "-n", "ecu", "link", "set", "sensor", "down")
    with bed.tap("sensor", "ecu") as talker, contextlib.suppress(OSError):
        for probe in watched.probes():
            talker.send(frame(probe))
    drops = watched.dropped()
    assert drops.height > 0
    assert only(drops, "device") == "ecu"


def test_a_frame_that_is_larger_than_the_other_end_takes(bed: Bed, tmp_path: Path) -> None:
    watched = Watched(bed, tmp_path)
    run("ip", "-n", "ecu", "link", "set", "sensor", "mtu", "500")
    watched.send(size=1000)
    drops = watched.dropped()
    assert drops["sequence"].to_list() == list(range(COUNT))
    assert only(drops, "device") in ("ecu", "sensor")
    assert only(drops, "reason") is not None


def test_an_address_that_comes_in_where_it_cannot_be(bed: Bed, tmp_path: Path) -> None:
    watched = Watched(bed, tmp_path)
    run("ip", "netns", "exec", "ecu", "sysctl", "-qw", "net.ipv4.conf.all.rp_filter=1")
    run("ip", "-n", "sensor", "addr", "add", "10.99.0.1/32", "dev", "lo")
    with bed.udp("sensor", "10.99.0.1") as talker:
        for probe in watched.probes():
            talker.sendto(probe, (ECU, PORT))
    drops = watched.dropped()
    assert (only(drops, "reason"), only(drops, "device")) == ("IP_RPFILTER", "sensor")


def test_a_rule_of_a_packet_filter(bed: Bed, tmp_path: Path) -> None:
    watched = Watched(bed, tmp_path)
    run("ip", "netns", "exec", "ecu", "nft", "add", "table", "inet", "filter")
    chain = ("chain", "inet", "filter", "input")
    run("ip", "netns", "exec", "ecu", "nft", "add", *chain, "{ type filter hook input priority 0 ; }")
    run("ip", "netns", "exec", "ecu", "nft", "add", "rule", *chain[1:], "udp", "dport", str(PORT), "drop")
    with bed.udp("ecu", ECU, PORT):
        watched.send()
        drops = watched.dropped()
    assert drops["sequence"].to_list() == list(range(COUNT))
    assert (only(drops, "reason"), only(drops, "netns")) == ("NETFILTER_DROP", namespace("ecu"))


@pytest.mark.parametrize(("wrong", "reason"), [("ip", "IP_CSUM"), ("udp", "UDP_CSUM")])
def test_a_wrong_checksum(bed: Bed, tmp_path: Path, wrong: str, reason: str) -> None:
    watched = Watched(bed, tmp_path)
    with bed.tap("sensor", "ecu") as talker:
        for probe in watched.probes():
            talker.send(datagram(probe, wrong))
    drops = watched.dropped()
    assert drops["sequence"].to_list() == list(range(COUNT))
    assert (only(drops, "reason"), only(drops, "device")) == (reason, "sensor")


@pytest.mark.skipif(shutil.which("clang") is None, reason="clang makes the filter")
@pytest.mark.parametrize("side", ["egress", "ingress"])
@pytest.mark.parametrize("kind", ["udp", "ethernet", "vlan", "sv"])
def test_a_filter_of_tc(bed: Bed, tmp_path: Path, side: str, kind: str) -> None:
    host, device = ("sensor", "ecu") if side == "egress" else ("ecu", "sensor")
    source, program = tmp_path / "drop.c", tmp_path / "drop.o"
    source.write_text(TC_DROP)
    run("clang", "-O2", "-target", "bpf", "-c", str(source), "-o", str(program))
    watched = Watched(bed, tmp_path, frames=[{"payload": "iec61850-sv", "size": 64}])
    run("tc", "-n", host, "qdisc", "add", "dev", device, "clsact")
    run("tc", "-n", host, "filter", "add", "dev", device, side, "bpf", "da", "obj", str(program), "sec", "tc")
    if kind == "udp":
        watched.send()
    else:
        tag = b"" if kind == "ethernet" else struct.pack("!HH", 0x8100, 5)
        behind = bytes(SV_PREFIX) if kind == "sv" else b""
        with bed.tap("sensor", "ecu") as talker:
            for probe in watched.probes():
                with contextlib.suppress(OSError):
                    talker.send(frame(behind + probe, tag))
    drops = watched.dropped()
    assert drops["sequence"].to_list() == list(range(COUNT))
    assert (only(drops, "reason"), only(drops, "device"), only(drops, "netns")) == (
        f"TC_{side.upper()}",
        device,
        namespace(host),
    )


@pytest.mark.parametrize("kind", ["udp", "ethernet"])
def test_a_tap_that_nobody_reads(bed: Bed, tmp_path: Path, kind: str) -> None:
    watched = Watched(bed, tmp_path)
    with opened_tap("sensor", "tap0"):
        run("ip", "-n", "sensor", "addr", "add", "10.80.0.1/24", "dev", "tap0")
        run("ip", "-n", "sensor", "link", "set", "tap0", "txqueuelen", "10", "up")
        run("ip", "-n", "sensor", "neigh", "replace", "10.80.0.2", "lladdr", mac(ECU), "dev", "tap0")
        if kind == "udp":
            watched.send(100, to="10.80.0.2")
        else:
            with bed.tap("sensor", "tap0") as talker:
                for probe in watched.probes(100):
                    with contextlib.suppress(OSError):
                        talker.send(frame(probe))
        drops = watched.end()[1]
    full = drops.filter(pl.col("reason").is_in(["FULL_RING", "QDISC_DROP"]))
    assert 0 < full.height <= 90
    assert (only(full, "device"), only(full, "netns")) == ("tap0", namespace("sensor"))


def frame(probe: bytes, tag: bytes = b"") -> bytes:
    """The probe in an Ethernet frame to `ecu`."""
    addresses = (mac(ECU) + ":" + mac(SENSOR)).replace(":", "")
    return bytes.fromhex(addresses) + tag + struct.pack("!H", ETHERTYPE) + probe


def datagram(probe: bytes, wrong: str) -> bytes:
    """The probe in a frame of IPv4 and UDP to `ecu`, whose checksum of `ip` or `udp` is wrong."""
    addresses = bytes.fromhex((mac(ECU) + ":" + mac(SENSOR)).replace(":", "")) + b"\x08\x00"
    udp = struct.pack("!HHHH", PORT, PORT, 8 + len(probe), 0xDEAD if wrong == "udp" else 0)
    ends = socket.inet_aton(SENSOR) + socket.inet_aton(ECU)
    fields = (0x45, 0, 20 + len(udp) + len(probe), 0, 0, 64, socket.IPPROTO_UDP)
    found = ones_complement(struct.pack("!BBHHHBBH", *fields, 0) + ends) ^ (1 if wrong == "ip" else 0)
    return addresses + struct.pack("!BBHHHBBH", *fields, found) + ends + udp + probe


def ones_complement(header: bytes) -> int:
    """The checksum of a header that has none (RFC 1071)."""
    total: int = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


@contextlib.contextmanager
def opened_tap(name: str, interface: str) -> Iterator[None]:
    """A tap in the namespace, with its own ring, while it is open."""
    with inside(name):
        descriptor = os.open("/dev/net/tun", os.O_RDWR)
        try:
            fcntl.ioctl(descriptor, 0x400454CA, struct.pack("16sH", interface.encode(), 0x1002))  # TUNSETIFF, IFF_TAP
            yield
        finally:
            os.close(descriptor)


@pytest.mark.parametrize(
    ("before", "why"),
    [(UNPRIVILEGED, "it takes root, or CAP_BPF and CAP_PERFMON"), (NO_BTF, "this kernel has no BTF")],
    ids=["unprivileged", "no-btf"],
)
def test_where_the_kernel_refuses_it_waits_for_its_end_and_one_line_says_why(
    bed: Bed, tmp_path: Path, before: tuple[str, ...], why: str
) -> None:
    watched = Watched(bed, tmp_path, before=before)
    found = watched.ready["drops"]
    assert (found["watched"], found["clock"]) == (False, None)
    (line,) = found["missing"]
    assert line.startswith(f"where packets are dropped is not watched: {why}")
    assert line.endswith("losses are counted, and have no place")
    watched.send()
    done, drops = watched.end()
    assert (done["drops"], done["lost"], drops.height) == (0, 0, 0)


def test_without_addresses_of_functions_there_are_reasons_still(bed: Bed, tmp_path: Path) -> None:
    watched = Watched(bed, tmp_path, before=NO_ADDRESSES)
    assert (watched.ready["drops"]["watched"], watched.ready["drops"]["locations"]) == (True, False)
    (line,) = watched.ready["drops"]["missing"]
    assert line.startswith("no functions: ")
    watched.send()
    drops = watched.dropped()
    assert (only(drops, "reason"), only(drops, "location")) == ("NO_SOCKET", None)


def test_what_the_ring_has_no_room_for_is_counted(bed: Bed, tmp_path: Path) -> None:
    watched = Watched(bed, tmp_path, ring_records=16)
    watched.agent.signal(signal.SIGSTOP)
    watched.agent.wait_until_stopped()
    # The least ring has 64 KiB, 64 bytes for each.
    watched.send(1500)
    watched.agent.signal(signal.SIGCONT)
    done, drops = watched.end()
    assert done["lost"] > 0
    assert drops.height + done["lost"] == 1500


@pytest.mark.skipif(shutil.which("bpftool") is None, reason="bpftool lists the programs")
def test_nothing_stays_in_the_kernel_after_the_agent_was_killed(bed: Bed, tmp_path: Path) -> None:
    before = programs()
    watched = Watched(bed, tmp_path)
    own = programs() - before
    assert len(own) == 1
    watched.agent.signal(signal.SIGKILL)
    watched.agent.ended()
    deadline = time.monotonic() + 10
    while own & programs() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not own & programs()


def programs() -> set[int]:
    """The numbers of the programs that are in the kernel and see drops."""
    found = json.loads(subprocess.run(["bpftool", "--json", "prog", "show"], check=True, capture_output=True).stdout)
    return {one["id"] for one in found if one.get("name", "").startswith("dropped_")}
