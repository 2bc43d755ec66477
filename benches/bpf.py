"""Frames as a NIC's driver has them, handed to an XDP program by the kernel itself (BPF_PROG_TEST_RUN, live frames)."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import struct
from collections.abc import Iterator

BPF_PROG_LOAD, BPF_PROG_TEST_RUN, BPF_PROG_GET_FD_BY_ID = 5, 10, 13
BPF_PROG_TYPE_XDP = 6
BPF_F_TEST_XDP_LIVE_FRAMES = 2
BPF_CALL = {"x86_64": 321, "aarch64": 280, "riscv64": 280}
ATTRIBUTES = 144
LET_BY = struct.pack("<BBHiBBHi", 0xB7, 0, 0, 2, 0x95, 0, 0, 0)
"""r0 = XDP_PASS; exit"""
KTIME_GET_NS = 5
CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)


def program_by_id(number: int) -> int:
    """A descriptor of the program with this number."""
    return _bpf(BPF_PROG_GET_FD_BY_ID, struct.pack("<I", number))[0]


def program_that_passes() -> int:
    """A descriptor of a program that leaves every frame to the kernel, as if there were none."""
    return _loaded(LET_BY)


def program_that_numbers(at: int) -> int:
    """A descriptor of a program that writes the time into 8 bytes of every frame and leaves it to the kernel."""
    instructions = (
        (0x61, 0x16, 0, 0),  # r6 = data
        (0x61, 0x17, 4, 0),  # r7 = data_end
        (0xBF, 0x68, 0, 0),  # r8 = r6
        (0x07, 0x08, 0, at + 8),  # r8 += at + 8
        (0x2D, 0x78, 2, 0),  # if r8 > r7, it is too short
        (0x85, 0, 0, KTIME_GET_NS),
        (0x7B, 0x06, at, 0),  # *(u64 *)(r6 + at) = r0
    )
    return _loaded(b"".join(struct.pack("<BBhi", *one) for one in instructions) + LET_BY)


def _loaded(instructions: bytes) -> int:
    code, license_ = ctypes.create_string_buffer(instructions), ctypes.create_string_buffer(b"GPL")
    count = len(instructions) // 8
    words = struct.pack("<IIQQ", BPF_PROG_TYPE_XDP, count, ctypes.addressof(code), ctypes.addressof(license_))
    return _bpf(BPF_PROG_LOAD, words)[0]


def run_live(program: int, frame: bytes, ifindex: int, count: int) -> int:
    """Mean ns for each of `count` frames that came in at the interface, from the program to where they end."""
    data = ctypes.create_string_buffer(frame, len(frame))
    context = ctypes.create_string_buffer(struct.pack("<IIIIII", 0, len(frame), 0, ifindex, 0, 0))
    words = struct.pack(
        "<IIIIQQIIIIQQII",
        program, 0, len(frame), 0, ctypes.addressof(data), 0, count, 0, len(context) - 1, 0,
        ctypes.addressof(context), 0, BPF_F_TEST_XDP_LIVE_FRAMES, 0,
    )  # fmt: skip
    _, filled = _bpf(BPF_PROG_TEST_RUN, words)
    return int(struct.unpack_from("<I", filled, 36)[0])


@contextlib.contextmanager
def inside(namespace: str) -> Iterator[None]:
    """What this thread opens and runs is the network namespace's."""
    back, there = os.open("/proc/thread-self/ns/net", os.O_RDONLY), os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    try:
        _enter(there)
        yield
    finally:
        _enter(back)
        os.close(there)
        os.close(back)


def _bpf(command: int, words: bytes) -> tuple[int, bytes]:
    attributes = ctypes.create_string_buffer(words, ATTRIBUTES)
    result = LIBC.syscall(BPF_CALL[platform.machine()], command, attributes, ATTRIBUTES)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"bpf command {command}: {os.strerror(ctypes.get_errno())}")
    return int(result), attributes.raw


def _enter(descriptor: int) -> None:
    if LIBC.setns(descriptor, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
