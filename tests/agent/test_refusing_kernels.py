"""Kernels that are locked down, older, or without BPF: one line says what is missing, and what is used instead."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.agent.bed import Bed, inside
from support.agent.streams import ORDINARY, Stream, new_run_id, talk_spec

KERNEL_TYPES = Path("/sys/kernel/btf/vmlinux")

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not KERNEL_TYPES.exists(), reason="this kernel has no BTF: it refuses for that reason alone"),
]

Before = tuple[str, ...]
PLACE = "/sys/kernel/security"
LOCKED = f"mount -t tmpfs tmpfs {PLACE} && echo 'none integrity [confidentiality]' > {PLACE}/lockdown"
BPF = {"x86_64": 321, "aarch64": 280}[platform.machine()]
# A filter (seccomp(2)) has bpf(2) fail with ENOSYS, and allows all else.
WITHOUT_BPF = f"""
import ctypes, os, struct, sys
code = [(0x20, 0, 0, 0), (0x15, 0, 1, {BPF}), (0x06, 0, 0, 0x00050000 | 38), (0x06, 0, 0, 0x7FFF0000)]
filter = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in code))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code), ctypes.addressof(filter)))
assert ctypes.CDLL(None).prctl(38, 1, 0, 0, 0) == 0 == ctypes.CDLL(None).prctl(22, 2, program)
os.execv("/bin/sh", ["sh", "-c", 'exec "$@"', "sh", *sys.argv[1:]])
"""
MMAP = {"x86_64": 9, "aarch64": 222}[platform.machine()]
MAP_SHARED, MAP_POPULATE = 0x1, 0x8000
# The same of mmap(2) with the flags by which an agent maps the rings of its programs: it fails with EPERM.
WITHOUT_RINGS = WITHOUT_BPF.replace(
    f"(0x15, 0, 1, {BPF}), (0x06, 0, 0, 0x00050000 | 38)",
    f"(0x15, 0, 3, {MMAP}), (0x20, 0, 0, 40), (0x15, 0, 1, {MAP_SHARED | MAP_POPULATE}), (0x06, 0, 0, 0x00050000 | 1)",
)


def mounted(script: str) -> Before:
    """What starts an agent that sees other files than the machine's."""
    return ("unshare", "--mount", "sh", "-c", f'{script} && exec "$@"', "sh")


def locked_down() -> tuple[Before, str]:
    """A kernel that is locked down says so, and refuses."""
    refusing = ("setpriv", "--bounding-set", "-sys_admin,-bpf,-perfmon")
    return (*mounted(LOCKED), *refusing), "this kernel is locked down (lockdown=confidentiality)"


def without_bpf() -> tuple[Before, str]:
    """A kernel that was built without the system call, as a small guest's."""
    return (sys.executable, "-c", WITHOUT_BPF), "this kernel has no BPF (CONFIG_BPF_SYSCALL)"


def without_tracepoint(folder: Path, name: str, *functions: str) -> tuple[Before, str]:
    """A kernel whose types do not have the tracepoint, as one before it was added, nor these functions."""
    types = KERNEL_TYPES.read_bytes()
    for absent in (f"btf_trace_{name}", *functions):
        found = f"\0{absent}\0".encode()
        assert types.count(found) == 1
        types = types.replace(found, found.upper())
    (folder / "vmlinux").write_bytes(types)
    script = f"mount --bind {folder / 'vmlinux'} {KERNEL_TYPES}"
    return mounted(script), f"this kernel has no tracepoint {name}"


def talking(bed: Bed, folder: Path, before: Before) -> dict[str, Any]:
    """`stamps_by` of a talker that takes what it can have, and has sent all its packets with every timestamp."""
    stream = Stream(count=50)
    stamps = {"sched": True, "software": True, "hardware": False, "key": "auto", "by": "auto"}
    agent = bed.agent("sensor", "talk", talk_spec(new_run_id(), folder, stream, stamps=stamps), before=before)
    found: dict[str, Any] = agent.until("ready")["stamps_by"]
    agent.begin()
    (talked,) = agent.until("done")["streams"]
    assert (talked["tx_sched"], talked["tx_soft"]) == (stream.count, stream.count)
    return found


@pytest.mark.parametrize("kernel", [locked_down, without_bpf])
def test_the_socket_takes_the_timestamps_where_the_kernel_takes_no_program(
    bed: Bed, tmp_path: Path, kernel: Any
) -> None:
    before, why = kernel()
    found = talking(bed, tmp_path, before)
    assert (found["tx_sched"], found["tx_soft"], found["clock"]) == ("socket", "socket", None)
    (line,) = found["missing"]
    assert line.startswith(f"no tx_sched, tx_soft by eBPF: {why}")


def test_the_socket_takes_the_timestamp_whose_tracepoint_the_kernel_does_not_have_and_no_other(
    bed: Bed, tmp_path: Path
) -> None:
    before, why = without_tracepoint(tmp_path, "net_dev_queue")
    found = talking(bed, tmp_path, before)
    assert (found["tx_sched"], found["tx_soft"]) == ("socket", "ebpf")
    (line,) = found["missing"]
    assert line.startswith(f"no tx_sched by eBPF: {why}")


def test_the_kernels_own_ring_has_the_records_where_an_older_kernel_does_not_have_what_ours_take(
    bed: Bed, tmp_path: Path
) -> None:
    assert WITHOUT_RINGS != WITHOUT_BPF
    before = (sys.executable, "-c", WITHOUT_RINGS)
    found = talking(bed, tmp_path, before)
    assert (found["tx_sched"], found["tx_soft"], found["missing"]) == ("ebpf", "ebpf", [])
    assert found["clock"] == "CLOCK_MONOTONIC"
    with inside("ecu"):
        sockets = {"netns": Path("/proc/thread-self/ns/net").stat().st_ino, "ifindex": 0}
    spec = {"run_id": new_run_id(), "recording": str(tmp_path / "watch"), "realtime": ORDINARY, "points": [sockets]}
    agent = bed.agent("ecu", "watch", {**spec, "flow": {"is": {"protocol": 17}}}, before=before)
    assert agent.until("ready")["watch"]["clock"] == "CLOCK_MONOTONIC"
    with bed.udp("ecu", "10.78.0.2", 5000) as ecu, bed.udp("sensor", "10.78.0.1", 5000) as sensor:
        sensor.sendto(b"to ecu", ("10.78.0.2", 5000))
        ecu.recv(100)
    agent.tell(stop=True)
    done = agent.until("done")
    assert (done["points"][0]["in"], done["lost"]) == (1, 0)


@pytest.mark.parametrize("kernel", ["locked_down", "without_bpf", "without_tracepoint"])
def test_drops_are_counted_without_their_places(bed: Bed, tmp_path: Path, kernel: str) -> None:
    before, why = _kernel(kernel, tmp_path, "kfree_skb")
    spec = {"run_id": new_run_id(), "recording": str(tmp_path / "drops-ecu"), "realtime": ORDINARY}
    agent = bed.agent("ecu", "drops", spec, before=before)
    found = agent.until("ready")["drops"]
    assert found["watched"] is False
    (line,) = found["missing"]
    assert line == f"where packets are dropped is not watched: {why}; losses are counted, and have no place"
    agent.tell(stop=True)
    assert agent.until("done")["drops"] == 0


@pytest.mark.parametrize("kernel", ["locked_down", "without_bpf", "without_tracepoint"])
def test_watching_is_one_error_that_says_what_to_do_instead(bed: Bed, tmp_path: Path, kernel: str) -> None:
    before, why = _kernel(kernel, tmp_path, "netif_receive_skb")
    spec = {"run_id": new_run_id(), "recording": str(tmp_path / "watch"), "realtime": ORDINARY, "flow": {"all": []}}
    agent = bed.agent("ecu", "watch", {**spec, "points": [{"netns": 1, "ifindex": 1}]}, before=before)
    error = agent.until("error")
    assert why in error["what"]
    assert "tcpdump" in error["remedy"]
    assert agent.ended() == 1


@pytest.mark.parametrize(
    ("tracepoint", "what"),
    [("sk_data_ready", "receive"), ("sock_recv_length", "receive"), ("sys_enter", "send")],
)
def test_of_sockets_what_a_kernel_does_not_show_is_said_and_the_other_direction_is_recorded(
    bed: Bed, tmp_path: Path, tracepoint: str, what: str
) -> None:
    before, why = without_tracepoint(tmp_path, tracepoint, "skb_consume_udp")
    with inside("ecu"):
        sockets = {"netns": Path("/proc/thread-self/ns/net").stat().st_ino, "ifindex": 0}
    spec = {"run_id": new_run_id(), "recording": str(tmp_path / "watch"), "realtime": ORDINARY, "points": [sockets]}
    agent = bed.agent("ecu", "watch", {**spec, "flow": {"is": {"protocol": 17}}}, before=before)
    assert agent.until("ready")["watch"]["missing"] == [f"what programs {what} is not seen: {why}"]
    with bed.udp("ecu", "10.78.0.2", 5000) as ecu, bed.udp("sensor", "10.78.0.1", 5000) as sensor:
        sensor.sendto(b"to ecu", ("10.78.0.2", 5000))
        ecu.recv(100)
        ecu.sendto(b"to sensor", ("10.78.0.1", 5000))
        sensor.recv(100)
    agent.tell(stop=True)
    (seen,) = agent.until("done")["points"]
    assert (seen["in"], seen["out"]) == ((0, 1) if what == "receive" else (1, 0))


def _kernel(name: str, folder: Path, tracepoint: str) -> tuple[Before, str]:
    kernels: dict[str, Callable[[], tuple[Before, str]]] = {
        "locked_down": locked_down,
        "without_bpf": without_bpf,
        "without_tracepoint": lambda: without_tracepoint(folder, tracepoint),
    }
    return kernels[name]()
