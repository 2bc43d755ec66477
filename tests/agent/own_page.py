"""A page written by the test, after docs/formats.md, with a clock of the test's own on it."""

from __future__ import annotations

import mmap
import os
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

IDENTITY, RUN_ID, BEGAN, NEXT_BURST, EVERY, BURST, HEAD, RING = 0, 1, 2, 3, 4, 5, 8, 16
SLOTS = 1 << 15
FILE_BYTES = 1 << 20
BURST_NS = 2_000_000
EVERY_NS = 20_000_000

Clock = Callable[[int], int]


class OwnPage:
    """Shows `clock(CLOCK_TAI)` in bursts, by a thread on some of the CPUs, while the context lasts."""

    def __init__(self, path: Path, run_id: str, clock: Clock, cpus: list[int]) -> None:
        path.write_bytes(bytes(FILE_BYTES))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), FILE_BYTES)
        self._run_id = int(run_id, 16)
        self._clock = clock
        self._cpus = cpus
        self._over = threading.Event()
        self._barrier = threading.Lock()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> OwnPage:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()
        self._memory.close()

    def _write(self) -> None:
        os.sched_setaffinity(0, self._cpus)  # of this thread alone
        now, store = self._now, self._store
        began = now()
        for word, value in ((RUN_ID, self._run_id), (BEGAN, began), (EVERY, EVERY_NS), (BURST, BURST_NS)):
            store(word, value)
        store(IDENTITY, int.from_bytes(b"LATLPAG1", "little"))
        head, due = 0, began
        while not self._over.is_set():
            due += EVERY_NS
            store(NEXT_BURST, due)
            end = now() + BURST_NS
            while (stored := now()) < end:
                head += 1
                store(RING + head % SLOTS, stored)
                store(HEAD, head)
                with self._barrier:  # taking a lock is a full barrier: the head is visible before the clock is read
                    pass
            self._over.wait(max(0, due - now()) / 1e9)

    def _now(self) -> int:
        return self._clock(time.clock_gettime_ns(time.CLOCK_TAI))

    def _store(self, word: int, value: int) -> None:
        struct.pack_into("<Q", self._memory, word * 8, value)
