"""How an interrupt got to the VM host's thread that forwards it is found from the host's interrupt on, or not."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from latlab.analysis.entry import host_ways
from latlab.analysis.interrupt_way import interval_name
from latlab.analysis.interrupts import (
    ACCEPT,
    ENTRY,
    LOST,
    MSI,
    SOFTIRQ_ENTRY,
    SOFTIRQ_RAISE,
    SWITCH,
    TIMER_ENTRY,
    WAKING,
)
from support.analysis.traces import NET_RX, READER, Event, received, trace

VHOST, VCPU = READER, 500
UNTOLD = [-1, -1, -1, -1]


def sent(begin: int) -> list[Event]:
    """A packet by the VM host's card wakes vhost, which asks for the guest's interrupt 60 after its own."""
    return [*received(begin, run_cpu=1), (begin + 60, 1, MSI, VHOST, 0xFEE00000, 0x4023)]


def asked(events: list[Event], *at: int) -> list[list[int]]:
    ways = host_ways(np.array(at, np.int64), np.full(len(at), -1, np.int64), trace(*events))
    rows: list[list[int]] = ways.at_ns.tolist()
    return rows


def test_a_packet_is_followed_from_the_vm_hosts_interrupt_to_vhost() -> None:
    assert asked([*sent(1_000), *sent(2_000)], 1_060, 2_060) == [
        [1_000, 1_010, 1_030, 1_040],
        [2_000, 2_010, 2_030, 2_040],
    ]


def test_what_a_thread_of_the_vm_host_sends_has_no_interrupt_there() -> None:
    by_itself: list[Event] = [
        (1_004, 0, SOFTIRQ_RAISE, 7, NET_RX),
        (1_010, 0, SOFTIRQ_ENTRY, 7, NET_RX),
        (1_030, 0, WAKING, 7, VHOST),
        (1_040, 1, SWITCH, 0, VHOST),
        (1_060, 1, MSI, VHOST, 0xFEE00000, 0x4023),
    ]
    assert asked(by_itself, 1_060) == [[-1, 1_010, 1_030, 1_040]]


def test_a_thread_that_had_asked_since_it_was_woken_was_not_woken_for_this() -> None:
    again = (1_070, 1, MSI, VHOST, 0xFEE00000, 0x4023)
    assert asked([*sent(1_000), again], 1_060, 1_070) == [[1_000, 1_010, 1_030, 1_040], UNTOLD]


def test_a_vcpu_that_has_run_its_guest_since_it_was_woken_was_not_woken_for_this() -> None:
    woken: list[Event] = [(1_005, 0, WAKING, 7, VCPU), (1_020, 0, SWITCH, 0, VCPU), (1_030, 0, ENTRY, VCPU, 0)]
    own_timer = (5_000, 0, ACCEPT, VCPU, 0xEC, 0)
    assert host_ways(np.array([-1]), np.array([5_000]), trace(*woken, own_timer)).at_ns.tolist() == [UNTOLD]
    # A card that is passed through interrupts it in its guest: no thread asks.
    assert asked([*woken, (5_000, 0, MSI, VCPU, 0xFEE00000, 0x4023)], 5_000) == [UNTOLD]


def test_vhost_that_the_guest_had_woken_to_send_was_not_woken_for_what_it_receives() -> None:
    runs: Event = (900, 0, ENTRY, VCPU, 0)
    kick: list[Event] = [(1_005, 0, WAKING, VCPU, VHOST), (1_020, 1, SWITCH, 0, VHOST)]
    ask: Event = (1_060, 1, MSI, VHOST, 0xFEE00000, 0x4023)
    assert asked([runs, *kick, ask], 1_060) == [UNTOLD]
    # A softirq may be served while a vCPU's thread is the current one.
    by_a_card = [(at, cpu, what, VCPU if cpu == 0 else ran, *of) for at, cpu, what, ran, *of in sent(1_000)]
    assert asked([runs, *by_a_card], 1_060) == [[1_000, 1_010, 1_030, 1_040]]  # type: ignore[list-item]


def test_another_threads_waking_is_not_taken_for_it() -> None:
    others = [
        (at, cpu, what, ran, 77 if what == WAKING else of, *more) for at, cpu, what, ran, of, *more in sent(1_000)
    ]
    assert asked(others, 1_060) == [UNTOLD]  # type: ignore[arg-type]


def test_where_events_were_lost_or_nobody_asked_nothing_is_reported() -> None:
    events = sent(1_000)
    assert asked([*events[:-1], (1_050, 1, LOST, 0, 7), events[-1]], 1_060) == [UNTOLD]
    assert asked(events, -1) == [UNTOLD]
    assert asked([], 1_060) == [UNTOLD]


def test_of_two_that_were_asked_for_in_the_same_nanosecond_nothing_is_reported() -> None:
    assert asked([*sent(1_000), (1_060, 0, MSI, 77, 0xFEE00000, 0x4023)], 1_060) == [UNTOLD]


def test_a_vcpus_own_timer_is_followed_from_the_vm_hosts_to_the_vcpu() -> None:
    events: list[Event] = [
        (1_000, 0, TIMER_ENTRY, 0, 236),
        (1_005, 0, WAKING, 0, VCPU),
        (1_020, 0, SWITCH, 0, VCPU),
        (1_030, 0, ACCEPT, VCPU, 0xEC, 0),
    ]
    found = host_ways(np.array([-1]), np.array([1_030]), trace(*events)).at_ns.tolist()
    assert found == [[1_000, -1, 1_005, 1_020]]


def test_its_intervals_have_names() -> None:
    stops = ["host_irq", "host_softirq", "host_waking", "host_run", "asked"]
    assert [interval_name(a, b) for a, b in pairwise(stops)] == [
        "VM host's handler",
        "VM host's stack",
        "VM host's scheduling",
        "carrying",
    ]


def test_a_vcpu_that_was_in_its_guest_was_interrupted_by_the_vm_hosts_timer() -> None:
    runs: Event = (900, 0, ENTRY, VCPU, 0)
    timer: Event = (1_000, 0, TIMER_ENTRY, VCPU, 236)
    taken: Event = (1_030, 0, ACCEPT, VCPU, 0xEC, 0)

    def ways(*events: Event) -> tuple[list[int], int]:
        found = host_ways(np.array([-1]), np.array([1_030]), trace(*events))
        return found.at_ns[0].tolist(), int(found.interrupted[0])

    assert ways(runs, timer, taken) == ([1_000, -1, -1, -1], VCPU)
    # Which of two it was is not known; one before it entered its guest was not it; nor was one of another CPU's thread.
    assert ways(runs, (950, 0, TIMER_ENTRY, VCPU, 236), timer, taken) == (UNTOLD, -1)
    assert ways((800, 0, TIMER_ENTRY, VCPU, 236), runs, taken) == (UNTOLD, -1)
    assert ways(runs, (1_000, 1, TIMER_ENTRY, 7, 236), taken) == (UNTOLD, -1)
