#!/usr/bin/env python3
"""Runs a program whose every PTP_SYS_OFFSET (include/uapi/linux/ptp_clock.h) is answered with a clock of the test's.

    own_ptp_clock.py AHEAD_NS GAIN_PPB BEGUN_REAL_NS PROGRAM…

The kernel hands over just that call (seccomp(2), SECCOMP_RET_USER_NOTIF); all others are its own. The answer is made as
drivers/ptp/ptp_chardev.c does: CLOCK_REALTIME and the clock are read alternately.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import select
import socket
import struct
import sys
import time
from collections.abc import Callable
from typing import Final

PTP_SYS_OFFSET: Final = 0x43403D05
SYS_IOCTL, SYS_SECCOMP = {"x86_64": (16, 317), "aarch64": (29, 277)}[platform.machine()]
SET_MODE_FILTER, NEW_LISTENER = 1, 1 << 3
NOTIFICATION: Final = struct.Struct("=QII iIQ 6Q")
ANSWER: Final = struct.Struct("=QqiI")
RECEIVE = 3 << 30 | NOTIFICATION.size << 16 | ord("!") << 8
SEND = 3 << 30 | ANSWER.size << 16 | ord("!") << 8 | 1
LOAD, IF_EQUAL, RETURN = 0x20, 0x15, 0x06
"""BPF_LD | BPF_W | BPF_ABS, BPF_JMP | BPF_JEQ | BPF_K, BPF_RET | BPF_K (linux/bpf_common.h)."""
NUMBER_AT, REQUEST_AT = 0, 24
HAND_OVER, ALLOW = 0x7FC00000, 0x7FFF0000
FILTER: Final = [
    (LOAD, 0, 0, NUMBER_AT),
    (IF_EQUAL, 0, 3, SYS_IOCTL),
    (LOAD, 0, 0, REQUEST_AT),
    (IF_EQUAL, 0, 1, PTP_SYS_OFFSET),
    (RETURN, 0, 0, HAND_OVER),
    (RETURN, 0, 0, ALLOW),
]
STAMPS_AT: Final = 16
"""Where in struct ptp_sys_offset the stamps are; its first word is how many readings are asked for."""
STAMP: Final = struct.Struct("=qII")

Clock = Callable[[int], int]


def shown(real_ns: int, ahead_ns: int, gain_ppb: int, begun_real_ns: int) -> int:
    """What the clock shows when CLOCK_REALTIME, which was `ahead_ns` ahead of it at first and gains on it, is that."""
    return real_ns - ahead_ns - (real_ns - begun_real_ns) * gain_ppb // 10**9


def handed_over() -> int:
    """The descriptor from which the handed over calls of this process, and of what it becomes, are read."""
    libc = ctypes.CDLL(None, use_errno=True)
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in FILTER))
    program = struct.pack("@HP", len(FILTER), ctypes.addressof(code))
    listener = libc.syscall(SYS_SECCOMP, SET_MODE_FILTER, NEW_LISTENER, program)
    if listener < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(listener)


def answer(listener: int, clock: Clock) -> None:
    """Nothing; one call has been answered."""
    call = bytearray(NOTIFICATION.size)
    fcntl.ioctl(listener, RECEIVE, call)
    number, pid, _, _, _, _, _, _, at, *_ = NOTIFICATION.unpack(call)
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        memory.seek(at)
        (readings,) = struct.unpack("=I", memory.read(4))
        stamps = [time.clock_gettime_ns(time.CLOCK_REALTIME)]
        for _ in range(readings):
            stamps.append(clock(time.clock_gettime_ns(time.CLOCK_REALTIME)))
            stamps.append(time.clock_gettime_ns(time.CLOCK_REALTIME))
        memory.seek(at + STAMPS_AT)
        memory.write(b"".join(STAMP.pack(*divmod(stamp, 10**9), 0) for stamp in stamps))
    fcntl.ioctl(listener, SEND, ANSWER.pack(number, 0, 0, 0))


def main() -> int:
    """The program's exit status."""
    ahead_ns, gain_ppb, begun_real_ns = map(int, sys.argv[1:4])
    ours, its = socket.socketpair()
    if (pid := os.fork()) == 0:
        socket.send_fds(its, [b"."], [handed_over()])
        os.execvp(sys.argv[4], sys.argv[4:])
    _, (listener,), _, _ = socket.recv_fds(ours, 1, 1)
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    # It closes once no caller is left.
    while poll.poll()[0][1] & select.POLLIN:
        answer(listener, lambda real_ns: shown(real_ns, ahead_ns, gain_ppb, begun_real_ns))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    sys.exit(main())
