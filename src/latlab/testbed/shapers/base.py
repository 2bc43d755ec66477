"""What a kind of shaper is, where one stands, and the root of an interface, which is given back afterwards."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar
from zlib import crc32

from latlab.scenario import End
from latlab.scenario.shapers import Shaper
from latlab.testbed.kernel_parts import kernel_parts
from latlab.testbed.site import Site
from latlab.testbed.step import Argv, Check, Explain, Step

HANDLES = 0x7FFF
"""The kernel assigns handles automatically from 8001: on (net/sched/sch_api.c, qdisc_alloc_handle)."""

BROKEN_JSON = ',{"base_time":'
"""What tc prints of a schedule that waits for its base time: an object without a name, in another object."""


Qdisc = dict[str, Any]
"""A qdisc, or its options, as `tc -j qdisc show` has them."""


@dataclass(frozen=True)
class QdiscPlace:
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

    def beneath(self, queue: int) -> QdiscPlace:
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


class ShaperKind(ABC):
    """A kind of shaper.

    use: what it is for, in words. tried: its arguments for a veth with two queues, with which doctor tries whether the
    kernel has it; empty: doctor does not try it.
    """

    use: ClassVar[str]
    tried: ClassVar[Argv] = ()

    @abstractmethod
    def steps(self, shaper: Any, place: QdiscPlace) -> Iterator[Any]:
        """The steps that put it there and read it back."""

    def instead(self, shaper: Any, has_clock: bool) -> str:
        """What would work where it was refused. has_clock: the NIC has a PTP clock."""
        return "offload: false works with any NIC" if getattr(shaper, "offload", False) else needs(shaper)

    def shaped(self, place: QdiscPlace, shaper: Shaper, do: Argv, check: Check) -> Step:
        """The step that puts it there: of a root it is undone, and one beneath goes with it."""
        is_root = place.queue is None
        ours = ("sh", "-c", OURS, place.device, place.root)
        look = ("sh", "-c", LOOK, place.device)
        return Step(
            host=place.end.host,
            title=f"{shaper.kind} shapes {place.name}",
            do=do,
            undo=("tc", "qdisc", "del", "dev", place.device, "root") if is_root else None,
            present=ours if is_root else None,
            check=check,
            explain=Explain(look, lambda output: self.refusal(place.device, shaper, output)),
            lasting=True,
        )

    def refusal(self, device: str, shaper: Shaper, output: str) -> str:
        """The NIC, its driver and what it has, and what would work there. output: of LOOK, once it was refused."""
        facts = dict(re.findall(r"^(driver|firmware-version|tx-queues|kernel): (.+)$", output, re.MULTILINE))
        clock = re.search(r"^(?:PTP Hardware Clock|Hardware timestamp provider index): (\d+)$", output, re.MULTILINE)
        firmware = facts.get("firmware-version", "").strip()
        driver = f"driver {facts.get('driver', 'unknown')}"
        there = [
            driver + (f" (firmware {firmware})" if firmware not in ("", "N/A") else ""),
            f"{facts.get('tx-queues', 'no')} transmit queues",
            f"PTP clock {clock[1]}" if clock else "no PTP clock",
            f"kernel {facts.get('kernel', 'unknown')}",
        ]
        return f"{device}: {', '.join(there)}; {self.instead(shaper, bool(clock))}"


LOOK = """ethtool -i "$0" 2>/dev/null
ethtool -T "$0" 2>/dev/null
echo "tx-queues: $(ls -d "/sys/class/net/$0/queues/tx-"* | wc -l)"
echo "kernel: $(uname -r)"
"""


def needs(shaper: Shaper) -> str:
    """The part of the kernel that makes it."""
    return " ".join(
        ("it needs", *(f"{module} ({symbol})" for module, symbol in kernel_parts(f"sch_{shaper.kind}").items()))
    )


def listed(output: str) -> list[Qdisc]:
    """Every qdisc that `tc -j qdisc show` printed."""
    found: list[Qdisc] = json.loads(output.replace(BROKEN_JSON, ',"admin":{"base_time":'))
    return found


def in_words(qdisc: Qdisc | None, words: Callable[[Qdisc], str]) -> str:
    """The kind and what is said of its options; `nothing` where there is none."""
    if qdisc is None:
        return "nothing"
    return f"{qdisc['kind']} {words(qdisc['options'])}".strip()


# The root of an interface: ours only where nothing but the kernel's default stands, and that again afterwards.
#
# What others have set up there could not be restored exactly: tc prints no commands. It is refused.


OURS = 'tc qdisc show dev "$0" root | grep -q "^qdisc [a-z]* $1: root "'
DEFAULT = "the kernel's default"


def free_root(place: QdiscPlace) -> Step:
    """No root qdisc has been set up. The kernel's own has the handle 0: (net/sched/sch_generic.c)."""
    return Step(
        host=place.end.host,
        title=f"{place.end} has no shaper yet",
        do=(),
        check=Check(
            ("tc", "-j", "qdisc", "show", "dev", place.device),
            expected=DEFAULT,
            read=lambda output: root_in_words(output),
            remedy=f"latlab could not restore it: `tc qdisc del dev {place.device} root`, or leave "
            f"{place.end} out of `shapers` and measure with the existing qdisc",
        ),
    )


def root_in_words(output: str) -> str:
    """What stands at the root: DEFAULT, or its kind and handle."""
    for qdisc in listed(output):
        if qdisc.get("root") and qdisc["handle"] != "0:":
            return f"{qdisc['kind']} {qdisc['handle']}"
    return DEFAULT
