"""What an interrupt into a guest interrupted is found by the vCPU's turns on the VM host, or not at all."""

from __future__ import annotations

import numpy as np
import pytest

from latlab.analysis.entry import GUEST_IDLE, GUEST_KERNEL, GUEST_USER, HYPERVISOR, guest_states
from latlab.analysis.interrupts import ACCEPT, ENTRY, EXIT, INJECT, LOST, MSI
from latlab.analysis.reception import VmHost, receptions
from latlab.report.traces import whom_text
from latlab.result.types import CameTo
from support.analysis.traces import COUNT, KNOWN, READER, Event, listened, trace

VCPU, OTHER_VCPU, VHOST = 500, 501, 600
INTERRUPTED, IO, HALTED_INTEL, HALTED_AMD = 1, 30, 12, 0x78
IN_KERNEL, IN_PROGRAM = -0x7EFF_FFFF, 0x0040_1000


def turns(reason: int = INTERRUPTED, at: int | None = IN_KERNEL, thread: int = VCPU, vcpu: int = 0) -> list[Event]:
    """The vCPU is in its guest from 1000 to 1100, and again from 1200 to 1300; it leaves it at an address."""
    left = (reason,) if at is None else (reason, at)
    return [
        (1_000, 0, ENTRY, thread, vcpu),
        (1_100, 0, EXIT, thread, *left),
        (1_200, 0, ENTRY, thread, vcpu),
        (1_300, 0, EXIT, thread, *left),
    ]


def states(events: list[Event], *at: int, vcpu: int = 0) -> list[str | None]:
    return guest_states(np.array(at, np.int64), np.full(len(at), vcpu), trace(*events))


@pytest.mark.parametrize(
    ("reason", "at", "inside", "outside"),
    [
        (INTERRUPTED, IN_KERNEL, GUEST_KERNEL, HYPERVISOR),
        (INTERRUPTED, IN_PROGRAM, GUEST_USER, HYPERVISOR),
        (IO, IN_PROGRAM, GUEST_USER, HYPERVISOR),
        (HALTED_INTEL, IN_KERNEL, GUEST_KERNEL, GUEST_IDLE),
        (HALTED_AMD, IN_KERNEL, GUEST_KERNEL, GUEST_IDLE),
        (INTERRUPTED, None, None, HYPERVISOR),
    ],
)
def test_a_vcpu_is_in_its_guest_between_entry_and_exit(
    reason: int, at: int | None, inside: str | None, outside: str
) -> None:
    assert states(turns(reason, at), 1_000, 1_099, 1_100, 1_199, 1_250) == [inside, inside, outside, outside, inside]


def test_before_the_first_turn_and_after_the_last_nothing_is_reported() -> None:
    assert states(turns(), 999, 1_300, 1_400, -1) == [None] * 4
    assert states([], 1_050) == [None]


def test_other_vcpus_turns_are_not_taken() -> None:
    other = turns(HALTED_AMD, thread=OTHER_VCPU, vcpu=1)
    assert states([*turns(), *other], 1_150) == [HYPERVISOR]
    assert states([*turns(), *other], 1_150, vcpu=1) == [GUEST_IDLE]
    assert states([*turns(), *turns(thread=OTHER_VCPU)], 1_150) == [None]


def test_a_turn_that_may_have_been_lost_is_not_guessed() -> None:
    first, *rest = turns()
    gap = [first, (1_090, 0, LOST, 0, 3), *rest]
    assert states(gap, 1_050, 1_150) == [None, HYPERVISOR]


def test_each_packet_of_a_guest_is_reported_what_its_interrupt_came_to() -> None:
    packets, events = listened()
    host: list[Event] = []
    for number in range(COUNT):
        at = 10_000 + number * 1_000 - 20
        where = IN_PROGRAM if number % 4 == 0 else IN_KERNEL
        host += [
            (at, 1, MSI, VHOST, 0xFEE00000, 0x4023),
            (at + 2, 1, ACCEPT, VHOST, 0x23, 0),
            (at + 5, 0, EXIT, VCPU, INTERRUPTED, where),
            (at + 10, 0, INJECT, VCPU, 0x23),
            (at + 13, 0, ENTRY, VCPU, 0),
        ]

    def same_clock(at_ns: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return np.zeros_like(at_ns), np.zeros_like(at_ns), np.ones(len(at_ns), np.bool_)

    (found,) = receptions(packets, trace(*events), KNOWN, READER, VmHost(trace(*host), same_clock)).values()

    document = found.document()
    # Of the first packet it is not known whether its guest had been entered.
    assert document["entry"]["interrupted"] == [
        {"what": GUEST_KERNEL, "n": COUNT * 3 // 4},
        {"what": GUEST_USER, "n": COUNT // 4 - 1},
    ]
    latest = document["chain"]["worst"]["each"][0]
    assert latest["interrupted"] == {"what": "thread", "comm": "hog", "vcpu": GUEST_USER}
    assert whom_text(CameTo.model_validate(latest["interrupted"])) == "thread hog (guest user)"
