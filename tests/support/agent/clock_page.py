"""A page written by the test, after docs/reference/agent.md, with a clock of the test's own on it."""

from __future__ import annotations

import mmap
import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from support.agent.bed import RX_SOFTWARE, SO_TIMESTAMPING, SOFTWARE

IDENTITY, RUN_ID, BEGAN, BURST, HEAD, LOOKING, DOORBELL, ANSWERS, RING = 0, 1, 2, 3, 8, 16, 17, 24, 152
ANSWER_SLOTS = 64
SLOTS = 1 << 15
FILE_BYTES = 1 << 20
BURST_NS = 2_000_000

Clock = Callable[[int], int]
Address = tuple[str, int]


class OwnPage:
    """Shows `clock(CLOCK_TAI)` after each ring, by a thread on some of the CPUs, while the context lasts.

    rings: where they come to, and from.
    """

    def __init__(self, path: Path, run_id: str, clock: Clock, cpus: list[int], rings: tuple[Address, Address]) -> None:
        path.write_bytes(bytes(FILE_BYTES))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), FILE_BYTES)
        self._run_id = int(run_id, 16)
        self._clock = clock
        self._cpus = cpus
        self._over = threading.Event()
        self._barrier = threading.Lock()
        self._rings = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._rings.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, RX_SOFTWARE | SOFTWARE)
        self._rings.settimeout(0.05)
        self._rings.bind(rings[0])
        self._rings.connect(rings[1])
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> OwnPage:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()
        self._rings.close()
        self._memory.close()

    def _write(self) -> None:
        os.sched_setaffinity(0, self._cpus)  # of this thread alone
        for word, value in ((RUN_ID, self._run_id), (BEGAN, self._now()), (BURST, BURST_NS)):
            self._store(word, value)
        self._store(IDENTITY, int.from_bytes(b"LATLPAG2", "little"))
        head = 0
        while not self._over.is_set():
            try:
                (byte,), control, _, _ = self._rings.recvmsg(16, 256)
            except (TimeoutError, ConnectionRefusedError):
                continue
            self._answer(byte, control)
            head = self._burst(head)

    def _answer(self, byte: int, control: list[tuple[int, int, bytes]]) -> None:
        seconds, nanoseconds = struct.unpack_from("<qq", control[0][2])
        came_real = seconds * 1_000_000_000 + nanoseconds
        tai_offset = round((time.clock_gettime_ns(time.CLOCK_TAI) - time.time_ns()) / 1e9) * 1_000_000_000
        last = self._load(DOORBELL)
        number = last - (last - byte) % 256
        at = ANSWERS + 2 * (number % ANSWER_SLOTS)
        self._store(at + 1, self._clock(came_real + tai_offset))
        self._store(at, number)

    def _burst(self, head: int) -> int:
        end = self._now() + BURST_NS
        while self._load(LOOKING) and (stored := self._now()) < end:
            head += 1
            self._store(RING + head % SLOTS, stored)
            self._store(HEAD, head)
            with self._barrier:  # taking a lock is a full barrier: the head is visible before the clock is read
                pass
        return head

    def _now(self) -> int:
        return self._clock(time.clock_gettime_ns(time.CLOCK_TAI))

    def _load(self, word: int) -> int:
        (value,) = struct.unpack_from("<Q", self._memory, word * 8)
        return int(value)

    def _store(self, word: int, value: int) -> None:
        struct.pack_into("<Q", self._memory, word * 8, value)
