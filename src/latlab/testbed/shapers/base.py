"""What a kind of shaper is, and where one stands."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol
from zlib import crc32

from latlab.scenario import End
from latlab.testbed.site import Site
from latlab.testbed.step import Argv, Check

HANDLES = 0x7FFF
"""The kernel assigns handles automatically from 8001: on (net/sched/sch_api.c, qdisc_alloc_handle)."""

BROKEN_JSON = ',{"base_time":'
"""What tc prints of a schedule that waits for its base time: an object without a name, in another object."""


Qdisc = dict[str, Any]
"""A qdisc, or its options, as `tc -j qdisc show` has them."""


@dataclass(frozen=True)
class Place:
    """Where a qdisc stands: at the root of an interface, or beneath one of the root's queues.

    site: the cell's place on the interface's machine. speed: of the port, bit/s.
    """

    end: End
    site: Site
    speed: int
    queue: int | None = None

    @property
    def device(self) -> str:
        """The interface, as its host knows it."""
        return self.end.interface

    @property
    def root(self) -> str:
        """The handle of the root qdisc: our mark on it, from the run's tag."""
        return f"{crc32(self.site.tag.encode()) & HANDLES or 1:x}"

    @property
    def parent(self) -> Argv:
        """tc's words for where it is attached. The classes of a root's queues are counted from 1."""
        if self.queue is None:
            return ("parent", "root", "handle", f"{self.root}:")
        return ("parent", f"{self.root}:{self.queue + 1:x}")

    @property
    def name(self) -> str:
        """Where it stands, in words."""
        return str(self.end) if self.queue is None else f"transmit queue {self.queue} of {self.end}"

    def beneath(self, queue: int) -> Place:
        """The place beneath a queue of the root."""
        return replace(self, queue=queue)

    def replaced(self, *words: str) -> Argv:
        """The command that puts the qdisc there."""
        return ("tc", "qdisc", "replace", "dev", self.device, *self.parent, *words)

    def check(self, expected: str, words: Callable[[Qdisc], str], within_ms: int = 0) -> Check:
        """That the qdisc there is, in words, as expected."""

        def read(output: str) -> str:
            return in_words(self.found(output), words)

        argv = ("tc", "-j", "qdisc", "show", "dev", self.device)
        return Check(argv, expected=expected, read=read, within_ms=within_ms)

    def found(self, output: str) -> Qdisc | None:
        """The qdisc there, as `tc -j qdisc show` has it; None without any."""
        for qdisc in listed(output):
            here = qdisc.get("root") if self.queue is None else qdisc.get("parent") == self.parent[1]
            if here:
                return qdisc
        return None


class Kind(Protocol):
    """A kind of shaper."""

    def steps(self, shaper: Any, place: Place) -> Iterator[Any]:
        """The steps that put it there and read it back."""
        ...


def listed(output: str) -> list[Qdisc]:
    """Every qdisc that `tc -j qdisc show` printed."""
    found: list[Qdisc] = json.loads(output.replace(BROKEN_JSON, ',"admin":{"base_time":'))
    return found


def in_words(qdisc: Qdisc | None, words: Callable[[Qdisc], str]) -> str:
    """The kind and what is said of its options; `nothing` where there is none."""
    if qdisc is None:
        return "nothing"
    return f"{qdisc['kind']} {words(qdisc['options'])}".strip()
