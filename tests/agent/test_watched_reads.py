"""`latlab watch` where packets are read from a tap or macvtap, as by vhost-net and QEMU: by a test, which is slow."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from latlab.model.errors import UsageError
from support.agent.bed import Bed, inside
from support.agent.process import PATIENCE_S
from support.agent.watch import COUNT, PORT, cell_of, ipv4, payload, reasons, tag, transit, watching
from support.machine import run, until_it_is

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        not Path("/sys/kernel/btf/vmlinux").exists(),
        reason="this kernel has no BTF, so no BPF program sees its packets",
    ),
]

GUEST = "02:00:00:00:00:77"
WAIT_S = 0.01
NEVER = 5
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 2, 0x1000


@contextlib.contextmanager
def tap() -> Iterator[tuple[int, str]]:
    """A tap that a kernel bridge of `ecu` has next to the cable, and a file descriptor that reads from it."""
    with inside("ecu"):
        descriptor = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", b"tap0", IFF_TAP | IFF_NO_PI))
    run("ip", "-n", "ecu", "link", "add", "br0", "type", "bridge", "mcast_snooping", "0")
    for port in ("sensor", "tap0", "br0"):
        run("ip", "-n", "ecu", "link", "set", port, *(() if port == "br0" else ("master", "br0")), "up")
    until_it_is("br0", namespace="ecu")
    try:
        yield descriptor, "tap0"
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def macvtap(node: Path) -> Iterator[tuple[int, str]]:
    """A macvtap on the cable's end in `ecu`, and a file descriptor that reads from it."""
    kind = ("address", GUEST, "type", "macvtap", "mode", "bridge")
    run("ip", "-n", "ecu", "link", "add", "link", "sensor", "name", "mv0", *kind)
    run("ip", "-n", "ecu", "link", "set", "mv0", "up")
    until_it_is("mv0", namespace="ecu")
    numbers = run("ip", "netns", "exec", "ecu", "sh", "-c", "cat /sys/class/net/mv0/tap*/dev").split(":")
    os.mknod(node, 0o20600, os.makedev(*map(int, numbers)))
    descriptor = os.open(node, os.O_RDWR)
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", b"mv0", IFF_TAP | IFF_NO_PI))
    try:
        yield descriptor, "mv0"
    finally:
        os.close(descriptor)


def frame(number: int, tags: bytes) -> bytes:
    datagram = struct.pack(">HHHH", 4000, PORT, 8 + len(payload(0)), 0) + payload(number)
    packet = bytearray(ipv4(17, datagram))
    # A kernel bridge with br_netfilter drops packets whose header's checksum is wrong.
    total = sum(struct.unpack_from(">10H", packet, 2))
    struct.pack_into(">H", packet, 12, ~(total + (total >> 16)) & 0xFFFF)
    return bytes.fromhex(GUEST.replace(":", "")) + bytes.fromhex("020000000001") + tags + packet


@pytest.mark.parametrize("tags", [b"", tag(10, 5)], ids=["untagged", "VLAN"])
@pytest.mark.parametrize("kind", ["tap", "macvtap"])
def test_what_is_read_from_a_tap_has_the_moment_when_it_is_read(
    bed: Bed, tmp_path: Path, kind: str, tags: bytes
) -> None:
    """Before it is read a packet waits in the tap's queue; the last ones are never read."""
    came = list[bytes]()
    with (
        tap() if kind == "tap" else macvtap(tmp_path / "node") as (descriptor, device),
        bed.tap("sensor", "ecu") as talker,
    ):
        # A bridge forwards from a port when it is up for a moment.
        time.sleep(0.1)

        def act() -> None:
            for number in range(COUNT):
                talker.send(frame(number, tags))
                if number < COUNT - NEVER:
                    assert select.select([descriptor], [], [], PATIENCE_S)[0]
                    time.sleep(WAIT_S)
                    came.append(os.read(descriptor, 2000))

        handed = f"ns:ecu/{'tap0:out' if kind == 'tap' else 'sensor:in'}"
        folder = watching(tmp_path, act, (handed, f"ns:ecu/{device}:read"))
    # The tag is in what was read: the packet was copied in two parts, and counts once.
    assert came == [frame(number, tags) for number in range(COUNT - NEVER)]
    cell = cell_of(folder)
    read = transit(cell, f"{handed.replace(':', '-').replace('/', '-')}-to-ns-ecu-{device}-read")
    assert (read["n"], read["lost"], read["min"] > WAIT_S * 1e9) == (COUNT - NEVER, NEVER, True)
    assert (read["uncertainty_ns"], cell["verdict"]) == (0, "trusted")


def test_what_sockets_receive_is_not_read_from_a_tap(bed: Bed, tmp_path: Path) -> None:
    """They are copied by the same function of the kernel."""
    with tap() as (descriptor, device):
        run("ip", "-n", "ecu", "addr", "flush", "dev", "sensor")
        run("ip", "-n", "ecu", "addr", "add", "10.78.0.2/24", "dev", "br0")
        run("ip", "-n", "ecu", "link", "set", "br0", "address", "02:00:00:00:00:02")
        with bed.udp("sensor", "10.78.0.1") as talker, bed.udp("ecu", "10.78.0.2", PORT) as listener:

            def act() -> None:
                for number in range(COUNT):
                    talker.sendto(payload(number), ("10.78.0.2", PORT))
                    assert listener.recv(100) == payload(number)

            folder = watching(tmp_path, act, ("ns:ecu/sensor:in", f"ns:ecu/{device}:read"))
        assert not select.select([descriptor], [], [], 0)[0]
    gaps = cell_of(folder)["streams"]["at-ns-ecu-sensor-in"]["metrics"]["interarrival"]
    assert (gaps["n"], list(reasons(folder))) == (COUNT - 1, ["packets-arrived"])


@pytest.mark.parametrize(
    ("point", "what"),
    [
        ("ns:ecu/sensor:read", "it is not a tap or macvtap"),
        ("ns:ecu/socket:read", "sockets are not a tap"),
    ],
)
def test_where_nothing_reads_packets_is_one_error(bed: Bed, tmp_path: Path, point: str, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        watching(tmp_path, lambda: None, (point,))
