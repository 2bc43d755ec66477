"""Watched packets: flows between namespaces, frames and filters, BPF programs that the kernel has."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import socket
import struct
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from latlab.evaluation.run import make_result
from latlab.recordings.run_folder import RunFolder
from latlab.run.events import Phase
from latlab.run.watch import WatchRequest, watch
from latlab.scenario.pcap_filter import BpfProgram, Instruction, SockFilter


class _Header(ctypes.Structure):
    _fields_ = (
        ("seconds", ctypes.c_long),
        ("microseconds", ctypes.c_long),
        ("captured", ctypes.c_uint32),
        ("length", ctypes.c_uint32),
    )


def accepts(filtering: Sequence[Instruction], frame: bytes) -> bool:
    """Whether the filter accepts the frame."""
    program = BpfProgram(len(filtering), (SockFilter * len(filtering))(*(SockFilter(*one) for one in filtering)))
    header = _Header(0, 0, len(frame), len(frame))
    library = ctypes.CDLL("libpcap.so.0.8")
    return bool(library.pcap_offline_filter(ctypes.byref(program), ctypes.byref(header), frame))


MACS = bytes.fromhex("0200004e0002 0200004e0001")


def tag(vid: int, pcp: int = 0, kind: int = 0x8100) -> bytes:
    return struct.pack(">HH", kind, pcp << 13 | vid)


def ipv4(protocol: int, payload: bytes, *, source: str = "10.1.0.1", to: str = "10.2.0.9", dscp: int = 0) -> bytes:
    addresses = socket.inet_aton(source) + socket.inet_aton(to)
    head = struct.pack(">BBHHHBBH", 0x45, dscp << 2, 20 + len(payload), 1, 0, 9, protocol, 0)
    return struct.pack(">H", 0x0800) + head + addresses + payload


ATTACHED = {"watch_in", "watch_out", "watch_call", "watch_sent"}
"""The programs of interfaces, and those of sends."""


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


PORT = 5000
FLOW = f"udp port {PORT}"
COUNT = 60
GRACE_S = 0.6
"""Packets of the last 0.5 s are not counted."""


def watching(folder: Path, act: Callable[[], None], at: tuple[str, ...], **asked: Any) -> RunFolder:
    """The run in which `act` was watched from its beginning to its end, and until all its packets count."""

    async def whole() -> RunFolder:
        loop, began = asyncio.get_running_loop(), asyncio.Event()

        async def end_after() -> None:
            await began.wait()
            try:
                await loop.run_in_executor(None, act)
                await asyncio.sleep(GRACE_S)
            finally:
                os.kill(os.getpid(), signal.SIGINT)

        acting = asyncio.ensure_future(end_after())
        try:
            return await watch(
                WatchRequest(**{"flow": FLOW, "at": at, **asked}),
                folder / "runs",
                # An agent may report its progress before the last one has begun.
                lambda event: began.set() if isinstance(event, Phase) else None,
            )
        finally:
            acting.cancel() if not began.is_set() else await acting

    return asyncio.run(whole())


def cell_of(folder: RunFolder) -> dict[str, Any]:
    (cell,) = make_result(folder).document()["cells"]
    return dict(cell)


def reasons(folder: RunFolder) -> dict[str, str]:
    """{id of each broken rule: what was found}."""
    return {one["id"]: one["actual"] for one in make_result(folder).document()["reasons"]}


def payload(number: int) -> bytes:
    """Its number stands where the relay looks for it."""
    return bytes(16) + struct.pack("<Q", number) + bytes(16)


def send(talker: socket.socket, to: tuple[str, int], count: int = COUNT, gap_s: float = 0.002) -> None:
    for number in range(count):
        talker.sendto(payload(number), to)
        time.sleep(gap_s)


def transit(cell: dict[str, Any], name: str) -> dict[str, Any]:
    return dict(cell["streams"][name]["metrics"]["transit"])
