"""A guest's timer is followed through KVM of arm64, which reports less than x86's; nothing else is."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from latlab.analysis.arm_host import as_on_x86
from latlab.analysis.entry import GUEST_KERNEL, guest_states
from latlab.analysis.interrupts import ACCEPT, ENTRY, EXIT, IRQ_ENTRY, IRQ_EXIT, PENDING, SWITCH, TIMER_ENTRY, WAKING
from latlab.analysis.reception import VmHost, receptions, timer_wakings
from support.analysis.traces import KNOWN, READER, Event, listened, tasks, trace

VCPU, OTHER_VCPU, QEMU, READERS_CPU = 500, 501, 600, 0
INTERRUPTED, TRAPPED = 0, 2
HOST_TIMER, GUEST_TIMER, GUEST_IRQ, VTIMER = 12, 13, 11, 27
IN_KERNEL = -0x7FFF_8000_0000
THREADS = tasks((VCPU, "CPU 0/KVM", False), (OTHER_VCPU, "CPU 1/KVM", False), (QEMU, "qemu-system-aar", False))
PERIOD, COUNT, AHEAD, HALF = 100_000, 40, 7_000_000, 3
SCHEMA = {
    "stream": pl.UInt16,
    "sequence": pl.UInt64,
    "wake_due_tai_ns": pl.Int64,
    "wake_tai_ns": pl.Int64,
    "counted": pl.Boolean,
}


def halted(due: int) -> list[Event]:
    """The vCPU has halted: the VM host's timer wakes its thread, which takes its guest's and enters it."""
    return [
        (due - 5_000, 0, EXIT, VCPU, TRAPPED, IN_KERNEL),
        (due + 100, 0, IRQ_ENTRY, 0, HOST_TIMER),
        (due + 300, 0, WAKING, 0, VCPU),
        (due + 400, 0, IRQ_EXIT, 0, HOST_TIMER),
        (due + 900, 0, SWITCH, 0, VCPU),
        (due + 1_500, 0, PENDING, VCPU, VTIMER, 1),
        (due + 2_000, 0, ENTRY, VCPU, None),
    ]


def interrupted(due: int) -> list[Event]:
    """The vCPU is in its guest: its timer's interrupt makes it leave that, and in the handler its own is pending."""
    return [
        (due + 100, 0, EXIT, VCPU, INTERRUPTED, IN_KERNEL),
        (due + 200, 0, IRQ_ENTRY, VCPU, GUEST_TIMER),
        (due + 500, 0, PENDING, VCPU, VTIMER, 1),
        (due + 600, 0, IRQ_EXIT, VCPU, GUEST_TIMER),
        (due + 2_000, 0, ENTRY, VCPU, None),
    ]


def woken(due: int) -> list[Event]:
    """In the guest, by its clock: the timer's handler wakes the thread that waits."""
    begun = due + AHEAD + 2_400
    return [
        (begun, READERS_CPU, IRQ_ENTRY, 0, GUEST_IRQ),
        (begun + 100, READERS_CPU, WAKING, 0, READER),
        (begun + 200, READERS_CPU, IRQ_EXIT, 0, GUEST_IRQ),
        (begun + 300, READERS_CPU, SWITCH, 0, READER),
    ]


def vm_host(*events: Event, threads: pl.DataFrame = THREADS, known: bool = True) -> VmHost:
    """known: whether the clocks were compared."""

    def ahead(at_ns: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return np.full(len(at_ns), AHEAD), np.full(len(at_ns), HALF), np.full(len(at_ns), known)

    return VmHost(trace(*events), ahead, threads)


def instants() -> list[int]:
    # Of one period alone the traces do not show by which instants the clocks differ.
    return [1_000_000 + number * PERIOD + number * number * 137 for number in range(COUNT)]


def followed(host: VmHost) -> dict[str, Any]:
    rows = [(1, number, due + AHEAD, due + AHEAD + 2_900, True) for number, due in enumerate(instants())]
    guest = [event for due in instants() for event in woken(due)]
    waits = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    (told,) = timer_wakings(waits, trace(*guest), KNOWN, READER, host).values()
    return told.document()


def test_a_timer_of_a_halted_vcpu_is_followed_from_the_vm_hosts_interrupt_on() -> None:
    document = followed(vm_host(*(event for due in instants() for event in halted(due))))
    assert (document["whole"], document["missing"]) == (COUNT, [])
    stops = ["wake_due", "host_irq", "host_waking", "host_run", "accepted", "entered", "irq", "waking", "run", "wake"]
    assert document["chain"]["stops"] == stops
    took = {(one["from"], one["to"]): one["p50"] for one in document["intervals"]}
    assert took == {
        ("wake_due", "host_irq"): 100,
        ("host_irq", "host_waking"): 200,
        ("host_waking", "host_run"): 600,
        ("host_run", "accepted"): 600,
        ("accepted", "entered"): 500,
        ("entered", "irq"): 400,
        ("irq", "waking"): 100,
        ("waking", "run"): 200,
        ("run", "wake"): 200,
    }


def test_a_timer_of_a_vcpu_in_its_guest_is_followed_from_the_handler_that_made_it_pending() -> None:
    document = followed(vm_host(*(event for due in instants() for event in interrupted(due))))
    took = {(one["from"], one["to"]): one["p50"] for one in document["intervals"]}
    assert took["wake_due", "host_irq"] == 200
    assert (took["host_irq", "accepted"], took["accepted", "entered"]) == (300, 1_500)
    assert document["entry"]["told"] == COUNT


def test_the_traces_compare_the_two_clocks_where_nothing_else_does() -> None:
    host = vm_host(*(event for due in instants() for event in halted(due)), known=False)
    entry = followed(host)["entry"]
    assert isinstance(entry, dict)
    # The first event of the guest follows its entry by 400.
    assert entry["told"] >= COUNT - 2 and entry["uncertainty_ns"] >= 200


def test_a_card_of_a_guest_is_not_taken_for_its_timer() -> None:
    packets, events = listened(100)
    host = [event for number in range(100) for event in halted(10_000 + number * 1_000 - 3_000 - AHEAD)]
    (found,) = receptions(packets, trace(*events), KNOWN, READER, vm_host(*host)).values()
    assert found.document()["entry"]["told"] == 0
    assert [(one["id"], one["n"]) for one in found.document()["missing"]] == [("no-vcpu-numbers", 100)]


def test_two_guests_with_a_vcpu_of_one_number_are_not_told_apart() -> None:
    twice = tasks((VCPU, "CPU 0/KVM", False), (OTHER_VCPU, "CPU 0/KVM", False))
    events = [event for due in instants() for event in halted(due)]
    other = (instants()[-1] + 3_000, 0, ENTRY, OTHER_VCPU, None)
    document = followed(vm_host(*events, other, threads=twice))
    assert [one["id"] for one in document["missing"]] == ["no-vcpu"]


def test_why_a_vcpu_trapped_is_not_guessed() -> None:
    events = [(500, 0, ENTRY, VCPU, None), (1_000, 0, EXIT, VCPU, INTERRUPTED, IN_KERNEL), *halted(10_000)]
    found = as_on_x86(trace(*events), THREADS)
    assert found is not None
    vcpu = np.zeros(2, np.int64)
    assert guest_states(np.array([700, 11_500]), vcpu, found) == [GUEST_KERNEL, None]


def test_what_others_make_pending_and_what_is_no_longer_is_not_taken() -> None:
    events = [(900, 0, PENDING, QEMU, 33, 1), (950, 0, PENDING, VCPU, VTIMER, 0), *interrupted(1_000)]
    found = as_on_x86(trace(*events), THREADS)
    assert found is not None
    assert found.filter(pl.col("event") == ACCEPT).rows() == [(1_500, 0, ACCEPT, 1, 0, VCPU, VTIMER, 0)]
    assert found.filter(pl.col("event") == TIMER_ENTRY)["tai_ns"].to_list() == [1_200]
    assert found.columns == trace(*events).columns


def test_a_trace_of_x86_stays_as_it_is() -> None:
    assert as_on_x86(trace((1_000, 0, ENTRY, VCPU, 0)), THREADS) is None
    assert as_on_x86(trace(), THREADS) is None
