"""What passes an interface and when, by the clock of the kernel that it is in: a witness that no agent knows of."""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import threading
import time
from pathlib import Path
from types import TracebackType

import numpy as np
import polars as pl

ETH_P_ALL = 3
SO_TIMESTAMPNS = 35
CLONE_NEWNET = 0x40000000
PACKET_OUTGOING = 4
MAGIC = b"LATL"
HEADERS = 14 + 20 + 8
"""Ethernet, IPv4 without options, UDP."""
LIBC = ctypes.CDLL(None, use_errno=True)


class Witness:
    """From `with` on, what passes the interface of the namespace."""

    def __init__(self, namespace: Path, interface: str) -> None:
        self._socket = _socket_in(namespace, interface)
        self._ended = threading.Event()
        self._rows: list[tuple[int, int, bool, int]] = []
        self._watching = threading.Thread(target=self._watch)

    def __enter__(self) -> Witness:
        self._watching.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._watching.join()
        self._socket.close()

    def seen(self) -> pl.DataFrame:
        """A row a probe: stream, sequence, outgoing (out of the interface, or in by it), witness_tai_ns."""
        offset_ns = _tai_offset_ns()
        rows = [(stream, sequence, outgoing, real + offset_ns) for stream, sequence, outgoing, real in self._rows]
        columns = {"stream": pl.UInt16, "sequence": pl.UInt64, "outgoing": pl.Boolean, "witness_tai_ns": pl.Int64}
        return pl.DataFrame(rows, schema=columns, orient="row")

    def _watch(self) -> None:
        while not self._ended.is_set():
            try:
                frame, ancillary, _, address = self._socket.recvmsg(2048, 256)
            except TimeoutError:
                continue
            except OSError:
                return  # the interface no longer exists
            probe = frame[HEADERS:]
            stamps = [data for level, kind, data in ancillary if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS)]
            if probe[:4] == MAGIC and stamps:
                stream, _, sequence = struct.unpack_from("<HQQ", probe, 6)
                seconds, nanoseconds = struct.unpack("qq", stamps[0])
                outgoing = address[2] == PACKET_OUTGOING
                self._rows.append((stream, sequence, outgoing, seconds * 10**9 + nanoseconds))


def _socket_in(namespace: Path, interface: str) -> socket.socket:
    """A socket for every frame of the interface, with the kernel's own timestamps."""
    made: list[socket.socket] = []

    def make() -> None:
        descriptor = os.open(namespace, os.O_RDONLY)
        assert LIBC.setns(descriptor, CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
        os.close(descriptor)
        made.append(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)))
        made[0].bind((interface, 0))
        made[0].setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        made[0].settimeout(0.1)

    # A separate thread: only it enters the namespace.
    maker = threading.Thread(target=make)
    maker.start()
    maker.join()
    return made[0]


def _tai_offset_ns() -> int:
    apart = time.clock_gettime_ns(time.CLOCK_TAI) - time.clock_gettime_ns(time.CLOCK_REALTIME)
    return int(np.rint(apart / 1e9)) * 10**9
