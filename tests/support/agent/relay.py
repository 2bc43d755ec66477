"""A relay between two sockets that holds, drops, doubles or swaps packets, and notes when it had each in its hands."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import select
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from support.agent.process import tai_ns

IDLE_S = 0.02

Release = tuple[bytes, int]
"""A packet and when it may go on, CLOCK_TAI ns."""
Rule = Callable[[bytes, int], list[Release]]
"""What is to go on when a packet has come in at an instant: that packet, earlier ones, copies, nothing."""


def sequence_of(packet: bytes) -> int:
    """The sequence number of a probe, or of a message of a clock exchange: both have it at the same place."""
    return int(struct.unpack_from("<Q", packet, 16)[0])


def hold(for_ns: int) -> Rule:
    """Every packet is forwarded after this time."""
    return lambda packet, came: [(packet, came + for_ns)]


def drop(unlucky: Callable[[int], bool]) -> Rule:
    """Packets with an unlucky sequence number do not go on."""
    return lambda packet, came: [] if unlucky(sequence_of(packet)) else [(packet, came)]


def double(lucky: Callable[[int], bool]) -> Rule:
    """Packets with a lucky sequence number go on twice."""
    return lambda packet, came: [(packet, came)] * (2 if lucky(sequence_of(packet)) else 1)


def swap_pairs() -> Rule:
    """Of every two packets the second is forwarded first."""
    waiting: list[bytes] = []

    def rule(packet: bytes, came: int) -> list[Release]:
        if not waiting:
            waiting.append(packet)
            return []
        return [(packet, came), (waiting.pop(), came)]

    return rule


def stall(at: int, for_ns: int) -> Rule:
    """Once, when the packet with sequence number `at` has come, nothing is forwarded for this time; then all."""
    until = 0

    def rule(packet: bytes, came: int) -> list[Release]:
        nonlocal until
        if sequence_of(packet) == at:
            until = came + for_ns
        return [(packet, max(came, until))]

    return rule


def one_at_a_time(for_ns: int) -> Rule:
    """Each packet is under way for this time, and the next one only then."""
    free = 0

    def rule(packet: bytes, came: int) -> list[Release]:
        nonlocal free
        free = max(came, free) + for_ns
        return [(packet, free)]

    return rule


@dataclass
class Relay:
    """Takes packets from `source` and gives them to the connected socket `sink`, by its rule; use it as a context.

    The receiver may have ended: then they are lost.

    came: when each sequence number was taken in. went: each as it was given on, in that order. CLOCK_TAI ns.
    """

    source: socket.socket
    sink: socket.socket
    rule: Rule
    came: dict[int, int] = field(default_factory=dict)
    went: list[tuple[int, int]] = field(default_factory=list)
    _held: list[tuple[int, int, bytes]] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Relay:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        """All that has come in has gone on, or never will."""
        self._stop.set()
        self._thread.join()

    @property
    def thread(self) -> int:
        """The kernel's number of the thread that gives packets on."""
        assert self._thread.native_id
        return self._thread.native_id

    def _run(self) -> None:
        order = itertools.count()
        while self._held or not self._stop.is_set():
            wait = (self._held[0][0] - tai_ns()) / 1e9 if self._held else IDLE_S
            if select.select([self.source], [], [], max(0.0, min(wait, IDLE_S)))[0]:
                with contextlib.suppress(ConnectionRefusedError):
                    packet = self.source.recv(65536)
                    came = tai_ns()
                    self.came.setdefault(sequence_of(packet), came)
                    for released, at in self.rule(packet, came):
                        heapq.heappush(self._held, (at, next(order), released))
            while self._held and self._held[0][0] <= tai_ns():
                _, _, packet = heapq.heappop(self._held)
                self.went.append((sequence_of(packet), tai_ns()))
                with contextlib.suppress(ConnectionRefusedError):
                    self.sink.send(packet)
